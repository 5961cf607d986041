// What Python sees of log-ratios and of the weights that are fitted to them: arrays are checked
// here.
#include "log_ratios_module.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nanobind/ndarray.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "label_weights.hpp"
#include "site_scan.hpp"
#include "symmetric.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Output = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
constexpr int64_t MAX_COUNT = int64_t{1} << 26;  // of all examples: logarithms are kept by count

std::vector<int32_t> copy_labels(const Vector<int32_t>& array, size_t n_labels) {
    std::vector<int32_t> labels = copy_array(array);
    for (int32_t label : labels) {
        require(label >= 0 && label < static_cast<int64_t>(n_labels),
                "a label is outside the prior");
    }
    return labels;
}

std::vector<int32_t> copy_rows(const SiteScan& scan, const Vector<int32_t>& array) {
    std::vector<int32_t> rows = copy_array(array);
    for (int32_t row : rows) {
        require(row >= 0 && row < static_cast<int64_t>(scan.n_all()), "a row is outside the table");
    }
    return rows;
}

// Rows of a scan, with no site yet; those that are left out of their counts must be counted.
LogRatios of_scan(const SiteScan& scan, const Vector<int32_t>& rows, bool leave_one_out) {
    std::vector<int32_t> labels;
    for (int32_t row : copy_rows(scan, rows)) {
        require(!leave_one_out || row < static_cast<int64_t>(scan.n()),
                "a row that is left out is not counted");
        labels.push_back(scan.labels()[static_cast<size_t>(row)]);
    }
    return LogRatios(std::move(labels), scan.n_labels(), scan.table(), leave_one_out);
}

void add_site(LogRatios& ratios,
              const SiteScan& scan,
              const Vector<int32_t>& site,
              const Vector<int32_t>& rows) {
    const std::vector<int32_t> columns = copy_array(site);
    const std::vector<int32_t> own_rows = copy_rows(scan, rows);
    for (int32_t column : columns) {
        require(column >= 0 && column < static_cast<int64_t>(scan.n_columns()),
                "a column is outside the table");
    }
    require(own_rows.size() == ratios.n() && scan.n_labels() == ratios.n_labels(),
            "these are other rows");
    for (size_t i = 0; i < own_rows.size(); ++i) {
        require(scan.labels()[static_cast<size_t>(own_rows[i])] == ratios.labels()[i] &&
                    (!ratios.leaves_one_out() || own_rows[i] < static_cast<int64_t>(scan.n())),
                "these are other rows");
    }
    require(ratios.table() == scan.table(), "these are rows of another scan");
    const Released released;
    scan.add_to(ratios, columns, own_rows);
}

// Rows of counts that were read from a memory: cells (sites, rows), and the labels and counts of
// each cell.
LogRatios of_counts(const Matrix<int32_t>& cells,
                    const Vector<int64_t>& starts,
                    const Vector<int32_t>& labels,
                    const Vector<int64_t>& counts,
                    const Vector<int32_t>& own_labels,
                    const Vector<double>& prior,
                    const Vector<double>& amounts,
                    const Vector<int64_t>& most,
                    bool leave_one_out) {
    require_aligned(cells);
    require_aligned(counts);
    const size_t n_labels = prior.shape(0);
    require(n_labels >= 2 && amounts.shape(0) == AMOUNTS && most.shape(0) == n_labels,
            "two labels at least, and three amounts of smoothing");
    require(cells.shape(1) == own_labels.shape(0) && labels.shape(0) == counts.shape(0) &&
                starts.shape(0) >= 1,
            "arrays do not fit");
    const std::vector<double> own_prior = copy_array(prior);
    const std::vector<double> own_amounts = copy_array(amounts);
    for (double share : own_prior) {
        require(share > 0 && std::isfinite(share), "shares are above zero");
    }
    for (double amount : own_amounts) {
        require(amount > 0 && std::isfinite(amount), "amounts are above zero");
    }
    const std::vector<int64_t> own_starts = copy_array(starts);
    const std::vector<int64_t> own_most = copy_array(most);
    int64_t all = 0;
    for (int64_t one : own_most) {
        require(one >= 0 && one <= MAX_COUNT, "there are too many examples");
        all += one;
    }
    require(all <= MAX_COUNT && labels.shape(0) < (size_t{1} << 31), "there are too many examples");
    require(own_starts.front() == 0 && own_starts.back() == static_cast<int64_t>(labels.shape(0)),
            "cells do not fit their entries");
    const std::vector<int32_t> entry_labels = copy_labels(labels, n_labels);
    for (size_t cell = 0; cell + 1 < own_starts.size(); ++cell) {
        require(
            own_starts[cell] <= own_starts[cell + 1] && own_starts[cell + 1] <= own_starts.back(),
            "cells do not fit their entries");
        int64_t total = 0;
        for (int64_t e = own_starts[cell]; e < own_starts[cell + 1]; ++e) {
            const auto at = static_cast<size_t>(e);
            require(counts.data()[at] >= 1 &&
                        counts.data()[at] <= own_most[static_cast<size_t>(entry_labels[at])],
                    "a count is above that of its label");
            total += counts.data()[at];
        }
        require(total <= all, "a cell has more examples than there are");
    }
    for (size_t i = 0; i < cells.size(); ++i) {
        require(
            cells.data()[i] >= -1 && cells.data()[i] < static_cast<int64_t>(own_starts.size()) - 1,
            "a cell is not there");
    }
    auto table = std::make_shared<const RatioTable>(own_prior, own_amounts.data(), own_most);
    LogRatios ratios(copy_labels(own_labels, n_labels), n_labels, std::move(table), leave_one_out);
    const Released released;
    for (size_t s = 0; s < cells.shape(0); ++s) {
        ratios.add(
            cells.data() + s * cells.shape(1), own_starts, entry_labels.data(), counts.data());
    }
    return ratios;
}

