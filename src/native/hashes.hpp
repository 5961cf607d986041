// All hash functions of the compiled code.
//
// `mix` is the careful one. `scramble` is for tables that confirm what they find: two
// multiplications by one constant, and it has an inverse.
//
// This header uses no part of the standard library that is code, and its functions are static:
// hashed/layout.hpp says why.
#pragma once

#include <cstdint>

namespace hammemo {

// 2^64 divided by the golden ratio, odd: its multiples lie far apart in 64 bits. SplitMix64 counts
// in such steps.
constexpr uint64_t GOLDEN_STEP = 0x9E3779B97F4A7C15ULL;

// The factor of `scramble`, and its inverse modulo 2^64.
constexpr uint64_t SCRAMBLER = 0xD6E8FEB86659FD93ULL;
constexpr uint64_t UNSCRAMBLER = 0xCFEE444D8B59A89BULL;

// The finaliser of SplitMix64, an invertible map; tokens/hashing.py has the same one.
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

// A cheaper invertible map.
static inline uint64_t scramble(uint64_t x) {
    x ^= x >> 32;
    x *= SCRAMBLER;
    x ^= x >> 32;
    x *= SCRAMBLER;
    return x ^ (x >> 32);
}

// The inverse of `scramble`: a shift by half the bits is its own inverse.
static inline uint64_t unscramble(uint64_t x) {
    x ^= x >> 32;
    x *= UNSCRAMBLER;
    x ^= x >> 32;
    x *= UNSCRAMBLER;
    return x ^ (x >> 32);
}

// The same for 32 bits, invertible too.
static inline uint32_t scramble(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7FEB352DU;
    x ^= x >> 15;
    x *= 0x846CA68BU;
    return x ^ (x >> 16);
}

static inline uint64_t rotate_left(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

// SipHash-2-4 of one 8-byte message, for integer tokens under a secret key; tokens/hashing.py has
// the same one. With `wide` not null, SipHash-2-4-128: the lower half is returned, the upper half
// written there.
static inline uint64_t siphash(uint64_t word, uint64_t k0, uint64_t k1, uint64_t* wide = nullptr) {
    uint64_t v0 = k0 ^ 0x736F6D6570736575ULL;
    uint64_t v1 = k1 ^ 0x646F72616E646F6DULL ^ (wide ? 0xEE : 0);
    uint64_t v2 = k0 ^ 0x6C7967656E657261ULL;
    uint64_t v3 = k1 ^ 0x7465646279746573ULL;
    const uint64_t blocks[2] = {word, 8ULL << 56};
    uint64_t low = 0;
    for (int step = 0; step < (wide ? 4 : 3); ++step) {
        const int rounds = step < 2 ? 2 : 4;
        if (step < 2) {
            v3 ^= blocks[step];
        } else if (step == 2) {
            v2 ^= wide ? 0xEE : 0xFF;
        } else {
            low = v0 ^ v1 ^ v2 ^ v3;
            v1 ^= 0xDD;
        }
        for (int i = 0; i < rounds; ++i) {
            v0 += v1;
            v1 = rotate_left(v1, 13) ^ v0;
            v0 = rotate_left(v0, 32);
            v2 += v3;
            v3 = rotate_left(v3, 16) ^ v2;
            v0 += v3;
            v3 = rotate_left(v3, 21) ^ v0;
            v2 += v1;
            v1 = rotate_left(v1, 17) ^ v2;
            v2 = rotate_left(v2, 32);
        }
        if (step < 2) {
            v0 ^= blocks[step];
        }
    }
    if (!wide) {
        return v0 ^ v1 ^ v2 ^ v3;
    }
    *wide = v0 ^ v1 ^ v2 ^ v3;
    return low;
}

}  // namespace hammemo
