// The leading labels of contexts, by Fagin's threshold algorithm.
//
// The score of a label is the weighted sum of its counts in the rows that the sites of a context
// read. Rows are sorted by count, so their heads bound what a label can have that was not met yet:
// read the rows from the top, each time the one with the largest head, look every new label up in
// the other rows, and stop when the sum of the heads cannot reach the k-th best. Equal scores go in
// the order of the labels; a label that would reach the sum of the heads exactly stands, in each
// row, at the head or behind it, and there, among equal counts, labels are in order.
//
// With whole-number weights all sums are exact; short rows are then added up at once. Other weights
// are added in the order of the sites, as NumPy does it, and the bound gets a margin for rounding.
#pragma once

#include <cmath>
#include <utility>

#include "live_table.hpp"

#ifdef __GNUC__
#define HAMMEMO_PREFETCH(address) __builtin_prefetch(address)
#else
#define HAMMEMO_PREFETCH(address) ((void)(address))
#endif

namespace hammemo::live {

// Finds the row that each step of a few contexts reads, waiting for memory once for all of them.
template <class Count>
class Locator {
    using R = Row<Count>;
    using Rows = Trie<uint64_t, R, 6, 32>;

public:
    static constexpr size_t BLOCK = 16;

    Locator(const Shape& shape, Page* const* roots) : shape_(shape), roots_(roots) {
        std::vector<uint32_t> depths;
        for (uint32_t k = 0; k < shape.steps.size(); ++k) {
            const uint32_t parent = shape.steps[k].parent;
            depths.push_back(parent == NO_STEP ? 0 : depths[parent] + 1);
            if (depths.back() >= levels_.size()) {
                levels_.resize(depths.back() + 1);
            }
            levels_[depths.back()].push_back(k);
        }
        sought_.reserve(BLOCK * shape.steps.size());
    }

    void locate_in(Page* const* roots, const int64_t* tokens, size_t n, const R** rows) {
        roots_ = roots;
        locate(tokens, n, rows);
    }

    // rows: n * (number of steps) places.
    void locate(const int64_t* tokens, size_t n, const R** rows) {
        const size_t n_steps = shape_.steps.size();
        for (const auto& level : levels_) {
            sought_.clear();
            for (size_t i = 0; i < n; ++i) {
                for (const uint32_t k : level) {
                    seek(tokens + i * shape_.h, k, rows + i * n_steps);
                }
            }
            descend();
        }
        for (const R** row = rows; row != rows + n * n_steps; ++row) {
            if (*row && (*row)->n > 1) {
                HAMMEMO_PREFETCH((*row)->page);
            }
        }
        for (const R** row = rows; row != rows + n * n_steps; ++row) {
            if (*row && (*row)->n > MAX_IN_PAGE) {
                HAMMEMO_PREFETCH((*row)->as_long()->first);
                HAMMEMO_PREFETCH((*row)->as_long()->counts);
            }
        }
    }

private:
    struct Sought {
        const Page* page;
        uint64_t at;
        const R** row;
        int shift;
    };

    void seek(const int64_t* tokens, uint32_t k, const R** rows) {
        const Step& step = shape_.steps[k];
        // Each token is loaded once: another thread may write to the array.
        const int64_t token = load_once(tokens + step.position);
        const R* parent = step.parent == NO_STEP ? nullptr : rows[step.parent];
        rows[k] = nullptr;
        if (token < 0 || token >= int64_t(NO_TOKEN) || !roots_[k] ||
            (step.parent != NO_STEP && !parent)) {
            return;
        }
        sought_.push_back({roots_[k],
                           scramble(uint64_t(parent ? parent->id : 0) << 32 | uint64_t(token)),
                           rows + k,
                           0});
    }

    void descend() {
        for (bool more = true; more;) {
            more = false;
            for (Sought& s : sought_) {
                if (s.page->kind == TRIE_NODE) {
                    s.page = Rows::slots(s.page)[Rows::slot(s.at, s.shift)];
                    HAMMEMO_PREFETCH(s.page);
                    s.shift += 6;
                    more = true;
                }
            }
        }
        for (const Sought& s : sought_) {
            HAMMEMO_PREFETCH(Rows::expect_at(s.page, s.at, s.shift));
        }
        for (const Sought& s : sought_) {
            *s.row = Rows::find_in(s.page, s.at, s.shift);
        }
    }