size_t sites_of(const LogRatios& ratios, const Matrix<double>& weights) {
    require_aligned(weights);
    const size_t n_sites = weights.shape(0) / AMOUNTS;
    require(weights.shape(0) % AMOUNTS == 0 && n_sites <= ratios.n_sites(),
            "weights of other sites");
    require(weights.shape(1) == 1 || weights.shape(1) == ratios.n_labels(),
            "weights of other labels");
    return n_sites;
}

void require_scores(const LogRatios& ratios, const Matrix<double>& scores) {
    require_aligned(scores);
    require(scores.shape(0) == ratios.n() && scores.shape(1) == ratios.n_columns(),
            "scores of other rows or labels");
}

void require_room(const Output& out, size_t size) {
    require_aligned(out);
    require(out.size() == size, "the result has another size");
}

void scores(const LogRatios& ratios, const Matrix<double>& weights, Output out) {
    const size_t n_sites = sites_of(ratios, weights);
    require_room(out, ratios.n() * ratios.n_columns());
    const Released released;
    ratios.scores(n_sites, weights.data(), weights.shape(1) > 1, out.data());
}

void softmax(const LogRatios& ratios,
             const Matrix<double>& scores,
             const Vector<double>& base,
             Output probabilities,
             Output losses) {
    require_scores(ratios, scores);
    require_aligned(base);
    require(base.shape(0) == ratios.n_labels(), "one number a label");
    require_room(probabilities, scores.size());
    require_room(losses, ratios.n());
    const Released released;
    softmax_rows(scores.data(),
                 ratios.n(),
                 ratios.n_labels(),
                 base.data(),
                 ratios.labels().data(),
                 probabilities.data(),
                 losses.data());
}

// The sums over the rows from first to last: of residuals times features, and of the covariances of
// features.
void sums(const LogRatios& ratios,
          const Matrix<double>& probabilities,
          int64_t n_sites,
          int64_t first,
          int64_t last,
          double least,
          Output gradient,
          Output curvature) {
    require_scores(ratios, probabilities);
    require(n_sites >= 0 && n_sites <= static_cast<int64_t>(ratios.n_sites()),
            "there are not so many sites");
    require(first >= 0 && first <= last && last <= static_cast<int64_t>(ratios.n()),
            "there are not so many rows");
    const auto sites = static_cast<size_t>(n_sites);
    const auto from = static_cast<size_t>(first);
    const auto to = static_cast<size_t>(last);
    const size_t n_features = sites * AMOUNTS;
    const size_t K = ratios.n_columns();
    require_room(gradient, n_features);
    require_room(curvature, n_features * n_features);
    const Released released;
    std::vector<double> residuals(probabilities.size());
    for (size_t i = from; i < to; ++i) {
        for (size_t c = 0; c < K; ++c) {
            residuals[i * K + c] = -probabilities.data()[i * K + c];
        }
        const auto label = static_cast<size_t>(ratios.labels()[i]);
        if (K > 1 || label == 1) {
            residuals[i * K + (K > 1 ? label : 0)] += 1.0;
        }
    }
    ratios.gradient(sites, residuals.data(), from, to, false, gradient.data());
    ratios.curvature(sites, probabilities.data(), from, to, least, curvature.data());
}

