#include "mixture.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace hammemo::live {

namespace {

constexpr double MIN_SHARE = 1e-3, MIN_KEPT = 1e-9;
constexpr size_t MAX_FREQUENT = 256;

// Sums by column, emptied in no time. Up to MAX_PLACED columns have a place each; more are found by hashing, so that what
// is kept grows with the labels that rows hold and not with all.
class LabelSums {
public:
    struct Cell {
        uint32_t stamp = 0, part = 0;  // `part`: the last one that added to it
        int64_t column = 0, number = 0;
        double sum = 0, of_part = 0;
        int64_t examples = -1;  // of the label, where they were looked up
    };

    static LabelSums& of_this_thread() {
        static thread_local LabelSums sums;
        return sums;
    }

    void start(size_t n_columns) {
        if (n_columns <= MAX_PLACED && cells_.size() < n_columns) cells_.assign(n_columns, {}), stamp_ = 0;
        is_placed_ = n_columns <= MAX_PLACED;
        const bool is_power = !(cells_.size() & (cells_.size() - 1)) && cells_.size() >= 1024;
        const bool is_far_too_large = cells_.size() > MAX_PLACED && 64 * touched_.size() < cells_.size();  // by the last use
        if (!is_placed_ && (!is_power || is_far_too_large)) std::vector<Cell>(1024).swap(cells_), stamp_ = 0;
        touched_.clear();
        if (++stamp_ == 0) {
            for (Cell& cell : cells_) cell.stamp = 0;
            stamp_ = 1;
        }
    }

    void add(uint32_t part, int64_t column, int64_t number, double value) {
        if (!is_placed_ && 2 * (touched_.size() + 1) > cells_.size()) grow();
        Cell& cell = find(column);
        if (cell.stamp != stamp_) {
            cell = {stamp_, part, column, number, 0.0, value, -1};
            touched_.push_back(column);
        } else if (cell.part != part) {  // each part is added up first, as NumPy does it
            cell.sum += cell.of_part;
            cell.part = part;
            cell.of_part = value;
        } else {
            cell.of_part += value;
        }
    }

    const std::vector<int64_t>& touched() const { return touched_; }
    Cell* at(int64_t column) {
        Cell& cell = find(column);
        return cell.stamp == stamp_ ? &cell : nullptr;
    }

private:
    static constexpr size_t MAX_PLACED = 1 << 16;

    Cell& find(int64_t column) {
        if (is_placed_) return cells_[size_t(column)];
        const size_t mask = cells_.size() - 1;
        size_t i = size_t(uint64_t(column) * 0x9e3779b97f4a7c15u >> 32) & mask;
        while (cells_[i].stamp == stamp_ && cells_[i].column != column) i = (i + 1) & mask;
        return cells_[i];
    }
    void grow() {
        std::vector<Cell> before(2 * cells_.size());
        before.swap(cells_);
        for (const Cell& cell : before)
            if (cell.stamp == stamp_) find(cell.column) = cell;
    }

    std::vector<Cell> cells_;
    std::vector<int64_t> touched_;
    uint32_t stamp_ = 0;
    bool is_placed_ = true;
};

struct Said {
    int64_t column, number;
    double share;  // of the row
};

// One row, or what a token says by itself.
struct Heard {
    uint32_t part;
    double trust;
    size_t first, last;  // places in the list of what is said
};

class Answerer {
public:
    Answerer(const Mixture& mixture, const int64_t* numbers, size_t n_ranks)
        : mixture_(mixture), numbers_(numbers), n_ranks_(n_ranks), h_(mixture.sites->table->shape().h),
          n_sites_(mixture.sites->table->shape().site_steps.size()), sums_(LabelSums::of_this_thread()) {
        n_examples_ = mixture.sites->table->examples(mixture.sites->version);
        all_ = double(n_examples_) + 0.5 * double(mixture.n_labels);
        tokens_.resize(h_);
        ranks_.resize(h_);
        nearest_.resize(n_ranks);
        wanted_ = std::make_unique<bool[]>(n_sites_);
        for (size_t s = 0; s < n_sites_; ++s) wanted_[s] = is_used(1 + s);
    }

