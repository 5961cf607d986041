#include "mixture.hpp"

#include <algorithm>
#include <cmath>

#include "by_column.hpp"
#include "mixture_question.hpp"
#include "mixture_threshold.hpp"

namespace hammemo::live {

namespace {

constexpr double MIN_SHARE = 1e-3, MIN_KEPT = 1e-9;
constexpr size_t MAX_FREQUENT = 256;

struct LabelSum : PartSum {
    int64_t number = -1, examples = -1;  // examples: where they were looked up
};

class Answerer {
public:
    Answerer(const Mixture& mixture,
             const int64_t* numbers,
             size_t n_ranks,
             const LabelMask& mask,
             uint32_t power)
        : mixture_(mixture),
          numbers_(numbers),
          n_ranks_(n_ranks),
          h_(mixture.sites->table->shape().h),
          n_sites_(mixture.sites->table->shape().site_steps.size()),
          question_(mixture, mask, power),
          sums_(sums_of_this_thread()),
          threshold_(threshold_of_this_thread()) {
        tokens_.resize(h_);
        ranks_.resize(h_);
        rows_.resize(n_sites_);
        nearest_.resize(n_ranks);
    }

    void answer(size_t context, const int64_t* ranks, size_t k, int64_t* out, double* scores) {
        for (size_t i = 0; i < h_; ++i) {
            const int64_t rank = load_once(ranks + i);
            ranks_[i] = rank < 0 || uint64_t(rank) >= n_ranks_ ? -1 : rank;
            if (ranks_[i] >= 0) {
                nearest_[size_t(ranks_[i])] = h_ - i;  // the last one is the nearest
            }
        }
        question_.start(context);
        read_sites();
        for (size_t p = 0; p < mixture_.parts.size(); ++p) {
            read_part(uint32_t(p + 1), mixture_.parts[p]);
        }
        question_.weigh();
        if (!is_for_threshold(k) || !threshold_.find(question_, k, best_)) {
            add_up();
            choose(k);
        }
        for (size_t i = 0; i < k; ++i) {
            out[i] = i < best_.size() ? best_[i].column : -1;
        }
        for (size_t i = 0; scores && i < k; ++i) {
            scores[i] = i < best_.size() ? best_[i].score : std::nan("");
        }
    }

private:
    static ByColumn<LabelSum>& sums_of_this_thread() {
        static thread_local ByColumn<LabelSum> sums(1 << 16);
        return sums;
    }
    static ThresholdLeaders& threshold_of_this_thread() {
        static thread_local ThresholdLeaders threshold;
        return threshold;
    }

    double trust_of(size_t component, size_t bucket) const {
        return mixture_.trust[component * Mixture::BUCKETS + bucket];
    }
    bool is_used(
        size_t component) const {  // a component without trust adds zeros to whatever its row holds
        const double* trust = mixture_.trust.data() + component * Mixture::BUCKETS;
        return std::any_of(trust, trust + Mixture::BUCKETS, [](double value) { return value > 0; });
    }
    // By which number a token is known: 0 in the table of the sites, then in the other tables, last
    // as a label.
    int64_t number(size_t table, int64_t rank) const {
        return rank < 0 ? -1 : numbers_[table * n_ranks_ + size_t(rank)];
    }

    void read_sites() {
        for (size_t i = 0; i < h_; ++i) {
            tokens_[i] = number(0, ranks_[i]);
        }
        mixture_.sites->table->find(mixture_.sites->version, tokens_.data(), rows_.data());
        for (size_t s = 0; s < n_sites_; ++s) {
            if (is_used(1 + s)) {
                hear(0, 1 + s, s, rows_[s], nullptr);
            }
        }
    }

