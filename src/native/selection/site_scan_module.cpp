// What Python sees of the scan of sites: arrays are checked and copied here.
#include "site_scan_module.hpp"

#include <algorithm>
#include <cmath>

#include <nanobind/ndarray.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "site_scan.hpp"
#include "site_sums.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Output = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

SiteScan make_scan(const Matrix<int32_t>& codes,
                   const Vector<int32_t>& sizes,
                   const Vector<int32_t>& labels,
                   const Vector<double>& prior,
                   const Vector<double>& amounts,
                   int64_t n) {
    require_aligned(codes);
    require(n >= 0 && n <= static_cast<int64_t>(labels.shape(0)), "there are not so many examples");
    require(codes.shape(0) == sizes.shape(0) && codes.shape(1) == labels.shape(0),
            "one code for each column and example");
    require(labels.shape(0) < (size_t{1} << 31), "there are too many examples");
    require(prior.shape(0) >= 2 && amounts.shape(0) == AMOUNTS,
            "two labels at least, and three amounts of smoothing");
    std::vector<int32_t> own(codes.data(), codes.data() + codes.size());
    std::vector<int32_t> own_sizes = copy_array(sizes);
    std::vector<int32_t> own_labels = copy_array(labels);
    std::vector<double> own_prior = copy_array(prior);
    std::vector<double> own_amounts = copy_array(amounts);
    for (int32_t size : own_sizes) {
        require(size >= 1, "a column has one value at least");
    }
    for (size_t i = 0; i < own.size(); ++i) {
        require(own[i] >= -1 && own[i] < own_sizes[i / own_labels.size()],
                "a code is outside its column");
    }
    for (int32_t label : own_labels) {
        require(label >= 0 && label < static_cast<int64_t>(own_prior.size()),
                "a label is outside the prior");
    }
    for (double share : own_prior) {
        require(share > 0 && std::isfinite(share), "shares are above zero");
    }
    for (double amount : own_amounts) {
        require(amount > 0 && std::isfinite(amount), "amounts are above zero");
    }
    return SiteScan(std::move(own),
                    std::move(own_sizes),
                    std::move(own_labels),
                    own_prior,
                    own_amounts.data(),
                    static_cast<size_t>(n));
}

// sites: one a row, filled up with -1. Writes gradients (sites, 3) and curvatures (sites, 3, 3).
void scan_sums(const SiteScan& scan,
               const Matrix<int32_t>& sites,
               const Vector<int32_t>& rows,
               const Matrix<double>& probabilities,
               Output gradients,
               Output curvatures) {
    require_aligned(sites);
    require_aligned(probabilities);
    require_aligned(gradients);
    require_aligned(curvatures);
    require(probabilities.shape(0) == rows.shape(0) &&
                probabilities.shape(1) == (scan.n_labels() == 2 ? 1 : scan.n_labels()),
            "one probability a row and label");
    require(gradients.size() == sites.shape(0) * AMOUNTS &&
                curvatures.size() == gradients.size() * AMOUNTS,
            "one result a site");
    const std::vector<int32_t> own_rows = copy_array(rows);
    for (int32_t row : own_rows) {
        require(row >= 0 && row < static_cast<int64_t>(scan.n()), "a row is outside the table");
    }
    std::vector<std::vector<int32_t>> own_sites(sites.shape(0));
    for (size_t i = 0; i < sites.size(); ++i) {
        const int32_t column = sites.data()[i];
        require(column >= -1 && column < static_cast<int64_t>(scan.n_columns()),
                "a column is outside the table");
        if (column >= 0) {
            own_sites[i / sites.shape(1)].push_back(column);
        }
    }
    for (const auto& site : own_sites) {
        require(!site.empty(), "a site has one column at least");
    }
    const Released released;
    const std::vector<SiteSums> sums = site_sums(scan, own_sites, own_rows, probabilities.data());
    for (size_t i = 0; i < sums.size(); ++i) {
        const double* p = sums[i].products;
        const double square[AMOUNTS * AMOUNTS] = {
            p[0], p[3], p[5], p[3], p[1], p[4], p[5], p[4], p[2]};
        std::copy(sums[i].gradient, sums[i].gradient + AMOUNTS, gradients.data() + i * AMOUNTS);
        std::copy(square, square + AMOUNTS * AMOUNTS, curvatures.data() + i * AMOUNTS * AMOUNTS);
    }
}

int64_t scan_cells(const SiteScan& scan,
                   const Vector<int32_t>& site,
                   nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
    require_aligned(out);
    require(out.size() == scan.n_all(), "one cell an example");
    const std::vector<int32_t> columns = copy_array(site);
    for (int32_t column : columns) {
        require(column >= 0 && column < static_cast<int64_t>(scan.n_columns()),
                "a column is outside the table");
    }
    const Released released;
    return static_cast<int64_t>(scan.cells(columns, out.data()));
}

}  // namespace

void bind_site_scan(nb::module_& m) {
    nb::class_<SiteScan>(m, "SiteScan")
        .def(nb::new_(&make_scan),
             nb::arg("codes").noconvert(),
             nb::arg("sizes").noconvert(),
             nb::arg("labels").noconvert(),
             nb::arg("prior").noconvert(),
             nb::arg("amounts").noconvert(),
             nb::arg("n"))
        .def("sums",
             &scan_sums,
             nb::arg("sites").noconvert(),
             nb::arg("rows").noconvert(),
             nb::arg("probabilities").noconvert(),
             nb::arg("gradients").noconvert(),
             nb::arg("curvatures").noconvert())
        .def("cells", &scan_cells, nb::arg("site").noconvert(), nb::arg("out").noconvert());
}
