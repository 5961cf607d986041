// The leading labels of contexts where a label's examples matter, too: the threshold algorithm,
// band by band.
//
// In a band of labels with nearly as many examples each, a label that was not met yet has at most
// the prior of the band's most frequent label, and in each row at most what the head of the row's
// part of that band would gain with the fewest examples of the band. Bands are read in the order of
// these bounds, until the bound of the next one cannot reach the k-th best score. A site may also
// take from a score: then it is bounded by zero. Labels that no row holds, or that gain nothing,
// have at most their prior: those with the most examples are looked at first, until the next cannot
// reach the k-th best.
//
// All this is done with scores that are nearly right (`Rule::gain`). What is left is a few labels:
// those that come too near to each other get exact scores. Where even these are so near that
// rounding decides, and the labels do not have the same counts, the answer is not sure: all scores
// must be made, as NumPy makes them.
#pragma once

#include "leaders.hpp"
#include "rule.hpp"

namespace hammemo::live {

// What the votes on ratios need of a version.
template <class Count>
struct RatioView {
    const Row<Count>& labels;  // how many examples each label has
    const Bands& bands;
    const std::vector<Moved>& moved;  // labels that have left their band
    const uint64_t* ranks;
    double examples;
    size_t n_labels;  // also those without examples
};

template <class Count>
class RatioLeaders {
    using R = Row<Count>;
    static constexpr uint32_t MAX_WHOLE_ROW = 16;  // entries up to which a row is added up whole
    static constexpr size_t AHEAD = 3;  // bands whose memory is fetched before they are read

public:
    RatioLeaders(const Rule& rule, const RatioView<Count>& view, Replaced& replaced, size_t k)
        : rule_(rule),
          view_(view),
          replaced_(replaced),
          k_(k),
          sums_(Sums::of_this_thread()),
          sources_(rule.n_sites),
          lookups_(rule.n_sites + 1) {
        lookups_[0].row = &view_.labels;
        const auto& limits = BandLimits::get();
        all_ = rule.is_mean() ? 1.0 : view.examples + 0.5 * double(view.n_labels);
        const double log_all = std::log(all_);
        scales_.reserve(view.bands.count());
        priors_.reserve(view.bands.count());
        for (uint32_t band = 0; band < view.bands.count(); ++band) {
            scales_.push_back(all_ / weight_of(limits.least(band)));
            priors_.push_back(rule.is_mean() ? 0.0 : limits.log_most(band) - log_all);
        }
        bounds_.resize(view.bands.count());
        best_.reserve(k + 1);
    }

    // False: not sure.
    bool find(const R* const* rows, int64_t* out) {
        rows_ = rows;
        best_.clear();
        seen_.clear();
        sums_.start();
        n_sources_ = 0;
        n_lookups_ = 1;
        for (size_t site = 0; site < rule_.n_sites; ++site) {
            if (rows[site] && rows[site]->n && rule_.counts(site)) {
                take(site, *rows[site]);
            }
        }
        n_short_ = sums_.touched().size();
        look_at_best_short();
        look_at_priors();
        read_bands();
        look_at_short();
        look_at_labels_that_left();
        return answer(out);
    }

private:
    struct Source {
        size_t site;
        const RowIndex* index;
        const Listed *at, *end;
        double value;
        RowIndex own;  // of a row of one page, made for each question
    };
    struct LookUp {
        const R* row;
        size_t site;
        const Page* page;
        int shift;
        Count count;
    };
    struct Seen {
        double score;
        uint32_t label;
    };

    double weight_of(uint64_t examples) const {
        return rule_.is_mean() ? double(std::max<uint64_t>(examples, 1)) : double(examples) + 0.5;
    }
    double prior(uint64_t examples) const {
        return rule_.is_mean() ? 0.0 : std::log(weight_of(examples) / all_);
    }
    double ratio(Count count, uint64_t examples) const {
        return double(count) * all_ / weight_of(examples);
    }
    double floor() const {
        return best_.size() == k_ ? best_.back() - rule_.slack
                                  : -std::numeric_limits<double>::infinity();
    }

    void take(size_t site, const R& row) {
        lookups_[n_lookups_].row = &row;
        lookups_[n_lookups_++].site = site;
        if (row.n == 1 || (row.n <= MAX_WHOLE_ROW && !row.is_long())) {
            for (uint32_t i = 0; i < row.n; ++i) {
                const auto& entry = row.run()[i];
                add_bound(site, double(entry.count), entry.label);
            }
            return;
        }
        Source& source = sources_[n_sources_++];
        source.site = site;
        const auto each = [&](const auto& use) { row.each(use); };
        if (row.is_long()) {
            Indexed& indexed = *row.as_long();
            RowIndex* index = indexed.index.load(std::memory_order_acquire);
            while (!index || index->serial() != view_.bands.serial) {
                count_allocation();
                auto new_index = std::make_unique<RowIndex>();
                new_index->make(view_.bands, row.n, each);
                index = replaced_.replace(indexed.index, index, std::move(new_index));
            }
            source.index = index;
            for (uint32_t i = 0; i < indexed.n_changed; ++i) {
                if (indexed.changed[i].count > 0) {
                    add_bound(site, indexed.changed[i].count, indexed.changed[i].label);
                }
            }
        } else {
            source.own.make(view_.bands, row.n, each);
            source.index = &source.own;
        }
    }

