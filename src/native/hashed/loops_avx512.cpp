// The loops for processors with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include "loops.hpp"

namespace hammemo {
namespace {

template <class RowType, class SumType>
struct Vector;

inline __mmask8 first_lanes(size_t n) {
    return n >= 8 ? 0xFF : static_cast<__mmask8>((1U << n) - 1);
}
inline __m512i all(uint64_t word) {
    return _mm512_set1_epi64(static_cast<int64_t>(word));
}

// `scale_down` of eight words.
inline __m512i scale_down_eight(__m512i words, uint32_t size) {
    return _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(words, 32), all(size)), 32);
}

void locate(const FinderView& finder,
            const uint64_t* hashes,
            const uint8_t* present,
            size_t n,
            uint64_t* words) {
    if (finder.slots == 0) {
        for (size_t i = 0; i < n; ++i) {
            words[i] = present[i] ? finder.locate(hashes[i]) : ABSENT;
        }
        return;
    }
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 here = first_lanes(n - i);
        const __m512i hash = _mm512_maskz_loadu_epi64(here, hashes + i);
        const __m512i group = _mm512_and_si512(hash, all(finder.group_mask));
        const __m512i moved =
            _mm512_xor_si512(hash, _mm512_i64gather_epi64(group, finder.displacements, 8));
        const __m512i slot =
            scale_down_eight(_mm512_mullo_epi64(moved, all(SCRAMBLER)), finder.slots);
        const __mmask8 is_match =
            _mm512_cmpeq_epi64_mask(_mm512_i64gather_epi64(slot, finder.words, 8), hash);
        const __m512i number =
            _mm512_cvtepu32_epi64(_mm512_i64gather_epi32(slot, finder.numbers, 4));
        const __m512i word =
            _mm512_mask_slli_epi64(_mm512_or_si512(hash, all(1)), is_match, number, 1);
        const __m128i flags = _mm_maskz_loadu_epi8(here, present + i);
        const __mmask8 has_token = static_cast<__mmask8>(_mm_test_epi8_mask(flags, flags));
        _mm512_mask_storeu_epi64(
            words + i, here, _mm512_mask_mov_epi64(all(ABSENT), has_token, word));
    }
}

inline __m256i place_eight(const LayoutView& layout,
                           const Site& site,
                           __m512i word,
                           __m512i multiplier,
                           __m256i first_row) {
    const __mmask8 shared = _mm512_test_epi64_mask(word, all(1));
    const __mmask8 has_token = _mm512_cmpneq_epi64_mask(word, all(ABSENT));
    const __m512i bucket = scale_down_eight(_mm512_mullo_epi64(word, multiplier), site.buckets);
    const __m512i in_site =
        _mm512_mask_add_epi64(_mm512_srli_epi64(word, 1), shared, bucket, all(site.n_own));
    const __m256i empty_row = _mm256_set1_epi32(static_cast<int>(layout.empty_row));
    return _mm256_mask_add_epi32(empty_row, has_token, _mm512_cvtepi64_epi32(in_site), first_row);
}

void place(const LayoutView& layout,
           const Site& site,
           const uint64_t* words,
           size_t n,
           uint32_t* rows) {
    const __m512i multiplier = all(site.multiplier);
    const __m256i first_row = _mm256_set1_epi32(static_cast<int>(site.first_row));
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 here = first_lanes(n - i);
        const __m512i word = _mm512_maskz_loadu_epi64(here, words + i);
        _mm256_mask_storeu_epi32(
            rows + i, here, place_eight(layout, site, word, multiplier, first_row));
    }
}

void place_block(const LayoutView& layout, const uint64_t* words, size_t n, uint32_t* rows) {
    const Site site = layout.sites[0];  // they differ in their multiplier and first row only
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 here = first_lanes(n - i);
        const __m512i word = _mm512_maskz_loadu_epi64(here, words + i);
        const __m512i multiplier = _mm512_maskz_loadu_epi64(here, layout.block_multipliers + i);
        const __m256i first_row = _mm256_maskz_loadu_epi32(here, layout.block_first_rows + i);
        _mm256_mask_storeu_epi32(
            rows + i, here, place_eight(layout, site, word, multiplier, first_row));
    }
}