    const Shape& shape_;
    Page* const* roots_;
    std::vector<std::vector<uint32_t>> levels_;
    std::vector<Sought> sought_;
};

// Sums by label, emptied in no time.
class Sums {
public:
    struct Cell {
        uint32_t stamp, label;
        double sum;
        bool met;
    };
    Sums() : cells_(1024) {}
    static Sums& of_this_thread() {
        static thread_local Sums sums;
        return sums;
    }
    void start() {
        touched_.clear();
        if (++stamp_ == 0) {
            for (Cell& cell : cells_) {
                cell.stamp = 0;
            }
            stamp_ = 1;
        }
    }
    Cell& at(uint32_t label) {
        if (2 * (touched_.size() + 1) > cells_.size()) {
            grow();
        }
        Cell& cell = find(label);
        if (cell.stamp != stamp_) {
            cell = {stamp_, label, 0.0, false};
            touched_.push_back(label);
        }
        return cell;
    }
    const std::vector<uint32_t>& touched() const { return touched_; }

private:
    Cell& find(uint32_t label) {
        const size_t mask = cells_.size() - 1;
        size_t i = (label * 2654435769U >> 7) & mask;
        while (cells_[i].stamp == stamp_ && cells_[i].label != label) {
            i = (i + 1) & mask;
        }
        return cells_[i];
    }
    void grow() {
        count_allocation();
        std::vector<Cell> before(2 * cells_.size());
        before.swap(cells_);
        for (const Cell& cell : before) {
            if (cell.stamp == stamp_) {
                find(cell.label) = cell;
            }
        }
    }

    std::vector<Cell> cells_;
    std::vector<uint32_t> touched_;
    uint32_t stamp_ = 0;
};

template <class Count>
class Leaders {
    using R = Row<Count>;
    static constexpr uint32_t MAX_WHOLE_ROW = 16;  // entries up to which a row is added up whole
    // 2^50: sums and quotients below it keep their order.
    static constexpr double EXACT = 1125899906842624.0;

public:
    // Each question reads n_rows rows, any of them null, with weights that are not negative;
    // `whole`: all weights are whole numbers below 2^50. Sums are divided by `divisor`. Labels have
    // numbers below n_labels; up to `most_listed` of them are added up in a list.
    Leaders(size_t n_rows,
            bool whole,
            double divisor,
            size_t k,
            const uint64_t* ranks,
            size_t n_labels,
            size_t most_listed)
        : n_rows_(n_rows),
          k_(k),
          n_labels_(n_labels),
          most_listed_(std::min(most_listed, MAX_LISTED)),
          ranks_(ranks),
          whole_(whole),
          divisor_(divisor),
          margin_(1.0 + double(n_rows + 4) * 0x1p-51),
          heads_(n_rows),
          sums_(Sums::of_this_thread()) {
        best_.reserve(k + 1);
    }

    static bool are_whole(const double* weights, size_t n) {
        return std::all_of(weights, weights + n, [](double weight) {
            return weight == std::floor(weight) && weight < EXACT;
        });
    }

    // Rows may be those of sites or others, such as that of the labels' examples; each question may
    // have other weights.
    void find(const R* const* rows, const double* weights, int64_t* out) {
        best_.clear();
        sums_.start();
        rows_ = rows;
        weights_ = weights;
        if (n_labels_ <= most_listed_) {
            by_sums();
        } else {
            by_threshold();
        }
        for (size_t i = 0; i < k_; ++i) {
            out[i] = i < best_.size() ? int64_t(best_[i].label) : -1;
        }
    }

private:
    struct Best {
        double score;
        uint32_t label;
    };
    struct Head {
        Cursor<Count> cursor;
        const R* row;
        double weight, value;  // value: what a label at the head has from this row, 0 at the end
        const Page* sought;    // where the look-up of a label in this row is; none in a short row
        int shift;
    };

    bool better(double score, uint32_t label, const Best& other) const {
        return score > other.score || (score == other.score && ranks_[label] < ranks_[other.label]);
    }
    bool full() const { return best_.size() == k_; }
    void give(double sum, uint32_t label) {
        const double score = sum / divisor_;
        if (full()) {
            if (!better(score, label, best_.back())) {
                return;
            }
            best_.pop_back();
        }
        size_t i = best_.size();
        best_.push_back({score, label});
        for (; i && better(score, label, best_[i - 1]); --i) {
            best_[i] = best_[i - 1];
        }
        best_[i] = {score, label};
    }

    // Few labels: all sums, in the order of the sites.
    void by_sums() {
        double sums[MAX_LISTED] = {};
        for (size_t s = 0; s < n_rows_; ++s) {
            if (rows_[s]) {
                rows_[s]->each(
                    [&](const Entry<Count>& e) { sums[e.label] += weights_[s] * double(e.count); });
            }
        }
        for (uint32_t label = 0; label < n_labels_; ++label) {
            if (sums[label] > 0) {
                give(sums[label], label);
            }
        }
    }

