// Reading arrays of the caller's, which another thread may write to at any time.
//
// This header uses no part of the standard library that is code, and its functions are static:
// hashed/layout.hpp says why.
#pragma once

#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace hammemo {

// One load of a number that another thread may be changing: what was compared with a bound is what
// is used. A plain load could be repeated by the compiler, with another value the second time.
template <class T>
static inline T load_once(const T* p) {
#ifdef __GNUC__
    return __atomic_load_n(p, __ATOMIC_RELAXED);
#else
    return *static_cast<const volatile T*>(p);
#endif
}

// After this, what was copied from the caller's arrays is read from the copy: the compiler cannot
// go back to the original. For copies of many numbers, which `load_once` would take one by one.
static inline void copies_are_private() {
#ifdef __GNUC__
    __asm__ volatile("" ::: "memory");
#else
    _ReadWriteBarrier();
#endif
}

}  // namespace hammemo
