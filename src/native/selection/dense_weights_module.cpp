// What Python sees of fits to log-ratios that are numbers a row: arrays are checked here.
#include "dense_weights_module.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nanobind/ndarray.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "dense_weights.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Cube = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// ratios: (labels, all rows, features); rows: those that are kept; labels: of each of these.
DenseRatios make_ratios(const Cube& ratios,
                        const Vector<int64_t>& rows,
                        const Vector<int32_t>& labels) {
    require_aligned(ratios);
    const std::vector<int64_t> own_rows = copy_array(rows);
    std::vector<int32_t> own_labels = copy_array(labels);
    require(ratios.shape(0) > 0 && own_rows.size() == own_labels.size(),
            "one label for each row, and one label at least");
    for (int64_t row : own_rows) {
        require(row >= 0 && static_cast<size_t>(row) < ratios.shape(1),
                "a row is outside the table");
    }
    for (int32_t label : own_labels) {
        require(label >= 0 && static_cast<size_t>(label) < ratios.shape(0),
                "a label is outside the table");
    }
    const Released released;
    return DenseRatios(ratios.data(),
                       ratios.shape(0),
                       ratios.shape(1),
                       ratios.shape(2),
                       own_rows,
                       std::move(own_labels));
}

DenseLoss make_loss(const DenseRatios& ratios,
                    const Vector<double>& base,
                    const Vector<double>& shares,
                    const Vector<double>& start,
                    double strength,
                    bool by_label,
                    size_t width) {
    require(base.shape(0) == ratios.n_labels() && shares.shape(0) == ratios.n(),
            "one number a label, and one a row");
    require(start.shape(0) == ratios.n_features(), "weights of other features");
    require(std::isfinite(strength) && strength > 0, "the ridge is above zero");
    require(width <= 2 || width == 4 || width == 8, "a vector has 1, 2, 4 or 8 numbers");
    return DenseLoss(
        ratios, copy_array(base), copy_array(shares), copy_array(start), strength, by_label, width);
}

double loss(const DenseRatios& ratios,
            const Vector<double>& base,
            const Vector<double>& shares,
            const Vector<double>& start,
            double strength,
            bool by_label,
            const Vector<double>& at,
            Output gradient,
            size_t width) {
    DenseLoss dense_loss = make_loss(ratios, base, shares, start, strength, by_label, width);
    require_aligned(gradient);
    require(at.size() == dense_loss.size() && gradient.size() == dense_loss.size(),
            "weights of other features or labels");
    std::vector<double> own_gradient(at.size());
    const double value = dense_loss(copy_array(at), own_gradient);
    std::copy(own_gradient.begin(), own_gradient.end(), gradient.data());
    return value;
}

void fit(const DenseRatios& ratios,
         const Vector<double>& base,
         const Vector<double>& shares,
         const Vector<double>& start,
         double strength,
         bool by_label,
         int64_t steps,
         double tolerance,
         Output at,
         bool is_bounded) {
    DenseLoss dense_loss = make_loss(ratios, base, shares, start, strength, by_label, 0);
    require_aligned(at);
    require(at.size() == dense_loss.size(), "weights of other features or labels");
    for (double weight : copy_array(start)) {
        require(weight >= 0 || !is_bounded, "weights are not negative");
    }
    require(steps >= 0, "steps are counted from zero");
    std::vector<double> weights(at.data(), at.data() + at.size());
    const Released released;
    descend(dense_loss,
            weights,
            static_cast<size_t>(steps),
            tolerance,
            is_bounded ? dense_loss.lower() : std::vector<double>());
    std::copy(weights.begin(), weights.end(), at.data());
}

template <void (*FUNCTION)(const double*, size_t, double*)>
void write_each(const Vector<double>& values, Output out) {
    require_aligned(values);
    require_aligned(out);
    require(values.size() == out.size(), "the result has another size");
    const Released released;
    FUNCTION(values.data(), values.size(), out.data());
}

}  // namespace

void bind_dense_weights(nb::module_& m) {
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    nb::class_<DenseRatios>(m, "DenseRatios")
        .def_static("of_rows", &make_ratios, array("ratios"), array("rows"), array("labels"))
        .def("loss",
             &loss,
             array("base"),
             array("shares"),
             array("start"),
             nb::arg("strength"),
             nb::arg("by_label"),
             array("at"),
             array("gradient"),
             nb::arg("width") = 0)
        .def("fit",
             &fit,
             array("base"),
             array("shares"),
             array("start"),
             nb::arg("strength"),
             nb::arg("by_label"),
             nb::arg("steps"),
             nb::arg("tolerance"),
             array("at"),
             nb::arg("is_bounded") = false);
    m.def("portable_log", &write_each<portable_logs>, array("values"), array("out"));
    m.def("portable_log1p", &write_each<portable_log1ps>, array("values"), array("out"));
}
