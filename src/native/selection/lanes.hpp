// Vectors of numbers that are computed side by side. Each number has its own sum in its own order,
// so the width changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hammemo {

template <size_t LANES>
struct Lanes;
#ifdef __GNUC__
#define HAMMEMO_INLINE inline __attribute__((always_inline))
template <>
struct Lanes<2> {
    typedef double type __attribute__((vector_size(16)));
    typedef float narrow __attribute__((vector_size(8)));
    typedef uint64_t bits __attribute__((vector_size(16)));
};
template <>
struct Lanes<4> {
    typedef double type __attribute__((vector_size(32)));
    typedef float narrow __attribute__((vector_size(16)));
    typedef uint64_t bits __attribute__((vector_size(32)));
};
template <>
struct Lanes<8> {
    typedef double type __attribute__((vector_size(64)));
    typedef float narrow __attribute__((vector_size(32)));
    typedef uint64_t bits __attribute__((vector_size(64)));
};
#else
#define HAMMEMO_INLINE inline
#endif
template <>
struct Lanes<1> {
    typedef double type;
    typedef float narrow;
    typedef uint64_t bits;
};

}  // namespace hammemo
