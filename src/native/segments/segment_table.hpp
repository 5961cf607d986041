// Rows of counts that lie in mapped files, found and added up where they are:
// memories/exact/segments/segment.py says what a segment is, and has the same in NumPy.
//
// Nothing that is read from a segment decides where something is read or written before it was
// compared with its bound: a file may be crafted, and it may change while it is mapped. Pages of a
// file are used only once Python has marked them as checked; what is not checked yet, or not
// prepared, is returned as missing, and the question is asked again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace hammemo::segments {

constexpr uint64_t PAGE = 4096;

// A segment says what cannot be: its reader must use another copy.
struct Damaged : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The records of one site: (words, start), in the order of the words, and one more for the end.
struct Records {
    const uint8_t* data;
    const uint8_t* index;  // the words of the first record of each block
    uint64_t n, n_blocks, block;
    uint32_t words;
    bool is_wide;  // numbers of 64 bits, not of 32
};

// One segment. It owns no array: its user keeps them.
struct Segment {
    std::string name;
    std::vector<Records> sites;
    uint64_t n_own;  // as how many tokens are packed into words
    const uint8_t* entries;
    uint64_t n_entries;                 // of packed rows: how many bytes
    uint32_t label_width, count_width;  // both 0 where rows are packed
    const int32_t* ranks;               // the segment's rank of each common token, -1 for none
    const int32_t* labels;              // the common label of each of the segment's, -1 for none
    uint64_t n_labels;
    const uint8_t* checked;  // one byte a page of the file; null where there is nothing to check
    const uint8_t* file;
    uint64_t file_bytes;

    bool is_packed() const { return !label_width; }
    uint64_t unit() const {
        return is_packed() ? 1 : label_width + count_width;
    }  // bytes of what spans count
};

// Pages of a segment that must be checked first; the segment must be prepared first where `first`
// is -1.
struct Missing {
    int64_t segment, first, stop;
};

struct Span {
    uint32_t segment;
    uint64_t first, stop;
};

// Entries that lie in memory on top of the segments, for each site of each context: columns and
// counts, which may be negative.
struct Extra {
    std::vector<int64_t> starts;  // contexts * sites + 1, ascending, within the entries
    const int64_t* columns;
    const int64_t* counts;
};

// Where labels go: a column for each common label, or the labels themselves where `map` is null.
struct Columns {
    const int32_t* map;
    uint64_t n;
};

struct SiteRows {
    std::vector<int64_t> lengths, columns, counts;
};

class SegmentTable {
public:
    // `firsts` and `lasts`: the least and the greatest common rank of a first token of each
    // segment.
    SegmentTable(uint32_t h,
                 std::vector<std::vector<uint32_t>> positions,
                 uint64_t n_tokens,
                 uint64_t n_labels,
                 std::vector<int64_t> firsts,
                 std::vector<int64_t> lasts,
                 std::vector<int64_t> signs);
    SegmentTable(const SegmentTable&) = delete;
    SegmentTable& operator=(const SegmentTable&) = delete;

    uint32_t h() const { return h_; }
    size_t n_sites() const { return positions_.size(); }
    size_t n_segments() const { return segments_.size(); }
    size_t length(size_t site) const { return positions_[site].size(); }
    uint64_t n_tokens() const { return n_tokens_; }
    uint64_t n_labels() const { return n_labels_; }

    // Publish a segment; the first one that is given stays. Returns whether it was this one.
    bool prepare(size_t number, std::unique_ptr<const Segment> segment);

    // Write the best column of each context, the first among equals, by weighted sums over
    // `divisor` (one number, or one a column), or all sums. `tokens`: m * h common ranks. What is
    // returned is missing; then nothing was written.
    std::vector<Missing> winners(const int64_t* tokens,
                                 size_t m,
                                 const double* weights,
                                 const std::vector<Extra>& extras,
                                 const Columns& columns,
                                 const double* divisor,
                                 bool is_one_number,
                                 int64_t* out) const;
    std::vector<Missing> sums(const int64_t* tokens,
                              size_t m,
                              const double* weights,
                              const std::vector<Extra>& extras,
                              const Columns& columns,
                              double* out) const;

    // The rows of tuples of one site, added up over the segments and what is on top of them,
    // columns ascending. Here `extras` have one start a tuple.
    std::vector<Missing> read(size_t site,
                              const int64_t* tuples,
                              size_t m,
                              const std::vector<Extra>& extras,
                              const Columns& columns,
                              SiteRows& out) const;

    // The count of one label in the row of each site of each context: m * sites numbers.
    std::vector<Missing> counts(const int64_t* tokens,
                                size_t m,
                                const int64_t* labels,
                                int64_t* out) const;

private:
    struct Located {
        std::vector<uint64_t> starts;  // of the spans of each site of each context
        std::vector<Span> spans;
        std::vector<Missing> missing;
    };

    void locate(size_t site, const int64_t* ranks, Located& located) const;
    Located locate_all(const int64_t* tokens, size_t m) const;
    template <class Give>
    void add_up(const Located& located,
                size_t m,
                const double* weights,
                const std::vector<Extra>& extras,
                const Columns& columns,
                double* sums,
                size_t stride,
                const Give& give) const;
    void add_site(const Span* spans,
                  size_t n_spans,
                  const std::vector<Extra>& extras,
                  size_t place,
                  double weight,
                  const Columns& columns,
                  double* sums) const;
    template <class Each>
    void merge(const Span* spans,
               size_t n_spans,
               const std::vector<Extra>& extras,
               size_t place,
               const Columns& columns,
               const Each& each) const;
    void fetch(const Span* spans, size_t n) const;
    int64_t signed_count(const Span& span, int64_t label) const;
    const Segment* segment(size_t number) const {
        return segments_[number].load(std::memory_order_acquire);
    }

    uint32_t h_;
    std::vector<std::vector<uint32_t>> positions_;
    uint64_t n_tokens_, n_labels_;
    std::vector<int64_t> firsts_, lasts_, signs_;
    std::vector<std::atomic<const Segment*>> segments_;
    // One place a segment; written by who prepares it.
    std::vector<std::unique_ptr<const Segment>> owned_;
};

}  // namespace hammemo::segments
