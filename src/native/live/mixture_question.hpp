// One question of a mixture: the rows that its context reads with how far each is trusted, and
// which labels it allows.
#pragma once

#include <cmath>

#include "mixture.hpp"

namespace hammemo::live {

struct Said {
    int64_t column, number;
    double share;
};

// One row, or what tokens say by themselves.
struct Heard {
    uint32_t part;
    double trust;
    RowRef row;  // none where tokens speak
    // Whose labels the row has; null: those of the table of the sites.
    const MixtureTable* table = nullptr;
    const double* lost = nullptr;  // by entries of counts 0, 1, 2 and 3 or more
    double kept = 1;
    size_t first = 0, last = 0;  // without a row: places in the list of what is said
    double weight = 0;           // its share of all trust

    double gained(uint64_t count) const {
        return weight * (std::max(double(count) - lost[std::min<uint64_t>(count, 3)], 0.0) / kept);
    }
    // The most that a label of this count or a lower one gains: an entry of two may have less left
    // than one of one.
    double most_gained(uint64_t count) const {
        if (!count) {
            return 0;
        }
        return std::max(gained(count), std::max(gained(1), count > 1 ? gained(2) : 0.0));
    }
};

struct Scored {
    double score;
    int64_t column;
    bool operator<(const Scored& other) const {  // the better one first
        return score != other.score ? score > other.score : column < other.column;
    }
};

// The labels that a context allows; the list of the last one is forgotten in no time.
class Allowed {
public:
    Allowed(const LabelMask& mask, size_t n_columns)
        : mask_(mask), n_columns_(n_columns), marks_(marks_of_this_thread()) {}

    void start(size_t context) {
        if (!mask_.starts) {
            return;
        }
        if (marks_.stamps.size() < n_columns_) {
            marks_.stamps.assign(n_columns_, 0);
            marks_.stamp = 0;
        }
        if (++marks_.stamp == 0) {
            std::fill(marks_.stamps.begin(), marks_.stamps.end(), 0);
            marks_.stamp = 1;
        }
        n_listed_ = 0;
        for (int64_t i = mask_.starts[context]; i < mask_.starts[context + 1]; ++i) {
            const int64_t column = mask_.listed.at(i);
            if (column < 0 || uint64_t(column) >= n_columns_) {
                continue;
            }
            n_listed_ += marks_.stamps[size_t(column)] != marks_.stamp;
            marks_.stamps[size_t(column)] = marks_.stamp;
        }
    }
    bool operator()(int64_t column) const {
        if (mask_.open && !load_once(mask_.open + column)) {
            return false;
        }
        return !mask_.starts ||
               (marks_.stamps[size_t(column)] == marks_.stamp) == mask_.lists_allow;
    }
    bool is_list() const {
        return mask_.starts && mask_.lists_allow;
    }  // only listed labels are allowed
    size_t n_listed() const { return n_listed_; }

private:
    struct Marks {
        std::vector<uint32_t> stamps;
        uint32_t stamp = 0;
    };
    static Marks& marks_of_this_thread() {
        static thread_local Marks marks;
        return marks;
    }
    const LabelMask& mask_;
    const size_t n_columns_;
    Marks& marks_;
    size_t n_listed_ = 0;
};

// What was heard of one context, and the prior of every label.
class Question {
public:
    Question(const Mixture& mixture, const LabelMask& mask, uint32_t power)
        : mixture(mixture),
          labels(mixture.sites->table->labels(mixture.sites->version)),
          allowed(mask, mixture.n_labels),
          all_(double(mixture.sites->table->examples(mixture.sites->version)) +
               0.5 * double(mixture.n_labels)),
          power_(power),
          least_popularity_(popularity(1, power)) {}

    const Mixture& mixture;
    const RowRef labels;
    Allowed allowed;
    std::vector<Heard> heard;
    std::vector<Said> said;

    void start(size_t context) {
        heard.clear();
        said.clear();
        allowed.start(context);
    }

    // After all was heard: give each its weight.
    void weigh() {
        const double of_prior = mixture.trust[0];
        double total = 0;
        for (size_t i = 0; i < heard.size();) {  // each part is added up first, as NumPy does it
            double of_part = 0;
            const uint32_t part = heard[i].part;
            for (; i < heard.size() && heard[i].part == part; ++i) {
                of_part += heard[i].trust;
            }
            total += of_part;
        }
        total = of_prior + total;
        prior_ = of_prior / total;
        for (Heard& one : heard) {
            one.weight = one.trust / total;
        }
    }

    // The score of a label that gains so much from rows and has so many examples; and a bound:
    // every label has an example.
    double score(double gained, uint64_t examples) const {
        const double probability = gained + prior_of(examples);
        return power_ ? probability / popularity(examples, power_) : probability;
    }
    double most_score(double probability) const { return probability / least_popularity_; }
    double prior_of(uint64_t examples) const { return prior_ * ((double(examples) + 0.5) / all_); }
    int64_t column_of(int64_t number) const {
        const int64_t column = mixture.columns.at(number);
        return column >= 0 && uint64_t(column) < mixture.n_labels ? column : -1;
    }

    // use(column, number, what it gains) for each label of the model that a row holds, or tokens
    // say.
    template <class Use>
    void each(const Heard& one, const Use& use) const {
        for (size_t i = one.first; i < one.last; ++i) {
            use(said[i].column, said[i].number, one.weight * said[i].share);
        }
        one.row.each([&](uint32_t label, uint64_t count) {
            const int64_t number = number_of(one, label);
            const int64_t column = column_of(number);
            if (column >= 0) {
                use(column, number, one.gained(count));
            }
        });
    }
    // A label's number in the table of the sites, by its number in the table of a row.
    static int64_t number_of(const Heard& one, uint32_t label) {
        return one.table ? one.table->labels.at(label) : int64_t(label);
    }
    static uint64_t count_in(const Heard& one, int64_t number) {
        const int64_t label = one.table ? one.table->numbers.at(number) : number;
        return label < 0 || uint64_t(label) >= (uint64_t(1) << 32)
                   ? 0
                   : one.row.count_of(uint32_t(label));
    }

private:
    const double all_;
    const uint32_t power_;
    const double least_popularity_;
    double prior_ = 0;
};

// Adds up what a label gains in the order of what was heard: each part first, as NumPy does it.
struct PartSum {
    uint32_t part = ~0U;
    double sum = 0, of_part = 0;
    void add(uint32_t from, double value) {
        if (from != part) {
            sum += of_part;
            of_part = 0;
            part = from;
        }
        of_part += value;
    }
    double total() const { return sum + of_part; }
};

}  // namespace hammemo::live