    void read_part(uint32_t part, const FreePart& site) {
        if (site.kind == FreePart::Kind::RECENT) {
            read_recent(part, site);
            return;
        }
        size_t length = 0;
        for (size_t d = 1; d <= site.reach; ++d) {
            length += ranks_[h_ - d] >= 0;
        }
        const size_t bucket = std::min(length ? length - 1 : 0, Mixture::COPY_BUCKETS - 1);
        for (size_t d = 1; d <= site.reach; ++d) {
            const int64_t rank = ranks_[h_ - d];
            if (rank < 0 || nearest_[size_t(rank)] < d) {
                continue;
            }
            const size_t component = site.component + std::min(d, Mixture::NEAREST) - 1;
            if (site.kind == FreePart::Kind::COPY) {
                hear_token(part, trust_of(component, bucket), rank);
            } else {
                read_row(part, component, site.table, rank);
            }
        }
    }

    void read_row(uint32_t part, size_t component, size_t table, int64_t rank) {
        const int64_t token = number(1 + table, rank);
        if (token < 0 || !is_used(component)) {
            return;
        }
        const MixtureTable& from = mixture_.tables[table];
        RowRef row;
        from.handle->table->find(from.handle->version, &token, &row);
        hear(part, component, n_sites_ + table, row, &from);
    }

    // Take in a row, and how far it is trusted.
    void hear(uint32_t part,
              size_t component,
              size_t discounts,
              const RowRef& row,
              const MixtureTable* table) {
        const double* lost = mixture_.discounts.data() + 4 * discounts;
        const Tally tally = row.tally();
        const double more = double(row.n() - tally.ones - tally.twos);
        const double discounted =
            double(tally.ones) * lost[1] + double(tally.twos) * lost[2] + more * lost[3];
        const double kept = double(tally.total) - discounted;
        if (!tally.total || !(kept > MIN_KEPT)) {
            return;
        }
        const double share =
            std::min(std::max(discounted / double(tally.total), MIN_SHARE), 1 - MIN_SHARE);
        int exponent = 0;
        std::frexp(double(tally.total), &exponent);
        const size_t bucket = std::min(size_t(exponent - 1), Mixture::BUCKETS - 1);
        question_.heard.push_back(
            {part, trust_of(component, bucket) * ((1 - share) / share), row, table, lost, kept});
    }

    void hear_tokens(uint32_t part, double trust, size_t first) {
        Heard heard{};
        heard.part = part;
        heard.trust = trust;
        heard.first = first;
        heard.last = question_.said.size();
        if (heard.first < heard.last) {
            question_.heard.push_back(heard);
        }
    }

    void hear_token(uint32_t part, double trust, int64_t rank) {
        const size_t first = question_.said.size();
        say(rank);
        hear_tokens(part, trust, first);
    }

    void read_recent(uint32_t part, const FreePart& site) {
        auto& said = question_.said;
        const size_t first = said.size();
        for (size_t d = site.reach; d >= 1; --d) {
            say(ranks_[h_ - d]);
        }
        const double share = 1.0 / double(std::max<size_t>(said.size() - first, 1));
        for (size_t i = first; i < said.size(); ++i) {
            said[i].share = share;
        }
        hear_tokens(part, trust_of(site.component, 0), first);
    }

    // That the label is this token.
    void say(int64_t rank) {
        const int64_t number = label_of(rank);
        const int64_t column = question_.column_of(number);
        if (column >= 0) {
            question_.said.push_back({column, number, 1.0});
        }
    }

    int64_t label_of(int64_t rank) const { return number(1 + mixture_.tables.size(), rank); }

    bool is_for_threshold(
        size_t k) const {  // few labels of a list are found sooner by reading whole rows
        const auto is_long = [&](const Heard& one) { return one.row.n() > mixture_.most_whole; };
        return k && !question_.allowed.is_list() &&
               std::any_of(question_.heard.begin(), question_.heard.end(), is_long);
    }

    void add_up() {
        sums_.start(mixture_.n_labels);
        for (const Heard& heard : question_.heard) {
            question_.each(heard, [&](int64_t column, int64_t number, double value) {
                LabelSum& sum = sums_[column];
                sum.number = number;
                sum.add(heard.part, value);
            });
        }
    }

