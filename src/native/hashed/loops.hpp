// The loops that answer queries, once for each instruction set, and how one of them is chosen.
#pragma once

#include "layout.hpp"

namespace hammemo {

enum class Number { INT16, INT32, FLOAT64 };

static inline size_t bytes_of(Number number) {
    switch (number) {
        case Number::INT16:
            return 2;
        case Number::INT32:
            return 4;
        default:
            return 8;
    }
}

// Rows of scores, ready to be gathered and added: row i starts at values + i * stride.
struct TableView {
    const void* values;
    const void* base;  // what every sum starts from: zero, and the lowest number in the padding
    Number row, sum;   // (INT16, INT16), (INT16, INT32), (INT32, INT32) or (FLOAT64, FLOAT64)
    uint32_t n_labels, stride;  // stride: n_labels rounded up to whole vectors
    const double* divisor;      // one a label, or null where the sums themselves are compared
    double scale;               // sums are multiplied by it before they are divided
};

// Contexts whose rows are looked up before any is summed, so that their loads overlap.
constexpr size_t BLOCK = 32;

// Whether the hashes of a source's tokens identify them: integers without a key.
static inline bool by_hash(const LayoutView& layout, const Source& source) {
    return source.kind != Source::RANKS && !layout.checks;
}

// What is known of some tokens: that of the i-th is at place i of each array.
struct Tokens {
    uint64_t* hashes;
    uint64_t* words;  // see ABSENT: the place in the list of reserved tokens; where hashes identify
                      // tokens, the row at sites of one position
    uint64_t* values;  // of integers, where they are needed to confirm a place
    uint8_t* present;

    Tokens from(size_t first) const {
        return {hashes + first, words + first, values + first, present + first};
    }
};

// Space for the features of one site in as many contexts as are looked up at a time.
struct Features {
    uint64_t* hashes;
    uint64_t* words;
    uint8_t* present;
};

// Space for a block of contexts.
struct Scratch {
    Tokens tokens;      // h * BLOCK
    Features features;  // BLOCK
    uint32_t* rows;     // n_sites * BLOCK
};

// The rows of a block: that of context i and site k is rows[i * context_step + k * site_step].
struct BlockRows {
    const uint32_t* rows;
    size_t context_step, site_step;
};

struct Loops {
    const char* name;
    // The hashes of tokens [begin, end) of a stream, and whether there is a token at all.
    void (*hash)(const IntegerHash&,
                 const Source&,
                 size_t begin,
                 size_t end,
                 uint64_t* hashes,
                 uint8_t* present);
    // The word of each hash in a set: see ABSENT.
    void (*locate)(const FinderView&,
                   const uint64_t* hashes,
                   const uint8_t* present,
                   size_t n,
                   uint64_t* words);
    // All that is known of n tokens of a source, every stride-th from `first` on; `alone` says
    // whether a site of one position reads them.
    void (*tokens)(const LayoutView&,
                   const Source&,
                   size_t first,
                   size_t stride,
                   size_t n,
                   bool alone,
                   const Tokens&);
    // The global rows of one site in n contexts: the token at position r of context i is at r *
    // step + i. `by_hash` says whether the hashes of these tokens identify them.
    void (*site_rows)(const LayoutView&,
                      const Site&,
                      bool by_hash,
                      const Tokens&,
                      size_t step,
                      size_t n,
                      const Features&,
                      uint32_t* rows);
    // The rows of contexts [begin, end), at most BLOCK of them.
    BlockRows (*rows)(const LayoutView&, const Source&, size_t begin, size_t end, const Scratch&);
    // The column of the highest sum of each context from begin to end, the first among equals.
    void (*winners)(const LayoutView&,
                    const TableView&,
                    const Source&,
                    size_t begin,
                    size_t end,
                    const Scratch&,
                    int32_t* out);
    // The sums themselves, of the context that is the i-th of a block, `stride` of them.
    void (*sums)(const TableView&, const BlockRows&, uint32_t n_sites, size_t i, void* out);
};

extern const Loops portable_loops;
#ifdef HAMMEMO_X86
extern const Loops avx2_loops;
extern const Loops avx512_loops;
#endif

}  // namespace hammemo