    void by_threshold() {
        n_heads_ = 0;
        double total = 0;
        for (size_t s = 0; s < n_rows_; ++s) {
            const R* row = rows_[s];
            const double weight = weights_[s];
            if (!row || !row->n || weight == 0) {
                continue;
            }
            if (row->n == 1 || (row->n <= MAX_WHOLE_ROW && !row->is_long())) {
                for (uint32_t i = 0; i < row->n; ++i) {
                    sums_.at(row->run()[i].label).sum += weight * double(row->run()[i].count);
                }
            } else {
                Head& head = heads_[n_heads_++];
                head = {Cursor<Count>(*row), row, weight, 0, nullptr, 0};
                total += head.value = weight * double((*head.cursor).count);
            }
        }
        const size_t n_short = sums_.touched().size();
        read_heads(total);
        // A label of the short rows that was not met in a long one has at most the rest of the
        // heads beside its sum.
        const double rest = bound(total_);
        for (size_t i = 0; i < n_short; ++i) {
            auto& cell = sums_.at(sums_.touched()[i]);
            if (!cell.met && (!full() || (cell.sum + rest) * (whole_ ? 1 : margin_) / divisor_ >=
                                             best_.back().score)) {
                give(score_of(cell.label, cell.sum), cell.label);
            }
        }
    }

    double bound(double total) const {
        if (whole_) {
            return total;
        }
        double sum = 0;  // anew: differences of rounded sums drift
        for (size_t i = 0; i < n_heads_; ++i) {
            sum += heads_[i].value;
        }
        return sum * margin_;
    }

    void read_heads(double total) {
        total_ = total;
        while (n_heads_) {
            size_t top = 0;
            for (size_t i = 1; i < n_heads_; ++i) {
                if (heads_[i].value > heads_[top].value) {
                    top = i;
                }
            }
            Head& head = heads_[top];
            if (!(head.value > 0)) {
                break;
            }
            const uint32_t label = (*head.cursor).label;
            total_ -= head.value;
            head.value = head.cursor.next() ? head.weight * double((*head.cursor).count) : 0.0;
            total_ += head.value;
            auto& cell = sums_.at(label);
            if (!cell.met) {
                cell.met = true;
                give(score_of(label, cell.sum), label);
            }
            if (full() && is_decided()) {
                break;
            }
        }
    }

    // Whether no label that was not met can be among the best. (Those of the short rows are looked
    // at afterwards.)
    bool is_decided() const {
        const double most = bound(total_);
        const double most_score = most / divisor_;
        const double last = best_.back().score;
        if (last != most_score || !whole_ || !(most < EXACT)) {
            return last > most_score;
        }
        uint64_t least = 0;
        for (size_t i = 0; i < n_heads_; ++i) {
            if (heads_[i].value > 0) {
                least = std::max(least, ranks_[(*heads_[i].cursor).label]);
            }
        }
        return ranks_[best_.back().label] < least;
    }

    // The whole score, `sum` being what the short rows gave.
    double score_of(uint32_t label, double sum) {
        if (!whole_) {
            return in_site_order(label);
        }
        const uint32_t at = scramble(label);
        for (size_t i = 0; i < n_heads_; ++i) {
            if (!heads_[i].row->is_long()) {
                continue;
            }
            heads_[i].sought = heads_[i].row->as_long()->counts;
            heads_[i].shift = 0;
        }
        // All rows in step, so that their pages are fetched together.
        for (bool more = n_heads_ > 0; more;) {
            more = false;
            for (size_t i = 0; i < n_heads_; ++i) {
                Head& head = heads_[i];
                if (!head.sought || head.sought->kind != TRIE_NODE) {
                    continue;
                }
                head.sought = R::Counts::slots(head.sought)[R::Counts::slot(at, head.shift)];
                HAMMEMO_PREFETCH(head.sought);
                head.shift += 5;
                more = true;
            }
        }
        for (size_t i = 0; i < n_heads_; ++i) {
            const Head& head = heads_[i];
            if (!head.sought) {
                sum += head.weight * double(head.row->count_of(label));
            } else if (const Count* count = R::Counts::find_in(head.sought, at, head.shift)) {
                sum += head.weight * double(*count);
            }
        }
        return sum;
    }
    double in_site_order(uint32_t label) const {
        double sum = 0;
        for (size_t s = 0; s < n_rows_; ++s) {
            if (rows_[s] && rows_[s]->n) {
                sum += weights_[s] * double(rows_[s]->count_of(label));
            }
        }
        return sum;
    }

    const size_t n_rows_, k_, n_labels_, most_listed_;
    const uint64_t* ranks_;
    const bool whole_;
    const double divisor_, margin_;
    double total_ = 0;
    const R* const* rows_ = nullptr;
    const double* weights_ = nullptr;
    std::vector<Head> heads_;
    size_t n_heads_ = 0;
    std::vector<Best> best_;
    Sums& sums_;
};

}  // namespace hammemo::live
