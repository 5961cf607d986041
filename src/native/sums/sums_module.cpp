// What Python sees of sums of 128 bits: arrays are checked here.
#include "sums_module.hpp"

#include <nanobind/ndarray.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "wide_sums.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Words = nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// sums: (2, n), all low words and then all high words.
size_t count_sums(const Words& sums) {
    require_aligned(sums);
    require(sums.shape(0) == 2, "sums of 128 bits have two words");
    return sums.shape(1);
}

// Adds numbers[i], times[i] times, at places[i].
void add_products(const Vector<int64_t>& places,
                  const Vector<int64_t>& numbers,
                  const Vector<int64_t>& times,
                  Words sums) {
    const size_t n_sums = count_sums(sums);
    require_aligned(places);
    require_aligned(numbers);
    require_aligned(times);
    require(places.size() == numbers.size() && places.size() == times.size(),
            "one place and one number of times for each number");
    for (size_t i = 0; i < places.size(); ++i) {
        require(places.data()[i] >= 0 && static_cast<size_t>(places.data()[i]) < n_sums,
                "a place is outside the sums");
    }
    const Released released;
    WideSums to(sums.data(), sums.data() + n_sums);
    for (size_t i = 0; i < places.size(); ++i) {
        to.add_product(static_cast<size_t>(places.data()[i]), numbers.data()[i], times.data()[i]);
    }
}

// Writes the double that is nearest to each sum.
void round_sums(const Words& sums,
                nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
    const size_t n_sums = count_sums(sums);
    require_aligned(out);
    require(out.size() == n_sums, "one double for each sum");
    const WideSums from(sums.data(), sums.data() + n_sums);
    for (size_t i = 0; i < n_sums; ++i) {
        out.data()[i] = as_double(from[i]);
    }
}

}  // namespace

void bind_sums(nb::module_& m) {
    m.def("add_products",
          &add_products,
          nb::arg("places").noconvert(),
          nb::arg("numbers").noconvert(),
          nb::arg("times").noconvert(),
          nb::arg("sums").noconvert());
    m.def("round_sums", &round_sums, nb::arg("sums").noconvert(), nb::arg("out").noconvert());
}
