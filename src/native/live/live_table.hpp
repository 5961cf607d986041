// A count table that is edited row by row, in versions: answers are read from one version, an edit
// makes the next.
//
// Each site of the table has a trie from keys to rows. A site of one position has the key (0,
// token); one of several positions (row of the same site without one position, token), so every key
// is exact and has 64 bits. The sites and the shorter tuples that their keys need are the `Steps`,
// parents first. Rows that have no entries stay where longer tuples may lead on from them ("bare").
//
// One handle holds each version. A handle that goes lets go of its version: a page that a later
// version has replaced is freed, or kept for the newest older version that needs it; and where the
// newest version itself goes, as after an edit that was given up, the table is back at the version
// before.
#pragma once

#include <memory>
#include <mutex>

#include "../shared_arrays.hpp"
#include "rows.hpp"

namespace hammemo::live {

constexpr uint32_t NO_TOKEN = ~0U, NO_STEP = ~0U;
constexpr uint32_t MAX_ROW_IDS = ~0U - 1;

struct Step {
    uint32_t parent;    // an earlier step, or NO_STEP
    uint32_t position;  // which token of a context it adds
    bool is_site;       // whether there are counts, or only longer tuples
    bool has_children;
};

struct Shape {
    uint32_t h;  // tokens of a context
    std::vector<Step> steps;
    std::vector<uint32_t> site_steps;  // which step each site is
};

struct Example {
    const uint32_t* tokens;  // h of them, or NO_TOKEN
    uint32_t label;
    int64_t by;
};

// Rows in a form that can be copied: for writing a table down.
struct RowList {
    std::vector<uint64_t> keys;  // parent row << 32 | token
    std::vector<uint32_t> ids, lengths, labels;
    std::vector<uint64_t> counts;
};

// The same, not owned: for building a table. Every number is loaded once and then checked.
struct RowView {
    const uint64_t* keys;
    const uint32_t *ids, *lengths, *labels;
    const uint64_t* counts;
    size_t n_rows, n_entries;
};

constexpr size_t MAX_LISTED = 512;  // labels up to which they are added up in a list

struct Query {
    const double* weights;  // one a site
    double divisor;
    size_t most_listed = MAX_LISTED;  // less in tests: other ways for few labels
};

class Version;
class Handle;
class Rule;

class LiveTable : public std::enable_shared_from_this<LiveTable> {
public:
    virtual ~LiveTable() = default;

    // A table with counts of 32 or 64 bits and so many examples of each label, which are numbered
    // in their order. Until `finish` it can be filled: the rows of each step, and a row of the
    // examples that have no token there.
    static std::shared_ptr<LiveTable> start(Shape shape,
                                            bool wide,
                                            const std::vector<uint64_t>& label_counts);
    virtual void fill(uint32_t step, const RowView& rows) = 0;
    virtual void fill_empty(uint32_t step, const RowView& row) = 0;
    virtual std::unique_ptr<Handle> finish() = 0;

    virtual void release(Version* version) noexcept = 0;
    // All examples or none. Returns no handle where `version` is not the newest, or the table is
    // being edited by a process that this one was forked from: the table must then be copied first.
    virtual std::unique_ptr<Handle> edit(Version* version, const Example* examples, size_t n) = 0;
    // Give a label that no version uses its place between two others (-1: none on that side).
    // False: as in `edit`.
    virtual bool place(uint32_t label, int64_t before, int64_t after) = 0;
    // The numbers of the k leading labels of each context, -1 where fewer than k labels have a
    // score above zero.
    virtual void leaders(const Version* version,
                         const Query& query,
                         const int64_t* tokens,
                         size_t m,
                         size_t k,
                         int64_t* out) const = 0;
    // The same by a rule. `n_labels`: how many there are, with and without examples; sure[i]:
    // whether the i-th answer is the one of NumPy's arithmetic. The mean vote gives -1 as above,
    // the log-linear vote only where it is not sure.
    virtual void ratio_leaders(const Version* version,
                               const Rule& rule,
                               size_t n_labels,
                               const int64_t* tokens,
                               size_t m,
                               size_t k,
                               int64_t* out,
                               bool* sure) = 0;
    // The rows that the sites of contexts read, one after the other: lengths, labels, counts.
    virtual RowList read(const Version* version, const int64_t* tokens, size_t m) const = 0;
    // The rows that the sites of one context read, where they lie: `rows` has a place for each
    // site.
    virtual void find(const Version* version, const int64_t* tokens, RowRef* rows) const = 0;
    virtual RowList rows(const Version* version, uint32_t step) const = 0;
    // Of each of these rows the total, and how many of its entries have the counts one and two:
    // what is kept with it.
    virtual std::vector<Tally> tallies(const Version* version, uint32_t step) const = 0;
    virtual RowList label_row(const Version* version) const = 0;
    // Labels with their examples, the most frequent first and equals in the order of the labels.
    virtual RowRef labels(const Version* version) const = 0;
    virtual bool is_placed(uint32_t label) = 0;
    virtual uint64_t label_count(const Version* version, uint32_t label) const = 0;
    // Whether a row with counts holds a token.
    virtual bool holds(const Version* version, uint32_t token) const = 0;
    virtual uint64_t n_bare(const Version* version) const = 0;
    virtual uint64_t n_rows(const Version* version) const = 0;
    virtual uint64_t examples(const Version* version) const = 0;
    virtual uint64_t label_stamp(const Version* version) const = 0;
    virtual uint64_t bytes() = 0;
    virtual uint64_t pages() = 0;
    virtual size_t versions() = 0;
    virtual const Shape& shape() const = 0;
};

class Handle {
public:
    Handle(std::shared_ptr<LiveTable> table, Version* version)
        : table(std::move(table)), version(version) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { table->release(version); }
    const std::shared_ptr<LiveTable> table;
    Version* const version;
};

}  // namespace hammemo::live