// A register that the compiler cannot load a second time: see `load_once`.
inline __m512i keep_loaded(__m512i word) {
    __asm__("" : "+v"(word));
    return word;
}

inline __m512i load_tokens(__mmask8 here, const int64_t* tokens) {
    return _mm512_maskz_loadu_epi64(here, tokens);
}
inline __m512i load_tokens(__mmask8 here, const int32_t* tokens) {
    return _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(here, tokens));
}

template <class Token>
bool recall(const LayoutView& layout, const Token* tokens, size_t n, uint64_t* words) {
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 here = first_lanes(n - i);
        const __m512i token = keep_loaded(load_tokens(here, tokens + i));
        if (_mm512_cmpge_epu64_mask(token, all(layout.memo_size))) {
            return false;
        }
        _mm512_mask_storeu_epi64(words + i, here, _mm512_i64gather_epi64(token, layout.memo, 8));
    }
    return true;
}

inline int first_set(uint64_t mask) {
    return __builtin_ctzll(mask | 1ULL << 63);
}

template <>
struct Vector<int16_t, int16_t> {
    using Row = int16_t;
    using Sum = int16_t;
    using Register = __m512i;
    static constexpr int LANES = 32;
    static Register load_row(const Row* p) { return _mm512_loadu_si512(p); }
    static Register load_sum(const Sum* p) { return _mm512_loadu_si512(p); }
    static void store(Sum* p, Register a) { _mm512_storeu_si512(p, a); }
    static Register add(Register a, Register b) { return _mm512_add_epi16(a, b); }
    static Register max(Register a, Register b) { return _mm512_max_epi16(a, b); }
    static Sum highest(Register a) {
        const __m256i half =
            _mm256_max_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
        const __m128i quarter =
            _mm_max_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
        // The signed maximum is the unsigned minimum of the flipped.
        const __m128i flip = _mm_set1_epi16(0x7FFF);
        return static_cast<Sum>(
            _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(quarter, flip)), 0) ^ 0x7FFF);
    }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm512_cmpeq_epi16_mask(a, _mm512_set1_epi16(value)));
    }
};

template <>
struct Vector<int32_t, int32_t> {
    using Row = int32_t;
    using Sum = int32_t;
    using Register = __m512i;
    static constexpr int LANES = 16;
    static Register load_row(const Row* p) { return _mm512_loadu_si512(p); }
    static Register load_sum(const Sum* p) { return _mm512_loadu_si512(p); }
    static void store(Sum* p, Register a) { _mm512_storeu_si512(p, a); }
    static Register add(Register a, Register b) { return _mm512_add_epi32(a, b); }
    static Register max(Register a, Register b) { return _mm512_max_epi32(a, b); }
    static Sum highest(Register a) { return _mm512_reduce_max_epi32(a); }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm512_cmpeq_epi32_mask(a, _mm512_set1_epi32(value)));
    }
};

template <>
struct Vector<int16_t, int32_t> : Vector<int32_t, int32_t> {
    using Row = int16_t;
    static Register load_row(const Row* p) {
        return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
};

template <>
struct Vector<double, double> {
    using Row = double;
    using Sum = double;
    using Register = __m512d;
    static constexpr int LANES = 8;
    static Register load_row(const Row* p) { return _mm512_loadu_pd(p); }
    static Register load_sum(const Sum* p) { return _mm512_loadu_pd(p); }
    static void store(Sum* p, Register a) { _mm512_storeu_pd(p, a); }
    static Register add(Register a, Register b) { return _mm512_add_pd(a, b); }
    static Register max(Register a, Register b) { return _mm512_max_pd(a, b); }
    static Sum highest(Register a) { return _mm512_reduce_max_pd(a); }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm512_cmp_pd_mask(a, _mm512_set1_pd(value), _CMP_EQ_OQ));
    }
};

}  // namespace
}  // namespace hammemo

#include "loops.inl"

namespace hammemo {
extern const Loops avx512_loops{"avx512", hash, locate, tokens, site_rows, rows, winners, sums};
}