    void answer(const int64_t* ranks, size_t k, int64_t* out) {
        for (size_t i = 0; i < h_; ++i) {
            const int64_t rank = *static_cast<const volatile int64_t*>(ranks + i);
            ranks_[i] = rank < 0 || uint64_t(rank) >= n_ranks_ ? -1 : rank;
            if (ranks_[i] >= 0) nearest_[size_t(ranks_[i])] = h_ - i;  // the last one is the nearest
        }
        heard_.clear();
        said_.clear();
        read_sites();
        for (size_t p = 0; p < mixture_.parts.size(); ++p) read_part(uint32_t(p + 1), mixture_.parts[p]);
        add_up();
        choose(k, out);
    }

private:
    double trust_of(size_t component, size_t bucket) const { return mixture_.trust[component * Mixture::BUCKETS + bucket]; }
    bool is_used(size_t component) const {  // a component without trust adds zeros to whatever its row holds
        const double* trust = mixture_.trust.data() + component * Mixture::BUCKETS;
        return std::any_of(trust, trust + Mixture::BUCKETS, [](double value) { return value > 0; });
    }
    // By which number a token is known: 0 in the table of the sites, then in the other tables, last as a label.
    int64_t number(size_t table, int64_t rank) const { return rank < 0 ? -1 : numbers_[table * n_ranks_ + size_t(rank)]; }

    void read_sites() {
        for (size_t i = 0; i < h_; ++i) tokens_[i] = number(0, ranks_[i]);
        const auto& handle = *mixture_.sites;
        const RowList rows = handle.table->read(handle.version, tokens_.data(), 1, wanted_.get());
        size_t first = 0;
        for (size_t s = 0; s < n_sites_; ++s) {
            hear(0, 1 + s, s, rows, first, rows.lengths[s], nullptr);
            first += rows.lengths[s];
        }
    }

    void read_part(uint32_t part, const FreePart& site) {
        if (site.kind == FreePart::Kind::RECENT) return read_recent(part, site);
        size_t length = 0;
        for (size_t d = 1; d <= site.reach; ++d) length += ranks_[h_ - d] >= 0;
        const size_t bucket = std::min(length ? length - 1 : 0, Mixture::COPY_BUCKETS - 1);
        for (size_t d = 1; d <= site.reach; ++d) {
            const int64_t rank = ranks_[h_ - d];
            if (rank < 0 || nearest_[size_t(rank)] < d) continue;
            const size_t component = site.component + std::min(d, Mixture::NEAREST) - 1;
            if (site.kind == FreePart::Kind::COPY)
                hear_token(part, trust_of(component, bucket), rank);
            else
                read_row(part, component, site.table, rank);
        }
    }

    void read_row(uint32_t part, size_t component, size_t table, int64_t rank) {
        const int64_t token = number(1 + table, rank);
        if (token < 0 || !is_used(component)) return;
        const MixtureTable& from = mixture_.tables[table];
        const RowList rows = from.handle->table->read(from.handle->version, &token, 1);
        hear(part, component, n_sites_ + table, rows, 0, rows.lengths[0], &from.labels);
    }

    // Take in the entries of a row whose labels are labels of the model, and how far the row is trusted.
    void hear(uint32_t part, size_t component, size_t discounts, const RowList& rows, size_t first, size_t n,
              const Numbers* labels) {
        const double* lost = mixture_.discounts.data() + 4 * discounts;
        const size_t start = said_.size();
        uint64_t total = 0, times[4] = {};
        for (size_t i = first; i < first + n; ++i) {
            const int64_t number = labels ? labels->at(rows.labels[i]) : int64_t(rows.labels[i]);
            const int64_t column = column_of(number);
            if (column < 0) continue;
            const uint64_t count = rows.counts[i], kind = std::min<uint64_t>(count, 3);
            total += count;
            ++times[kind];
            said_.push_back({column, number, std::max(double(count) - lost[kind], 0.0)});
        }
        const double discounted = double(times[1]) * lost[1] + double(times[2]) * lost[2] + double(times[3]) * lost[3];
        const double kept = double(total) - discounted;
        if (!total || !(kept > MIN_KEPT)) {
            said_.resize(start);
            return;
        }
        for (size_t i = start; i < said_.size(); ++i) said_[i].share /= kept;
        const double share = std::min(std::max(discounted / double(total), MIN_SHARE), 1 - MIN_SHARE);
        int exponent = 0;
        std::frexp(double(total), &exponent);
        const size_t bucket = std::min(size_t(exponent - 1), Mixture::BUCKETS - 1);
        heard_.push_back({part, trust_of(component, bucket) * ((1 - share) / share), start, said_.size()});
    }

    void hear_token(uint32_t part, double trust, int64_t rank) {
        const int64_t number = label_of(rank), column = column_of(number);
        if (column < 0) return;
        said_.push_back({column, number, 1.0});
        heard_.push_back({part, trust, said_.size() - 1, said_.size()});
    }

    void read_recent(uint32_t part, const FreePart& site) {
        const size_t start = said_.size();
        for (size_t d = site.reach; d >= 1; --d) {
            const int64_t number = label_of(ranks_[h_ - d]), column = column_of(number);
            if (column >= 0) said_.push_back({column, number, 0.0});
        }
        if (said_.size() == start) return;
        const double share = 1.0 / double(said_.size() - start);
        for (size_t i = start; i < said_.size(); ++i) said_[i].share = share;
        heard_.push_back({part, trust_of(site.component, 0), start, said_.size()});
    }

