// The loops for processors with AVX2.
#include <immintrin.h>

#include "loops.hpp"
#include "scalar_lookup.inl"

namespace hammemo {
namespace {

template <class RowType, class SumType>
struct Vector;

inline int first_set(int mask) {
    return __builtin_ctzll(static_cast<uint32_t>(mask) | 1ULL << 63);
}
inline __m256i load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

template <>
struct Vector<int16_t, int16_t> {
    using Row = int16_t;
    using Sum = int16_t;
    using Register = __m256i;
    static constexpr int LANES = 16;
    static Register load_row(const Row* p) { return load(p); }
    static Register load_sum(const Sum* p) { return load(p); }
    static void store(Sum* p, Register a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
    static Register add(Register a, Register b) { return _mm256_add_epi16(a, b); }
    static Register max(Register a, Register b) { return _mm256_max_epi16(a, b); }
    static Sum highest(Register a) {
        const __m128i half =
            _mm_max_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
        // The signed maximum is the unsigned minimum of the flipped.
        const __m128i flip = _mm_set1_epi16(0x7FFF);
        return static_cast<Sum>(_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(half, flip)), 0) ^
                                0x7FFF);
    }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm256_movemask_epi8(_mm256_cmpeq_epi16(a, _mm256_set1_epi16(value)))) / 2;
    }
};

template <>
struct Vector<int32_t, int32_t> {
    using Row = int32_t;
    using Sum = int32_t;
    using Register = __m256i;
    static constexpr int LANES = 8;
    static Register load_row(const Row* p) { return load(p); }
    static Register load_sum(const Sum* p) { return load(p); }
    static void store(Sum* p, Register a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
    static Register add(Register a, Register b) { return _mm256_add_epi32(a, b); }
    static Register max(Register a, Register b) { return _mm256_max_epi32(a, b); }
    static Sum highest(Register a) {
        __m128i top = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
        top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4E));
        return _mm_cvtsi128_si32(_mm_max_epi32(top, _mm_shuffle_epi32(top, 0xB1)));
    }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm256_movemask_ps(
            _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, _mm256_set1_epi32(value)))));
    }
};

template <>
struct Vector<int16_t, int32_t> : Vector<int32_t, int32_t> {
    using Row = int16_t;
    static Register load_row(const Row* p) {
        return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
};

template <>
struct Vector<double, double> {
    using Row = double;
    using Sum = double;
    using Register = __m256d;
    static constexpr int LANES = 4;
    static Register load_row(const Row* p) { return _mm256_loadu_pd(p); }
    static Register load_sum(const Sum* p) { return _mm256_loadu_pd(p); }
    static void store(Sum* p, Register a) { _mm256_storeu_pd(p, a); }
    static Register add(Register a, Register b) { return _mm256_add_pd(a, b); }
    static Register max(Register a, Register b) { return _mm256_max_pd(a, b); }
    static Sum highest(Register a) {
        __m128d top = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
        return _mm_cvtsd_f64(_mm_max_pd(top, _mm_unpackhi_pd(top, top)));
    }
    static int first_equal(Register a, Sum value) {
        return first_set(_mm256_movemask_pd(_mm256_cmp_pd(a, _mm256_set1_pd(value), _CMP_EQ_OQ)));
    }
};

}  // namespace
}  // namespace hammemo

#include "loops.inl"

namespace hammemo {
extern const Loops avx2_loops{"avx2", hash, locate, tokens, site_rows, rows, winners, sums};
}
