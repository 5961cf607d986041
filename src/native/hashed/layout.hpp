// The layout of a hashed memory, as plain data that every loop can read.
//
// A token has a 64-bit hash. A site of one position holds that hash; a site of several folds the
// hashes of its tokens. A feature that is reserved has a row of its own; any other falls in the
// bucket of its hash. A hash alone does not make a feature reserved, because another feature may
// have it too: a reserved token has a place in a list, which is found by its hash in one probe of a
// perfect hash table and confirmed; a reserved tuple is found by its hash, and the places of its
// tokens are compared. memories/hashed/reserved.py says why, and has the same in NumPy.
// All sites' rows are numbered one after another, and one more row, all zeros, answers a site that
// holds no token.
//
// This header uses no part of the standard library that is code, because it is compiled several
// times for different instruction sets: an inline function shared between them could end up in the
// wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../hashes.hpp"
#include "../shared_arrays.hpp"

namespace hammemo {

constexpr int64_t NO_TOKEN = INT64_MIN;
constexpr uint32_t MISSING = UINT32_MAX;

// What is known of a token or a tuple, in one word: twice its place (or its row) where it has one,
// or its hash with the lowest bit set, which a site's multiplier turns into a bucket; or that there
// is no token.
constexpr uint64_t ABSENT = UINT64_MAX - 1;

static inline bool is_found(uint64_t word) {
    return !(word & 1) && word != ABSENT;
}

// How integer tokens become hashes: mix(token ^ first) ^ second, or SipHash under the key (first,
// second).
struct IntegerHash {
    uint64_t first, second;
    bool keyed;

    uint64_t operator()(uint64_t token) const {
        return keyed ? siphash(token, first, second) : mix(token ^ first) ^ second;
    }
};

// Where the range [0, size) is divided evenly among 32-bit numbers.
static inline uint32_t scale_down(uint64_t word, uint32_t size) {
    return static_cast<uint32_t>(((word >> 32) * size) >> 32);
}

// A set of distinct hashes with a number each, found by one probe: slot = f(hash, displacement of
// the hash's group).
struct FinderView {
    const uint64_t* words;          // slots of them; an empty slot holds the word of another slot
    const uint32_t* numbers;        // slots of them: the number of each slot's word
    const uint64_t* displacements;  // one a group
    uint32_t slots;                 // zero: `sorted` is searched instead
    uint32_t group_mask;
    const uint64_t* sorted;          // size of them: the words, ascending
    const uint32_t* sorted_numbers;  // size of them
    uint32_t size;

    static uint32_t slot_of(uint64_t hash, uint64_t displacement, uint32_t slots) {
        return scale_down((hash ^ displacement) * SCRAMBLER, slots);
    }

    // The word of the hash; without a branch, because no processor can guess which tokens are
    // reserved.
    uint64_t probe(uint64_t hash) const {
        const uint32_t slot = slot_of(hash, displacements[hash & group_mask], slots);
        const uint64_t is_here = 0ULL - static_cast<uint64_t>(words[slot] == hash);
        return (uint64_t{numbers[slot]} << 1 & is_here) | ((hash | 1) & ~is_here);
    }

    uint64_t locate(uint64_t hash) const {
        if (slots) {
            return probe(hash);
        }
        const uint32_t rank = search(hash);
        return rank == MISSING ? hash | 1 : uint64_t{sorted_numbers[rank]} << 1;
    }

    uint32_t search(uint64_t hash) const {
        uint32_t low = 0;
        uint32_t high = size;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (sorted[middle] < hash) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low < size && sorted[low] == hash ? low : MISSING;
    }
};

// One site: which positions it compares, and where its rows are.
struct Site {
    uint32_t first_position;  // into LayoutView::positions
    uint32_t n_positions;
    uint32_t first_row;  // own rows start here, buckets follow them
    uint32_t n_own;
    uint32_t buckets;
    uint32_t finder;          // of tuples; sites of one position need none
    uint64_t multiplier;      // odd: spreads a hash over this site's buckets
    uint64_t tuple_seed;      // where folding the hashes of several tokens starts
    const uint64_t* entries;  // n_own * n_positions: twice the place of each token of each reserved
                              // tuple; null where none is reserved
    // The same for integers without a key. No two of them have one hash, so hashes are compared,
    // with tuples that hold integers only; and not the last one, because the fold is invertible: it
    // is equal if all others are.
    uint32_t integer_finder;
    const uint64_t* integer_entries;
};

struct LayoutView {
    uint32_t h, n_sites, empty_row;
    const Site* sites;
    const uint32_t* positions;
    const FinderView* finders;
    IntegerHash integer_hash;
    // The list of reserved tokens: where integers are found in it and, under a key, two words by
    // which each place is confirmed (null without a key: no two integers have one hash); and the
    // word at sites of one position for each place, twice its row or MISSING_WORD. Null where that
    // is twice the place for all of them.
    FinderView tokens;
    const uint64_t* checks;
    const uint64_t* single_words;
    uint32_t n_places;
    // The rows of integers at sites of one position, by their hashes; without a key.
    FinderView single_integers;
    // The positions that a site compares, and for each whether a site of one position does.
    const uint32_t* used;
    const uint8_t* used_alone;
    uint32_t n_used;
    bool any_alone;
    // Where the sites are the positions in order, with equally many rows: what `place_block` needs
    // for a block of whole contexts, token by token. Otherwise null.
    const uint64_t* block_multipliers;
    const uint32_t* block_first_rows;
    // The words of the integers 0 to memo_size - 1 at sites of one position: tokens are often
    // numbered from zero. May be null.
    const uint64_t* memo;
    uint64_t memo_size;

    // The word of an integer token that was found by its hash, confirmed.
    uint64_t confirm_token(uint64_t word, uint64_t hash, uint64_t token) const {
        if (!checks || !is_found(word)) {
            return word;
        }
        uint64_t high;
        const uint64_t low = siphash(token, integer_hash.first, integer_hash.second, &high);
        return low == checks[word] && high == checks[word + 1] ? word : hash | 1;
    }
};

constexpr uint64_t MISSING_WORD = UINT64_MAX;

// Tokens as they come from Python: integers, or ranks in a table of hashes (-1: no token). The
// arrays are the caller's, and another thread may write to them at any time: loops take each token
// by `load_once` and compare it with its bound afterwards. A rank without a hash counts as no
// token.
struct Source {
    enum Kind { INT64, INT32, RANKS } kind;
    const void* data;        // contexts row by row, or a stream
    const uint64_t* hashes;  // RANKS only, n_hashes of them
    // RANKS only: the place of each rank's token in the list of reserved tokens, or -1.
    const int32_t* places;
    uint64_t n_hashes;
};

}  // namespace hammemo