    int64_t label_of(int64_t rank) const { return number(1 + mixture_.tables.size(), rank); }
    int64_t column_of(int64_t number) const {
        const int64_t column = mixture_.columns.at(number);
        return column >= 0 && uint64_t(column) < mixture_.n_labels ? column : -1;
    }

    void add_up() {
        sums_.start(mixture_.n_labels);
        const double of_prior = trust_of(0, 0);
        double total = 0;
        for (size_t i = 0; i < heard_.size();) {  // each part is added up first
            double of_part = 0;
            const uint32_t part = heard_[i].part;
            for (; i < heard_.size() && heard_[i].part == part; ++i) of_part += heard_[i].trust;
            total += of_part;
        }
        total = of_prior + total;
        prior_ = of_prior / total;
        for (const Heard& heard : heard_) {
            const double weight = heard.trust / total;
            for (size_t i = heard.first; i < heard.last; ++i)
                sums_.add(heard.part, said_[i].column, said_[i].number, weight * said_[i].share);
        }
    }

    struct Scored {
        double score;
        int64_t column;
        bool operator<(const Scored& other) const {
            return score != other.score ? score > other.score : column < other.column;
        }
    };

    double prior_of(uint64_t examples) const { return prior_ * ((double(examples) + 0.5) / all_); }

    // The labels with most examples are gone through first; all others have a prior that is no higher than the last of these.
    // So of the labels in rows few remain whose examples must be looked up.
    void choose(size_t k, int64_t* out) {
        const auto& handle = *mixture_.sites;
        best_.clear();
        for (const int64_t column : sums_.touched()) {
            const auto& cell = *sums_.at(column);
            best_.push_back({cell.sum + cell.of_part, column});
        }
        if (best_.size() > k && k) {
            double most = 0;
            size_t n_frequent = 0;
            handle.table->each_label(handle.version, [&](uint32_t label, uint64_t count) {
                most = prior_of(count);
                auto* cell = column_of(label) < 0 ? nullptr : sums_.at(column_of(label));
                if (cell) cell->examples = int64_t(count);
                return ++n_frequent < MAX_FREQUENT;
            });
            std::nth_element(best_.begin(), best_.begin() + long(k - 1), best_.end());
            const double least = best_[k - 1].score;
            const auto hopeless = [&](const Scored& one) {
                const int64_t examples = sums_.at(one.column)->examples;
                return (one.score + (examples < 0 ? most : prior_of(uint64_t(examples)))) * (1 + 0x1p-50) < least;
            };
            best_.erase(std::remove_if(best_.begin() + long(k), best_.end(), hopeless), best_.end());
        }
        for (Scored& one : best_) {
            const auto& cell = *sums_.at(one.column);
            const bool is_known = cell.examples >= 0;
            one.score += prior_of(is_known ? uint64_t(cell.examples)
                                           : handle.table->label_count(handle.version, uint32_t(cell.number)));
        }
        const bool is_full = best_.size() >= k && k;
        if (is_full) std::nth_element(best_.begin(), best_.begin() + long(k - 1), best_.end());
        const double last = is_full ? best_[k - 1].score : 0;
        size_t others = 0;
        handle.table->each_label(handle.version, [&](uint32_t label, uint64_t count) {
            const double score = prior_of(count);
            if (others == k || (is_full && score < last)) return false;
            const int64_t column = column_of(label);
            if (column >= 0 && !sums_.at(column)) best_.push_back({score, column}), ++others;
            return true;
        });
        const size_t found = std::min(k, best_.size());
        std::partial_sort(best_.begin(), best_.begin() + long(found), best_.end());
        for (size_t i = 0; i < k; ++i) out[i] = i < found ? best_[i].column : -1;
    }

    const Mixture& mixture_;
    const int64_t* numbers_;
    const size_t n_ranks_, h_, n_sites_;
    uint64_t n_examples_ = 0;
    double all_ = 1, prior_ = 0;
    LabelSums& sums_;
    std::vector<int64_t> tokens_, ranks_;
    std::unique_ptr<bool[]> wanted_;  // by site
    std::vector<size_t> nearest_;  // by rank: how far from the end its token stands in this context
    std::vector<Heard> heard_;
    std::vector<Said> said_;
    std::vector<Scored> best_;
};

}  // namespace

void mixture_leaders(const Mixture& mixture, const int64_t* ranks, size_t m, const int64_t* numbers, size_t n_ranks, size_t k,
                     int64_t* out) {
    Answerer answerer(mixture, numbers, n_ranks);
    const size_t h = mixture.sites->table->shape().h;
    for (size_t i = 0; i < m; ++i) answerer.answer(ranks + i * h, k, out + i * k);
}

}  // namespace hammemo::live
