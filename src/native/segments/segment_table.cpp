#include "segment_table.hpp"

#include <algorithm>
#include <cstring>

#include "../shared_arrays.hpp"
#include "packed_rows.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#define HAMMEMO_MADVISE
#endif

namespace hammemo::segments {
namespace {

// So many contexts have their pages asked for before they are added up.
constexpr size_t FETCHED_TOGETHER = 64;
constexpr uint64_t FETCHED_FROM = 2 * PAGE;  // shorter rows are left to the faults that read them
// So many sums are looked at for the largest before they are compared one by one.
constexpr size_t RUN = 512;
constexpr size_t MAX_KEPT = size_t{1} << 20;  // a thread keeps space for sums of so many labels

template <class T>
T load(const uint8_t* place) {
    T value;
    std::memcpy(&value, place, sizeof value);  // arrays in files start anywhere
    return value;
}

uint64_t number_at(const Records& r, const uint8_t* base, uint64_t i) {
    return r.is_wide ? load<uint64_t>(base + 8 * i) : load<uint32_t>(base + 4 * i);
}

// Whether record i, of `width` numbers, comes before the words or, with `or_same`, is equal to
// them.
bool comes_before(const Records& r,
                  const uint8_t* base,
                  uint64_t i,
                  uint32_t width,
                  const uint64_t* words,
                  bool or_same) {
    for (uint32_t w = 0; w < r.words; ++w) {
        const uint64_t here = number_at(r, base, i * width + w);
        if (here != words[w]) {
            return here < words[w];
        }
    }
    return or_same;
}

uint64_t bisect(const Records& r,
                const uint8_t* base,
                uint32_t width,
                uint64_t low,
                uint64_t high,
                const uint64_t* words,
                bool or_same) {
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (comes_before(r, base, middle, width, words, or_same)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool is_checked(const Segment& segment,
                const uint8_t* first,
                const uint8_t* stop,
                int64_t number,
                std::vector<Missing>& missing) {
    if (!segment.checked || first == stop) {
        return true;
    }
    const uint64_t begin = uint64_t(first - segment.file) / PAGE;
    const uint64_t end = uint64_t(stop - 1 - segment.file) / PAGE + 1;
    for (uint64_t page = begin; page < end; ++page) {
        if (!load_once(segment.checked + page)) {
            missing.push_back({number, int64_t(begin), int64_t(end)});
            return false;
        }
    }
    return true;
}

[[noreturn]] void refuse(const Segment& segment, const char* reason) {
    throw Damaged(segment.name + " is damaged: " + reason + ". Use another copy of it.");
}

template <class Label, class Count, class Each>
bool each_of(const Segment& segment, const uint8_t* place, const uint8_t* stop, const Each& each) {
    constexpr size_t size = sizeof(Label) + sizeof(Count);
    for (; place != stop; place += size) {
        const uint64_t label = load<Label>(place);
        const uint64_t count = load<Count>(place + sizeof(Label));
        if (label >= segment.n_labels || int64_t(count) < 1) {
            return false;
        }
        each(segment.labels[label], int64_t(count));
    }
    return true;
}

template <class Label, class Each>
bool each_with(const Segment& segment,
               const uint8_t* first,
               const uint8_t* stop,
               const Each& each) {
    switch (segment.count_width) {
        case 1:
            return each_of<Label, uint8_t>(segment, first, stop, each);
        case 2:
            return each_of<Label, uint16_t>(segment, first, stop, each);
        case 4:
            return each_of<Label, uint32_t>(segment, first, stop, each);
        default:
            return each_of<Label, uint64_t>(segment, first, stop, each);
    }
}

// Call each(common label, count) for all entries of a span; false where one cannot be.
template <class Each>
bool each_entry(const Segment& segment, const Span& span, const Each& each) {
    const uint64_t size = segment.unit();
    const uint8_t* first = segment.entries + span.first * size;
    const uint8_t* stop = segment.entries + span.stop * size;
    if (segment.is_packed()) {
        return each_packed(first, stop, segment.n_labels, [&](uint64_t label, uint64_t count) {
            each(segment.labels[label], int64_t(count));
        });
    }
    switch (segment.label_width) {
        case 1:
            return each_with<uint8_t>(segment, first, stop, each);
        case 2:
            return each_with<uint16_t>(segment, first, stop, each);
        case 4:
            return each_with<uint32_t>(segment, first, stop, each);
        default:
            return each_with<uint64_t>(segment, first, stop, each);
    }
}

constexpr const char* WRONG_ENTRY = "an entry names a label that does not exist, or counts nothing";

// The count of a common label in a packed row: blocks that end before it are passed over.
int64_t count_in_packed(const Segment& segment, const Span& span, int64_t wanted) {
    PackedRow row(segment.entries + span.first, segment.entries + span.stop, segment.n_labels);
    uint64_t gaps[BLOCK];
    uint64_t counts[BLOCK];
    uint64_t before = UINT64_MAX;
    for (Block block; row.next(block); before += block.span) {
        const uint64_t last = before + block.span;
        if (last >= segment.n_labels) {
            refuse(segment, WRONG_ENTRY);
        }
        if (segment.labels[last] < wanted) {
            continue;
        }
        if (!block.read(before, segment.n_labels, gaps, counts)) {
            refuse(segment, WRONG_ENTRY);
        }
        for (size_t i = 0; i < block.m; ++i) {
            before += gaps[i] + 1;
            if (segment.labels[before] == wanted) {
                return int64_t(counts[i] + 1);
            }
        }
        return 0;
    }
    if (!row.right()) {
        refuse(segment, WRONG_ENTRY);
    }
    return 0;
}

// The count of a common label in a span, 0 where it is not there: labels ascend, the segment's and
// the common ones alike.
int64_t count_in(const Segment& segment, const Span& span, int64_t wanted) {
    if (segment.is_packed()) {
        return count_in_packed(segment, span, wanted);
    }
    uint64_t low = span.first;
    uint64_t high = span.stop;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        int64_t label = -1;
        int64_t count = 0;
        if (!each_entry(segment, {span.segment, middle, middle + 1}, [&](int32_t l, int64_t c) {
                label = l;
                count = c;
            })) {
            refuse(segment, WRONG_ENTRY);
        }
        if (label == wanted) {
            return count;
        }
        if (label < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

// The column of a common label, or a number that is not below the number of columns.
uint64_t column_of(const Columns& columns, uint64_t n_labels, int32_t label) {
    if (!columns.map) {
        return uint32_t(label);
    }
    return uint32_t(label) < n_labels ? uint64_t(uint32_t(load_once(columns.map + label)))
                                      : UINT64_MAX;
}

// Space that is all zeros between questions: each leaves it so, also where it fails.
template <class T>
class Zeros {
public:
    explicit Zeros(size_t n) : own_(n > MAX_KEPT ? n : 0), values_(n > MAX_KEPT ? own_ : kept()) {
        if (values_.size() < n) {
            values_.resize(n);
        }
    }
    T* data() { return values_.data(); }
    void clear(size_t n) { std::fill_n(values_.data(), n, T{}); }

private:
    static std::vector<T>& kept() {
        static thread_local std::vector<T> values;
        return values;
    }
    std::vector<T> own_;
    std::vector<T>& values_;
};

// Counts of a checked file are below 2^53, so 2^10 files with as many examples as a model may hold
// still fit. A file that changes while it is read can make them wrap, which must not be undefined.
int64_t add_wrapping(int64_t a, int64_t b) {
    return int64_t(uint64_t(a) + uint64_t(b));
}

// The largest of n numbers, none of them NaN; eight at a time, which the compiler turns into wide
// instructions.
double largest(const double* values, size_t n) {
    double lanes[8];
    std::fill_n(lanes, 8, values[0]);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t lane = 0; lane < 8; ++lane) {
            lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
        }
    }
    for (; i < n; ++i) {
        lanes[0] = std::max(lanes[0], values[i]);
    }
    return *std::max_element(lanes, lanes + 8);
}

// The first column with the highest quotient. Quotients of different sums by one number may be
// equal: those of sums that are nearly the largest are compared.
int64_t best_of(const double* sums, size_t n, const double* divisor, bool is_one_number) {
    if (!is_one_number) {
        size_t best = 0;
        double highest = sums[0] / divisor[0];
        for (size_t c = 1; c < n; ++c) {
            if (const double score = sums[c] / divisor[c]; score > highest) {
                highest = score;
                best = c;
            }
        }
        return int64_t(best);
    }
    double most = sums[0];
    for (size_t first = 0; first < n; first += RUN) {
        most = std::max(most, largest(sums + first, std::min(RUN, n - first)));
    }
    const double score = most / divisor[0];
    const double near = most * (1 - 0x1p-50);
    for (size_t first = 0; first < n; first += RUN) {
        const size_t stop = std::min(first + RUN, n);
        if (largest(sums + first, stop - first) < near) {
            continue;
        }
        for (size_t c = first; c < stop; ++c) {
            if (sums[c] >= near && sums[c] / divisor[0] >= score) {
                return int64_t(c);
            }
        }
    }
    return 0;  // the largest itself is near the largest: never
}

}  // namespace

SegmentTable::SegmentTable(uint32_t h,
                           std::vector<std::vector<uint32_t>> positions,
                           uint64_t n_tokens,
                           uint64_t n_labels,
                           std::vector<int64_t> firsts,
                           std::vector<int64_t> lasts,
                           std::vector<int64_t> signs)
    : h_(h),
      positions_(std::move(positions)),
      n_tokens_(n_tokens),
      n_labels_(n_labels),
      firsts_(std::move(firsts)),
      lasts_(std::move(lasts)),
      signs_(std::move(signs)),
      segments_(firsts_.size()),
      owned_(firsts_.size()) {
    for (auto& one : segments_) {
        one.store(nullptr, std::memory_order_relaxed);
    }
}

bool SegmentTable::prepare(size_t number, std::unique_ptr<const Segment> segment) {
    if (segments_[number].load(std::memory_order_relaxed)) {
        return false;
    }
    owned_[number] = std::move(segment);
    segments_[number].store(owned_[number].get(), std::memory_order_release);
    return true;
}

void SegmentTable::locate(size_t site, const int64_t* ranks, Located& located) const {
    const size_t length = positions_[site].size();
    uint64_t words[64];
    for (size_t number = 0; number < segments_.size(); ++number) {
        if (ranks[0] < firsts_[number] || ranks[0] > lasts_[number]) {
            continue;
        }
        const Segment* const here = segment(number);
        if (!here) {
            located.missing.push_back({int64_t(number), -1, -1});
            continue;
        }
        const Records& r = here->sites[site];
        size_t token = 0;
        bool is_known = r.n > 0;
        for (uint32_t w = 0; is_known && w < r.words; ++w) {
            const size_t stop = token + length / r.words + (w < length % r.words);
            for (words[w] = 0; is_known && token < stop; ++token) {
                const int32_t rank = here->ranks[ranks[token]];
                is_known = rank >= 0;
                words[w] = words[w] * here->n_own + uint64_t(rank);
            }
        }
        if (!is_known) {
            continue;
        }
        const uint32_t width = r.words + 1;
        const uint64_t bytes = uint64_t(width) * (r.is_wide ? 8 : 4);
        const uint64_t block = bisect(r, r.index, r.words, 0, r.n_blocks, words, true);
        const uint64_t low = (block ? block - 1 : 0) * r.block;
        const uint64_t high = std::min(low + r.block, r.n);
        if (!is_checked(*here,
                        r.data + low * bytes,
                        r.data + (high + 1) * bytes,
                        int64_t(number),
                        located.missing)) {
            continue;
        }
        const uint64_t at = bisect(r, r.data, width, low, high, words, false);
        if (at >= r.n) {
            continue;
        }
        bool is_same = true;
        for (uint32_t w = 0; w < r.words; ++w) {
            is_same &= number_at(r, r.data, at * width + w) == words[w];
        }
        if (!is_same) {
            continue;
        }
        const uint64_t first = number_at(r, r.data, at * width + r.words);
        const uint64_t stop = number_at(r, r.data, (at + 1) * width + r.words);
        if (stop < first || stop > here->n_entries ||
            (stop - first > here->n_labels && !here->is_packed())) {
            refuse(*here, "a row lies outside its entries");
        }
        const uint64_t size = here->unit();
        if (first < stop && is_checked(*here,
                                       here->entries + first * size,
                                       here->entries + stop * size,
                                       int64_t(number),
                                       located.missing)) {
            located.spans.push_back({uint32_t(number), first, stop});
        }
    }
}

SegmentTable::Located SegmentTable::locate_all(const int64_t* tokens, size_t m) const {
    Located located;
    located.starts.reserve(m * n_sites() + 1);
    std::vector<int64_t> ranks(h_ + 1);
    for (size_t i = 0; i < m; ++i) {
        for (size_t k = 0; k < n_sites(); ++k) {
            located.starts.push_back(located.spans.size());
            bool is_known = true;
            for (size_t j = 0; j < positions_[k].size(); ++j) {
                ranks[j] = load_once(tokens + i * h_ + positions_[k][j]);
                is_known &= ranks[j] >= 0 && uint64_t(ranks[j]) < n_tokens_;
            }
            if (is_known) {
                locate(k, ranks.data(), located);
            }
        }
    }
    located.starts.push_back(located.spans.size());
    return located;
}

// Ask the operating system for the pages of rows, in the order of the files, before they are read
// one by one.
void SegmentTable::fetch(const Span* spans, size_t n) const {
#ifdef HAMMEMO_MADVISE
    std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
    for (const Span* span = spans; span != spans + n; ++span) {
        const Segment& here = *segment(span->segment);
        const uint64_t size = here.unit();
        const uint64_t bytes = (span->stop - span->first) * size;
        if (!here.file || bytes < FETCHED_FROM) {
            continue;
        }
        const auto first = reinterpret_cast<uintptr_t>(here.entries + span->first * size);
        ranges.emplace_back(first / PAGE * PAGE, first + bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 0; i < ranges.size();) {
        uintptr_t stop = ranges[i].second;
        size_t j = i + 1;
        for (; j < ranges.size() && ranges[j].first <= stop; ++j) {
            stop = std::max(stop, ranges[j].second);
        }
        madvise(reinterpret_cast<void*>(ranges[i].first),
                stop - ranges[i].first,
                MADV_WILLNEED);  // advice: it may fail
        i = j;
    }
#else
    (void)spans;
    (void)n;
#endif
}

// Call each(column, count) for the sums over several sources that are above zero. What a file says
// is read once: it may change, and then the space would not be left empty.
template <class Each>
void SegmentTable::merge(const Span* spans,
                         size_t n_spans,
                         const std::vector<Extra>& extras,
                         size_t place,
                         const Columns& columns,
                         const Each& each) const {
    Zeros<int64_t> zeros(columns.n);
    std::vector<uint64_t> touched;
    try {
        const auto add = [&, totals = zeros.data()](uint64_t column, int64_t count) {
            if (column >= columns.n) {
                return;
            }
            if (!totals[column]) {
                touched.push_back(column);
            }
            totals[column] = add_wrapping(totals[column], count);
        };
        for (const Extra& extra : extras) {
            for (int64_t e = extra.starts[place]; e < extra.starts[place + 1]; ++e) {
                add(uint64_t(load_once(extra.columns + e)), load_once(extra.counts + e));
            }
        }
        // Then its entries need not be remembered.
        const bool is_one = n_spans == 1 && signs_[spans->segment] > 0;
        for (const Span* span = spans; span != spans + n_spans; ++span) {
            const Segment& here = *segment(span->segment);
            const int64_t sign = signs_[span->segment];
            const bool right =
                is_one
                    ? each_entry(here,
                                 *span,
                                 [&, totals = zeros.data()](int32_t label, int64_t count) {
                                     const uint64_t column = column_of(columns, n_labels_, label);
                                     if (column >= columns.n) {
                                         return;
                                     }
                                     if (totals[column]) {
                                         count = add_wrapping(count, totals[column]);
                                         totals[column] = 0;
                                     }
                                     if (count > 0) {
                                         each(column, count);
                                     }
                                 })
                    : each_entry(here, *span, [&](int32_t label, int64_t count) {
                          add(column_of(columns, n_labels_, label), sign * count);
                      });
            if (!right) {
                refuse(here, WRONG_ENTRY);
            }
        }
        for (const uint64_t column : touched) {
            const int64_t total = zeros.data()[column];
            zeros.data()[column] = 0;
            if (total > 0) {
                each(column, total);
            }
        }
    } catch (...) {
        zeros.clear(columns.n);
        throw;
    }
}

void SegmentTable::add_site(const Span* spans,
                            size_t n_spans,
                            const std::vector<Extra>& extras,
                            size_t place,
                            double weight,
                            const Columns& columns,
                            double* sums) const {
    bool is_alone = n_spans == 1 && signs_[spans->segment] > 0;
    for (const Extra& extra : extras) {
        is_alone &= extra.starts[place] == extra.starts[place + 1];
    }
    if (!is_alone) {
        merge(spans, n_spans, extras, place, columns, [&](uint64_t column, int64_t count) {
            sums[column] += weight * double(count);
        });
        return;
    }
    const Segment& here = *segment(spans->segment);
    const bool right =
        columns.map
            ? each_entry(here,
                         *spans,
                         [&, sums](int32_t label, int64_t count) {
                             if (const uint64_t column = column_of(columns, n_labels_, label);
                                 column < columns.n) {
                                 sums[column] += weight * double(count);
                             }
                         })
            : each_entry(here, *spans, [weight, n = columns.n, sums](int32_t label, int64_t count) {
                  if (uint32_t(label) < n) {
                      sums[uint32_t(label)] += weight * double(count);
                  }
              });
    if (!right) {
        refuse(here, WRONG_ENTRY);
    }
}

template <class Give>
void SegmentTable::add_up(const Located& located,
                          size_t m,
                          const double* weights,
                          const std::vector<Extra>& extras,
                          const Columns& columns,
                          double* sums,
                          size_t stride,
                          const Give& give) const {
    for (size_t i = 0; i < m; ++i) {
        if (i % FETCHED_TOGETHER == 0) {
            const size_t first = located.starts[i * n_sites()];
            fetch(located.spans.data() + first,
                  located.starts[std::min(i + FETCHED_TOGETHER, m) * n_sites()] - first);
        }
        double* const context_sums = sums + i * stride;
        for (size_t k = 0; k < n_sites(); ++k) {
            const size_t place = i * n_sites() + k;
            const size_t first = located.starts[place];
            add_site(located.spans.data() + first,
                     located.starts[place + 1] - first,
                     extras,
                     place,
                     weights[k],
                     columns,
                     context_sums);
        }
        give(i, context_sums);
    }
}

std::vector<Missing> SegmentTable::winners(const int64_t* tokens,
                                           size_t m,
                                           const double* weights,
                                           const std::vector<Extra>& extras,
                                           const Columns& columns,
                                           const double* divisor,
                                           bool is_one_number,
                                           int64_t* out) const {
    Located located = locate_all(tokens, m);
    if (!located.missing.empty()) {
        return std::move(located.missing);
    }
    Zeros<double> zeros(columns.n);
    try {
        add_up(located, m, weights, extras, columns, zeros.data(), 0, [&](size_t i, double* sums) {
            out[i] = best_of(sums, columns.n, divisor, is_one_number);
            zeros.clear(columns.n);
        });
    } catch (...) {
        zeros.clear(columns.n);
        throw;
    }
    return {};
}

std::vector<Missing> SegmentTable::sums(const int64_t* tokens,
                                        size_t m,
                                        const double* weights,
                                        const std::vector<Extra>& extras,
                                        const Columns& columns,
                                        double* out) const {
    Located located = locate_all(tokens, m);
    if (!located.missing.empty()) {
        return std::move(located.missing);
    }
    std::fill_n(out, m * columns.n, 0.0);
    add_up(located, m, weights, extras, columns, out, columns.n, [](size_t, double*) {});
    return {};
}

std::vector<Missing> SegmentTable::read(size_t site,
                                        const int64_t* tuples,
                                        size_t m,
                                        const std::vector<Extra>& extras,
                                        const Columns& columns,
                                        SiteRows& out) const {
    Located located;
    const size_t length = positions_[site].size();
    std::vector<int64_t> ranks(length);
    for (size_t i = 0; i < m; ++i) {
        located.starts.push_back(located.spans.size());
        bool is_known = true;
        for (size_t j = 0; j < length; ++j) {
            ranks[j] = load_once(tuples + i * length + j);
            is_known &= ranks[j] >= 0 && uint64_t(ranks[j]) < n_tokens_;
        }
        if (is_known) {
            locate(site, ranks.data(), located);
        }
    }
    located.starts.push_back(located.spans.size());
    if (!located.missing.empty()) {
        return std::move(located.missing);
    }
    std::vector<std::pair<uint64_t, int64_t>> row;
    for (size_t i = 0; i < m; ++i) {
        if (i % FETCHED_TOGETHER == 0) {
            fetch(located.spans.data() + located.starts[i],
                  located.starts[std::min(i + FETCHED_TOGETHER, m)] - located.starts[i]);
        }
        row.clear();
        const size_t n_spans = located.starts[i + 1] - located.starts[i];
        merge(located.spans.data() + located.starts[i],
              n_spans,
              extras,
              i,
              columns,
              [&](uint64_t column, int64_t count) { row.emplace_back(column, count); });
        if (!std::is_sorted(row.begin(), row.end())) {
            std::sort(row.begin(), row.end());
        }
        out.lengths.push_back(int64_t(row.size()));
        for (const auto& [column, count] : row) {
            out.columns.push_back(int64_t(column));
            out.counts.push_back(count);
        }
    }
    return {};
}

int64_t SegmentTable::signed_count(const Span& span, int64_t label) const {
    return signs_[span.segment] * count_in(*segment(span.segment), span, label);
}

std::vector<Missing> SegmentTable::counts(const int64_t* tokens,
                                          size_t m,
                                          const int64_t* labels,
                                          int64_t* out) const {
    Located located = locate_all(tokens, m);
    if (!located.missing.empty()) {
        return std::move(located.missing);
    }
    for (size_t place = 0; place < m * n_sites(); ++place) {
        const int64_t wanted = load_once(labels + place / n_sites());
        out[place] = 0;
        for (uint64_t s = located.starts[place]; wanted >= 0 && s < located.starts[place + 1];
             ++s) {
            out[place] = add_wrapping(out[place], signed_count(located.spans[s], wanted));
        }
    }
    return {};
}

}  // namespace hammemo::segments
