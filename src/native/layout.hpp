// The layout of a hashed memory, as plain data that every loop can read.
//
// A token has a 64-bit hash. A site of one position holds that hash; a site of several folds the hashes of its tokens.
// A hash that is reserved has a row of its own, found in one probe of a perfect hash table; any other falls in a bucket.
// All sites' rows are numbered one after another, and one more row, all zeros, answers a site that holds no token.
//
// This header uses no part of the standard library that is code, because it is compiled several times for different
// instruction sets: an inline function shared between them could end up in the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hammemo {

constexpr int64_t NO_TOKEN = INT64_MIN;
constexpr uint32_t MISSING = UINT32_MAX;

// What is known of a token, in one word: twice its rank where it is reserved, or its hash with the lowest bit set, which
// a site's multiplier turns into a bucket; or that there is no token.
constexpr uint64_t ABSENT = UINT64_MAX - 1;

// One load of a number that another thread may be changing: what was compared with a bound is what is used. A plain load
// could be repeated by the compiler, with another value the second time.
template <class T>
static inline T load_once(const T* p) {
#ifdef __GNUC__
    return __atomic_load_n(p, __ATOMIC_RELAXED);
#else
    return *static_cast<const volatile T*>(p);
#endif
}

// The finaliser of SplitMix64, an invertible map; hashing.py has the same one.
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

static inline uint64_t rotate_left(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

// SipHash-2-4 of one 8-byte message, for integer tokens under a secret key; hashing.py has the same one.
static inline uint64_t siphash(uint64_t word, uint64_t k0, uint64_t k1) {
    uint64_t v0 = k0 ^ 0x736F6D6570736575ull, v1 = k1 ^ 0x646F72616E646F6Dull;
    uint64_t v2 = k0 ^ 0x6C7967656E657261ull, v3 = k1 ^ 0x7465646279746573ull;
    const uint64_t blocks[2] = {word, 8ull << 56};
    for (int step = 0; step < 3; ++step) {
        const int rounds = step < 2 ? 2 : 4;
        if (step < 2) v3 ^= blocks[step];
        else v2 ^= 0xFF;
        for (int i = 0; i < rounds; ++i) {
            v0 += v1, v1 = rotate_left(v1, 13) ^ v0, v0 = rotate_left(v0, 32);
            v2 += v3, v3 = rotate_left(v3, 16) ^ v2;
            v0 += v3, v3 = rotate_left(v3, 21) ^ v0;
            v2 += v1, v1 = rotate_left(v1, 17) ^ v2, v2 = rotate_left(v2, 32);
        }
        if (step < 2) v0 ^= blocks[step];
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

// How integer tokens become hashes: mix(token ^ first) ^ second, or SipHash under the key (first, second).
struct IntegerHash {
    uint64_t first, second;
    bool keyed;

    uint64_t operator()(uint64_t token) const {
        return keyed ? siphash(token, first, second) : mix(token ^ first) ^ second;
    }
};

// Where the range [0, size) is divided evenly among 32-bit numbers.
static inline uint32_t scaled(uint64_t word, uint32_t size) {
    return static_cast<uint32_t>(((word >> 32) * size) >> 32);
}

// A set of distinct hashes, each found by one probe: slot = f(hash, displacement of the hash's group).
struct FinderView {
    const uint64_t* words;          // slots of them; an empty slot holds the word of another slot
    const uint32_t* ranks;          // slots of them: the rank of each slot's word
    const uint64_t* displacements;  // one a group
    uint32_t slots;                 // zero: `sorted` is searched instead
    uint32_t group_mask;
    const uint64_t* sorted;         // size of them: the words by rank
    uint32_t size;

    static constexpr uint64_t SPREAD = 0xD6E8FEB86659FD93ull;

    static uint32_t slot_of(uint64_t hash, uint64_t displacement, uint32_t slots) {
        return scaled((hash ^ displacement) * SPREAD, slots);
    }

    // The word of the hash; without a branch, because no processor can guess which tokens are reserved.
    uint64_t probe(uint64_t hash) const {
        const uint32_t slot = slot_of(hash, displacements[hash & group_mask], slots);
        const uint64_t held = 0ull - static_cast<uint64_t>(words[slot] == hash);
        return (uint64_t{ranks[slot]} << 1 & held) | ((hash | 1) & ~held);
    }

    uint64_t locate(uint64_t hash) const {
        if (slots) return probe(hash);
        const uint32_t rank = search(hash);
        return rank == MISSING ? hash | 1 : uint64_t{rank} << 1;
    }

    uint32_t search(uint64_t hash) const {
        uint32_t low = 0, high = size;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (sorted[middle] < hash) low = middle + 1;
            else high = middle;
        }
        return low < size && sorted[low] == hash ? low : MISSING;
    }
};

// One site: which positions it compares, and where its rows are.
struct Site {
    uint32_t first_position;  // into LayoutView::positions
    uint32_t n_positions;
    uint32_t first_row;       // own rows start here, buckets follow them
    uint32_t n_own;
    uint32_t buckets;
    uint32_t finder;
    uint64_t multiplier;      // odd: spreads a hash over this site's buckets
    uint64_t tuple_seed;      // where folding the hashes of several tokens starts
};

struct LayoutView {
    uint32_t h, n_sites, empty_row;
    const Site* sites;
    const uint32_t* positions;
    const FinderView* finders;
    IntegerHash integer_hash;
    // Where the sites are the positions in order, all with finder 0 and equally many buckets: what `place_block` needs for a block of whole
    // contexts, token by token. Otherwise null.
    const uint64_t* block_multipliers;
    const uint32_t* block_first_rows;
    // The words of the integers 0 to memo_size - 1 in finder 0: tokens are often numbered from zero. May be null.
    const uint64_t* memo;
    uint64_t memo_size;
};

// Tokens as they come from Python: integers, or ranks in a table of hashes (-1: no token). The arrays are the caller's,
// and another thread may write to them at any time: loops take each token by `load_once` and compare it with its bound
// afterwards. A rank without a hash counts as no token.
struct Source {
    enum Kind { INT64, INT32, RANKS } kind;
    const void* data;          // contexts row by row, or a stream
    const uint64_t* hashes;    // RANKS only, n_hashes of them
    uint64_t n_hashes;
};

}  // namespace hammemo