    // What an entry of a short row, or one that an index does not know, adds at most.
    void add_bound(size_t site, double count, uint32_t label) {
        sums_.at(label).sum += rule_.most(site, count * scales_[view_.bands.of(label)]);
    }

    // The examples of a label and its counts in all rows: all in step, so that their pages are
    // fetched together.
    void look_up(uint32_t label) {
        const uint32_t at = scramble(label);
        const size_t n = n_lookups_;
        for (size_t i = 0; i < n; ++i) {
            lookups_[i].page =
                lookups_[i].row->is_long() ? lookups_[i].row->as_long()->counts : nullptr;
            lookups_[i].shift = 0;
        }
        for (bool more = true; more;) {
            more = false;
            for (size_t i = 0; i < n; ++i) {
                LookUp& one = lookups_[i];
                if (!one.page || one.page->kind != TRIE_NODE) {
                    continue;
                }
                one.page = R::Counts::slots(one.page)[R::Counts::slot(at, one.shift)];
                HAMMEMO_PREFETCH(one.page);
                one.shift += 5;
                more = true;
            }
        }
        for (size_t i = 0; i < n; ++i) {
            if (const LookUp& one = lookups_[i]; one.page) {
                HAMMEMO_PREFETCH(R::Counts::expect_at(one.page, at, one.shift));
            }
        }
        for (size_t i = 0; i < n; ++i) {
            LookUp& one = lookups_[i];
            if (!one.page) {
                one.count = one.row->n ? one.row->count_of(label) : 0;
            } else {
                const Count* count = R::Counts::find_in(one.page, at, one.shift);
                one.count = count ? *count : 0;
            }
        }
    }

    void look_at(uint32_t label) {
        auto& cell = sums_.at(label);
        if (cell.met) {
            return;
        }
        cell.met = true;
        look_up(label);
        const Count examples = lookups_[0].count;
        if (!examples) {
            return;
        }
        double gains = 0;
        for (size_t i = 1; i < n_lookups_; ++i) {
            if (lookups_[i].count) {
                gains += rule_.gain(lookups_[i].site, ratio(lookups_[i].count, examples));
            }
        }
        if (rule_.is_mean() && !(gains > 0)) {
            return;
        }
        const double score = prior(examples) + gains;
        seen_.push_back({score, label});
        if (best_.size() == k_) {
            if (score <= best_.back()) {
                return;
            }
            best_.pop_back();
        }
        best_.insert(std::upper_bound(best_.begin(), best_.end(), score, std::greater<double>()),
                     score);
    }

    double bound_of_short(const Sums::Cell& cell) const {
        return cell.sum + priors_[view_.bands.of(cell.label)];
    }
    void look_at_best_short() {
        const Sums::Cell* best = nullptr;
        for (size_t i = 0; i < n_short_; ++i) {
            const auto& cell = sums_.at(sums_.touched()[i]);
            if (!best || bound_of_short(cell) > bound_of_short(*best)) {
                best = &cell;
            }
        }
        if (best) {
            look_at(best->label);
        }
    }

    void look_at_priors() {
        const R& labels = view_.labels;
        if (rule_.is_mean() || !labels.n) {
            return;
        }
        if (labels.n == 1) {
            return look_at(labels.run()[0].label);
        }
        Cursor<Count> cursor(labels);
        do {
            if (best_.size() == k_ && prior((*cursor).count) < floor()) {
                break;
            }
            look_at((*cursor).label);
        } while (cursor.next());
    }