WeightLoss make_loss(const LogRatios& ratios,
                     const Vector<double>& base,
                     const Vector<double>& shares,
                     const Vector<double>& start,
                     double strength,
                     bool by_label) {
    require(base.shape(0) == ratios.n_labels() && shares.shape(0) == ratios.n(),
            "one number a label, and one a row");
    require(start.shape(0) % AMOUNTS == 0 && start.shape(0) / AMOUNTS <= ratios.n_sites(),
            "weights of other sites");
    require(std::isfinite(strength) && strength > 0, "the ridge is above zero");
    return WeightLoss(ratios,
                      start.shape(0) / AMOUNTS,
                      copy_array(base),
                      copy_array(shares),
                      copy_array(start),
                      strength,
                      by_label);
}

double loss(const LogRatios& ratios,
            const Vector<double>& base,
            const Vector<double>& shares,
            const Vector<double>& start,
            double strength,
            bool by_label,
            const Vector<double>& at,
            Output gradient) {
    WeightLoss weight_loss = make_loss(ratios, base, shares, start, strength, by_label);
    require(at.size() == weight_loss.size(), "weights of other sites or labels");
    require_room(gradient, at.size());
    std::vector<double> own_gradient(at.size());
    const double value = weight_loss(copy_array(at), own_gradient);
    std::copy(own_gradient.begin(), own_gradient.end(), gradient.data());
    return value;
}

void fit(const LogRatios& ratios,
         const Vector<double>& base,
         const Vector<double>& shares,
         const Vector<double>& start,
         double strength,
         bool by_label,
         int64_t steps,
         double tolerance,
         Output at) {
    WeightLoss weight_loss = make_loss(ratios, base, shares, start, strength, by_label);
    require_room(at, weight_loss.size());
    require(steps >= 0, "steps are counted from zero");
    std::vector<double> weights(at.data(), at.data() + at.size());
    const Released released;
    descend(weight_loss, weights, static_cast<size_t>(steps), tolerance);
    std::copy(weights.begin(), weights.end(), at.data());
}

bool solve(const Matrix<double>& a, double ridge, const Matrix<double>& b, Output x) {
    require_aligned(a);
    require_aligned(b);
    require(a.shape(0) == a.shape(1) && b.shape(1) == a.shape(0), "equations do not fit");
    require_room(x, b.size());
    const Released released;
    return solve_positive(a.data(), a.shape(0), ridge, b.data(), b.shape(0), x.data());
}

}  // namespace

void bind_log_ratios(nb::module_& m) {
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    nb::class_<LogRatios>(m, "LogRatios")
        .def_static("of_scan", &of_scan, nb::arg("scan"), array("rows"), nb::arg("leave_one_out"))
        .def_static("of_counts",
                    &of_counts,
                    array("cells"),
                    array("starts"),
                    array("labels"),
                    array("counts"),
                    array("own_labels"),
                    array("prior"),
                    array("amounts"),
                    array("most"),
                    nb::arg("leave_one_out"))
        .def("add", &add_site, nb::arg("scan"), array("site"), array("rows"))
        .def("scores", &scores, array("weights"), array("out"))
        .def("softmax",
             &softmax,
             array("scores"),
             array("base"),
             array("probabilities"),
             array("losses"))
        .def("sums",
             &sums,
             array("probabilities"),
             nb::arg("n_sites"),
             nb::arg("first"),
             nb::arg("last"),
             nb::arg("least"),
             array("gradient"),
             array("curvature"))
        .def("loss",
             &loss,
             array("base"),
             array("shares"),
             array("start"),
             nb::arg("strength"),
             nb::arg("by_label"),
             array("at"),
             array("gradient"))
        .def("fit",
             &fit,
             array("base"),
             array("shares"),
             array("start"),
             nb::arg("strength"),
             nb::arg("by_label"),
             nb::arg("steps"),
             nb::arg("tolerance"),
             array("at"));
    m.def("solve_positive", &solve, array("a"), nb::arg("ridge"), array("b"), array("x"));
}
