// The leading labels of a mixture by Fagin's threshold algorithm, for contexts that read long rows.
//
// Short rows, and what tokens say, are added up and make one list by falling sum. Beside it are the
// long rows, sorted by count, and the labels by falling number of examples. The list with the
// largest head is read next; a label that is met for the first time gets its whole score, in the
// order in which all scores are added up. No label that was not met can have more than the sum of
// all heads, divided by the popularity of one example: once that is less than the k-th best score,
// the answer is known. Where this takes more than a part of the reads that whole rows need, as
// where a mask leaves little or scores are nearly equal, it is given up.
#pragma once

#include "by_column.hpp"
#include "mixture_question.hpp"

namespace hammemo::live {

class ThresholdLeaders {
public:
    // False: given up. `best` is in order.
    bool find(const Question& question, size_t k, std::vector<Scored>& best) {
        question_ = &question;
        best_ = &best;
        k_ = k;
        best.clear();
        notes_.clear();
        heads_.clear();
        shorts_.clear();
        cells_.start(question.mixture.n_labels);
        read_short_rows();
        if (!read_heads()) {
            return false;
        }
        std::sort_heap(best.begin(), best.end());
        return true;
    }

private:
    static constexpr int64_t RANDOM = 4;  // entries that are read in the time of one look-up

    struct Note {  // what a short row says of a label
        uint32_t heard;
        int32_t before;  // the note before this one, or -1
        double value;
    };
    struct Cell {
        int64_t number = -1;
        double sum = 0;
        int32_t last = -1;  // note
        bool is_met = false;
    };
    struct Head {
        RowCursor cursor;
        uint32_t heard;
        double value;  // the most that a label gains here that was not met yet
    };
    struct Short {
        double sum;
        int64_t column;
        bool operator<(const Short& other) const { return sum < other.sum; }
    };

    void read_short_rows() {
        const Question& q = *question_;
        reads_left_ = 0;
        for (uint32_t i = 0; i < q.heard.size(); ++i) {
            const Heard& one = q.heard[i];
            if (one.row.n() > q.mixture.most_whole) {
                heads_.push_back({RowCursor(one.row), i, 0.0});
                set_value(heads_.back());
                reads_left_ += int64_t(one.row.n()) * int64_t(q.mixture.patience) / 8;
                continue;
            }
            q.each(one, [&](int64_t column, int64_t number, double value) {
                Cell& cell = cells_[column];
                notes_.push_back({i, cell.last, value});
                cell.number = number;
                cell.sum += value;
                cell.last = int32_t(notes_.size() - 1);
            });
        }
        for (const int64_t column : cells_.touched()) {
            shorts_.push_back({cells_.at(column)->sum, column});
        }
        std::make_heap(shorts_.begin(), shorts_.end());
    }

    void set_value(Head& head) {
        head.value = question_->heard[head.heard].most_gained(head.cursor.count());
    }

    bool read_heads() {
        RowCursor labels(question_->labels);
        // Sums are rounded.
        const double margin = 1 + double(question_->heard.size() + 16) * 0x1p-50;
        while (!labels.is_at_end()) {  // every label has examples: at the end all were met
            const double prior = question_->prior_of(labels.count());
            const double of_shorts = shorts_.empty() ? 0 : shorts_[0].sum;
            double sum = prior + of_shorts;
            Head* top = heads_.data();
            for (Head& head : heads_) {
                sum += head.value;
                if (head.value > top->value) {
                    top = &head;
                }
            }
            if (best_->size() == k_ && (*best_)[0].score > question_->most_score(sum * margin)) {
                return true;
            }
            if (of_shorts >= top->value && of_shorts >= prior && of_shorts > 0) {
                meet(shorts_[0].column, cells_.at(shorts_[0].column)->number);
                std::pop_heap(shorts_.begin(), shorts_.end());
                shorts_.pop_back();
            } else if (top->value >= prior && top->value > 0) {
                const Heard& one = question_->heard[top->heard];
                const int64_t number = Question::number_of(one, top->cursor.label());
                meet(question_->column_of(number), number);
                top->cursor.next();
                set_value(*top);
            } else {
                meet(question_->column_of(labels.label()), labels.label());
                labels.next();
            }
            if (--reads_left_ < 0) {
                return false;
            }
        }
        return true;
    }

    void meet(int64_t column, int64_t number) {
        if (column < 0) {
            return;
        }
        Cell& cell = cells_[column];
        if (cell.is_met) {
            return;
        }
        cell.is_met = true;
        cell.number = number;
        if (!question_->allowed(column)) {
            return;
        }
        reads_left_ -= RANDOM * int64_t(heads_.size());
        const Scored scored{score_of(cell), column};
        if (best_->size() == k_) {  // a heap whose first is the worst
            if (!(scored < (*best_)[0])) {
                return;
            }
            std::pop_heap(best_->begin(), best_->end());
            best_->pop_back();
        }
        best_->push_back(scored);
        std::push_heap(best_->begin(), best_->end());
    }

    double score_of(const Cell& cell) {
        own_.clear();
        for (int32_t i = cell.last; i >= 0; i = notes_[size_t(i)].before) {
            own_.push_back(notes_[size_t(i)]);
        }
        PartSum sum;
        for (const Head& head : heads_) {
            for (; !own_.empty() && own_.back().heard < head.heard; own_.pop_back()) {
                add(sum, own_.back());
            }
            const Heard& one = question_->heard[head.heard];
            if (const uint64_t count = Question::count_in(one, cell.number)) {
                sum.add(one.part, one.gained(count));
            }
        }
        for (; !own_.empty(); own_.pop_back()) {
            add(sum, own_.back());
        }
        return question_->score(sum.total(), question_->labels.count_of(uint32_t(cell.number)));
    }
    void add(PartSum& sum, const Note& note) const {
        sum.add(question_->heard[note.heard].part, note.value);
    }

    const Question* question_ = nullptr;
    std::vector<Scored>* best_ = nullptr;
    size_t k_ = 0;
    int64_t reads_left_ = 0;
    ByColumn<Cell> cells_{0};
    std::vector<Note> notes_, own_;
    std::vector<Head> heads_;
    std::vector<Short> shorts_;
};

}  // namespace hammemo::live