    // The labels with most examples are gone through first; all others have a prior that is no
    // higher than the last of these. So of the labels in rows few remain whose examples must be
    // looked up.
    void choose(size_t k) {
        best_.clear();
        for (const int64_t column : sums_.touched()) {
            if (question_.allowed(column)) {
                best_.push_back({sums_.at(column)->total(), column});
            }
        }
        const size_t n_heard = best_.size();
        if (best_.size() > k && k) {
            drop_hopeless(k);
        }
        for (Scored& one : best_) {
            one.score = score_of(one);
        }
        add_others(k, n_heard);
        const size_t n_found = std::min(k, best_.size());
        std::partial_sort(best_.begin(), best_.begin() + long(n_found), best_.end());
        best_.resize(n_found);
    }

    double score_of(const Scored& one) const {  // `one` has what the label gains from rows
        const LabelSum& sum = *sums_.at(one.column);
        return question_.score(one.score,
                               sum.examples >= 0 ? uint64_t(sum.examples)
                                                 : question_.labels.count_of(uint32_t(sum.number)));
    }

    void drop_hopeless(size_t k) {
        double most = 0;
        size_t n_frequent = 0;
        for (RowCursor at(question_.labels); !at.is_at_end() && n_frequent < MAX_FREQUENT;
             at.next(), ++n_frequent) {
            most = question_.prior_of(at.count());
            const int64_t column = question_.column_of(at.label());
            if (LabelSum* sum = column < 0 ? nullptr : sums_.at(column)) {
                sum->examples = int64_t(at.count());
            }
        }
        std::nth_element(best_.begin(), best_.begin() + long(k - 1), best_.end());
        double least = score_of(best_[0]);
        for (size_t i = 1; i < k; ++i) {
            least = std::min(least, score_of(best_[i]));
        }
        const auto hopeless = [&](const Scored& one) {
            const int64_t examples = sums_.at(one.column)->examples;
            const double prior = examples < 0 ? most : question_.prior_of(uint64_t(examples));
            return question_.most_score((one.score + prior) * (1 + 0x1p-48)) < least;
        };
        best_.erase(std::remove_if(best_.begin() + long(k), best_.end(), hopeless), best_.end());
    }

    // Labels that no row holds: nothing but their prior.
    void add_others(size_t k, size_t n_heard) {
        const bool is_full = best_.size() >= k && k;
        if (is_full) {
            std::nth_element(best_.begin(), best_.begin() + long(k - 1), best_.end());
        }
        const double last = is_full ? best_[k - 1].score : 0;
        const Allowed& allowed = question_.allowed;
        size_t others =
            allowed.is_list()
                ? std::min(k, allowed.n_listed() - std::min(allowed.n_listed(), n_heard))
                : k;
        for (RowCursor at(question_.labels); others && !at.is_at_end(); at.next()) {
            const double score = question_.score(0, at.count());
            if (is_full && score < last) {
                return;
            }
            const int64_t column = question_.column_of(at.label());
            if (column >= 0 && !sums_.at(column) && allowed(column)) {
                best_.push_back({score, column});
                --others;
            }
        }
    }

    const Mixture& mixture_;
    const int64_t* numbers_;
    const size_t n_ranks_, h_, n_sites_;
    Question question_;
    ByColumn<LabelSum>& sums_;
    ThresholdLeaders& threshold_;
    std::vector<int64_t> tokens_, ranks_;
    std::vector<RowRef> rows_;     // by site
    std::vector<size_t> nearest_;  // by rank: how far from the end its token stands in this context
    std::vector<Scored> best_;
};

}  // namespace

void mixture_leaders(const Mixture& mixture,
                     const int64_t* ranks,
                     size_t m,
                     const int64_t* numbers,
                     size_t n_ranks,
                     const LabelMask& mask,
                     uint32_t power,
                     size_t k,
                     int64_t* out,
                     double* scores) {
    Answerer answerer(mixture, numbers, n_ranks, mask, power);
    const size_t h = mixture.sites->table->shape().h;
    for (size_t i = 0; i < m; ++i) {
        answerer.answer(i, ranks + i * h, k, out + i * k, scores ? scores + i * k : nullptr);
    }
}

}  // namespace hammemo::live