    void read_bands() {
        const uint32_t n_bands = view_.bands.count();
        std::fill(bounds_.begin(), bounds_.end(), 0.0);
        for (size_t i = 0; i < n_sources_; ++i) {
            for (uint32_t band = 0; band < n_bands; ++band) {
                if (const float head = sources_[i].index->head(band); head > 0) {
                    bounds_[band] += rule_.most(sources_[i].site, double(head) * scales_[band]);
                }
            }
        }
        order_.clear();
        for (uint32_t band = 0; band < n_bands; ++band) {
            if (bounds_[band] > 0 && bounds_[band] + priors_[band] >= floor()) {
                order_.push_back(band);
            }
        }
        std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
            return bounds_[a] + priors_[a] > bounds_[b] + priors_[b];
        });
        for (size_t i = 0; i < std::min<size_t>(order_.size(), AHEAD); ++i) {
            fetch(order_[i]);
        }
        for (size_t i = 0; i < order_.size() && bounds_[order_[i]] + priors_[order_[i]] >= floor();
             ++i) {
            if (i + AHEAD < order_.size()) {
                fetch(order_[i + AHEAD]);
            }
            read_band(order_[i]);
        }
    }
    void fetch(uint32_t band) const {
        for (size_t i = 0; i < n_sources_; ++i) {
            HAMMEMO_PREFETCH(sources_[i].index->begin(band));
        }
    }

    // Leaves in `bounds_` what a label of the band that was not met can gain.
    void read_band(uint32_t band) {
        for (size_t i = 0; i < n_sources_; ++i) {
            Source& source = sources_[i];
            source.at = source.index->begin(band);
            source.end = source.index->end(band);
            source.value =
                source.at != source.end
                    ? rule_.most(source.site, double(source.index->head(band)) * scales_[band])
                    : 0;
        }
        while (true) {
            double total = 0;
            Source* top = nullptr;
            for (size_t i = 0; i < n_sources_; ++i) {
                total += sources_[i].value;
                if (sources_[i].value > 0 && (!top || sources_[i].value > top->value)) {
                    top = &sources_[i];
                }
            }
            bounds_[band] = total;
            if (!top || total + priors_[band] < floor()) {
                return;
            }
            const uint32_t label = top->at->label;
            ++top->at;
            top->value = top->at != top->end
                             ? rule_.most(top->site, double(top->at->count) * scales_[band])
                             : 0;
            look_at(label);
        }
    }

    // A label of the short rows that was not met has at most the rest of its band beside what they
    // gave.
    void look_at_short() {
        for (size_t i = 0; i < n_short_; ++i) {
            const auto& cell = sums_.at(sums_.touched()[i]);
            if (!cell.met &&
                bound_of_short(cell) + bounds_[view_.bands.of(cell.label)] >= floor()) {
                look_at(cell.label);
            }
        }
    }

    // A label that has left its band gains no more than the band's others, if it has more examples
    // than they, but has another prior.
    void look_at_labels_that_left() {
        for (const Moved& moved : view_.moved) {
            const uint32_t band = view_.bands.of(moved.label);
            const double most = prior(moved.examples) + bounds_[band] + sums_.at(moved.label).sum;
            if (moved.examples < BandLimits::get().least(band) || most >= floor()) {
                look_at(moved.label);
            }
        }
    }

    bool answer(int64_t* out) {
        const double least = floor();
        seen_.erase(
            std::remove_if(
                seen_.begin(), seen_.end(), [=](const Seen& one) { return one.score < least; }),
            seen_.end());
        const auto first = [&](const Seen& a, const Seen& b) {
            return a.score != b.score ? a.score > b.score
                                      : view_.ranks[a.label] < view_.ranks[b.label];
        };
        std::sort(seen_.begin(), seen_.end(), first);
        bool sure = rule_.is_mean() || view_.labels.n == view_.n_labels || prior(0) < least;
        if (const size_t n = seen_.size(); n > 1 && has_near()) {
            for (Seen& one : seen_) {
                one.score = exact(one.label);
            }
            std::sort(seen_.begin(), seen_.end(), first);
            for (size_t i = 0; i + 1 < n && i < k_ && sure && !rule_.is_mean(); ++i) {
                sure = seen_[i].score - seen_[i + 1].score > rule_.doubt ||
                       are_same(seen_[i].label, seen_[i + 1].label);
            }
        }
        for (size_t i = 0; i < k_; ++i) {
            out[i] = i < seen_.size() ? int64_t(seen_[i].label) : -1;
        }
        return sure;
    }
    bool has_near() const {
        for (size_t i = 0; i + 1 < seen_.size(); ++i) {
            if (seen_[i].score - seen_[i + 1].score <= rule_.slack) {
                return true;
            }
        }
        return false;
    }
    Count count_in(size_t site, uint32_t label) const {
        return rows_[site] && rows_[site]->n ? rows_[site]->count_of(label) : 0;
    }
    double exact(uint32_t label) const {
        const Count examples = view_.labels.count_of(label);
        const double share = weight_of(examples) / all_;
        double sum = 0;
        for (size_t site = 0; site < rule_.n_sites; ++site) {
            const double count = double(count_in(site, label));
            if (count > 0) {
                sum += rule_.is_mean() ? rule_.sum_term(site, count)
                                       : rule_.log_term(site, count, share);
            }
        }
        return rule_.is_mean() ? sum / (rule_.divisor * double(examples)) : sum + std::log(share);
    }
    bool are_same(uint32_t a, uint32_t b) const {
        if (view_.labels.count_of(a) != view_.labels.count_of(b)) {
            return false;
        }
        for (size_t site = 0; site < rule_.n_sites; ++site) {
            if (count_in(site, a) != count_in(site, b)) {
                return false;
            }
        }
        return true;
    }

    const Rule& rule_;
    const RatioView<Count> view_;
    Replaced& replaced_;
    const size_t k_;
    double all_ = 1;
    const R* const* rows_ = nullptr;
    Sums& sums_;
    std::vector<Source> sources_;
    std::vector<LookUp> lookups_;
    size_t n_sources_ = 0, n_lookups_ = 1, n_short_ = 0;
    std::vector<double> scales_, priors_, bounds_,
        best_;  // bounds_: what the rows' heads of each band can add
    std::vector<uint32_t> order_;
    std::vector<Seen> seen_;
};

}  // namespace hammemo::live
