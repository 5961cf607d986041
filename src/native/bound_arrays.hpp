// Arrays as Python hands them over, and how they are checked: shared by all files that Python sees.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
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

// What the caller's array holds: what is checked in the copy cannot change any more.
template <class A>
auto copy_array(const A& array) {
    using Number = std::remove_const_t<std::remove_pointer_t<decltype(array.data())>>;
    require_aligned(array);
    return std::vector<Number>(array.data(), array.data() + array.size());
}

// Numbers as an array of NumPy that owns them, without a copy: in one dimension or, where `width`
// is not zero, in rows of so many.
template <class T>
nanobind::ndarray<nanobind::numpy, T> hand_over(std::vector<T> values, size_t width = 0) {
    auto numbers = std::make_unique<std::vector<T>>(std::move(values));
    const nanobind::capsule owner(
        numbers.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
    std::vector<T>& owned = *numbers.release();
    if (width == 0) {
        return {owned.data(), {owned.size()}, owner};
    }
    return {owned.data(), {owned.size() / width, width}, owner};
}

}  // namespace hammemo
