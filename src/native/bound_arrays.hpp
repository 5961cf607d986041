// Arrays as Python hands them over, and how they are checked: shared by all files that Python sees.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nanobind/ndarray.h>

namespace hammemo {

template <class T>
using Vector =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Matrix =
    nanobind::ndarray<const T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool condition, const char* message) {
    if (!condition) {
        throw std::invalid_argument(message);
    }
}

// NumPy has arrays whose numbers start anywhere, for example in a field of a packed record.
template <class A>
void require_aligned(const A& array) {
    require(reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() == 0,
            "arrays must be aligned");
}
template <class A>
void require_aligned(const std::optional<A>& array) {
    if (array) {
        require_aligned(*array);
    }
}

template <class T>
std::vector<T> copied(const Vector<T>& array) {
    require_aligned(array);
    return {array.data(), array.data() + array.size()};
}

}  // namespace hammemo
