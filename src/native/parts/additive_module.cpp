// What Python sees of fits of additive functions: arrays are checked here.
#include "additive_module.hpp"

#include <algorithm>
#include <cmath>

#include <nanobind/ndarray.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "../selection/symmetric.hpp"
#include "../sums/wide_sums.hpp"
#include "additive_rows.hpp"
#include "step_scores.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

template <class T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using OutputMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr size_t MAX_COORDINATES = 1 << 14;

template <class A>
void require_size(const A& array, size_t size) {
    require_aligned(array);
    require(array.size() == size, "an array has another size");
}

void require_starts(const std::vector<int64_t>& starts, size_t end) {
    require(!starts.empty() && starts.front() == 0 && static_cast<size_t>(starts.back()) == end,
            "starts go from zero to the end");
    require(std::is_sorted(starts.begin(), starts.end()), "starts ascend");
}

Levels make_levels(const Vector<double>& knots,
                   const Vector<int64_t>& starts,
                   const Vector<uint8_t>& has_missing,
                   const Matrix<uint8_t>& of_names,
                   const Vector<int64_t>& sizes,
                   int32_t reach) {
    require_aligned(of_names);
    Levels levels{copy_array(knots),
                  copy_array(starts),
                  copy_array(has_missing),
                  {of_names.data(), of_names.data() + of_names.size()},
                  copy_array(sizes),
                  reach};
    require_starts(levels.starts, levels.knots.size());
    const size_t ordered = levels.starts.size() - 1;
    require(levels.has_missing.size() == ordered && of_names.shape(1) == NAME_CODES,
            "one entry for each column");
    require(levels.sizes.size() == ordered + of_names.shape(0), "one size for each column");
    require(reach >= 0 && reach <= 8 * HAT, "a line goes on for eight ranges at most");
    size_t p = 1;
    for (size_t c = 0; c < levels.sizes.size(); ++c) {
        require(levels.sizes[c] >= 0 && levels.sizes[c] <= 4096,
                "a column has 4,096 levels at most");
        p += static_cast<size_t>(levels.sizes[c]);
        if (c < ordered) {
            const double* first = levels.knots.data() + levels.starts[c];
            const int64_t k = levels.starts[c + 1] - levels.starts[c];
            require(k != 1 && levels.sizes[c] == k + (levels.has_missing[c] != 0),
                    "a column has no knots, or two or more");
            for (int64_t j = 0; j + 1 < k; ++j) {
                require(std::isfinite(first[j]) && first[j] < first[j + 1] &&
                            std::isfinite(first[j + 1]),
                        "knots are finite and ascend");
            }
        } else {
            const uint8_t* name_levels = levels.of_names.data() + (c - ordered) * NAME_CODES;
            for (size_t code = 0; code < NAME_CODES; ++code) {
                require(name_levels[code] < levels.sizes[c],
                        "a name has a level that its column lacks");
            }
        }
    }
    require(p <= MAX_COORDINATES, "too many coordinates");
    return levels;
}

AdditiveRows make_rows(const Matrix<double>& values,
                       const Matrix<uint8_t>& names,
                       const Levels& fine,
                       const Levels& coarse,
                       const Matrix<int64_t>& pairs) {
    require_aligned(values);
    require_aligned(names);
    require_aligned(pairs);
    require(values.shape(0) == names.shape(0) && pairs.shape(1) == 2,
            "as many values as names, and two columns in each pair");
    for (const Levels* levels : {&fine, &coarse}) {
        require(levels->starts.size() == values.shape(1) + 1 &&
                    levels->of_names.size() == names.shape(1) * NAME_CODES,
                "levels of other columns");
    }
    const std::vector<int64_t> own_pairs(pairs.data(), pairs.data() + pairs.size());
    size_t p = 1;
    for (int64_t size : fine.sizes) {
        p += static_cast<size_t>(size);
    }
    for (size_t k = 0; k < own_pairs.size(); ++k) {
        require(own_pairs[k] >= 0 && static_cast<size_t>(own_pairs[k]) < coarse.sizes.size(),
                "a pair of other columns");
    }
    for (size_t k = 0; k < own_pairs.size() && p <= MAX_COORDINATES; k += 2) {
        p += static_cast<size_t>(coarse.sizes[static_cast<size_t>(own_pairs[k])] *
                                 coarse.sizes[static_cast<size_t>(own_pairs[k + 1])]);
    }
    require(p <= MAX_COORDINATES, "too many coordinates");
    const Released released;
    return AdditiveRows(values.data(), names.data(), values.shape(0), fine, coarse, own_pairs);
}

Modes make_modes(const Vector<int64_t>& rows,
                 const Vector<int64_t>& columns,
                 const Vector<double>& flat) {
    Modes modes{copy_array(rows), copy_array(columns), copy_array(flat)};
    require(modes.rows.size() == modes.columns.size() && !modes.rows.empty(),
            "as many blocks of rows as of columns");
    require_starts(modes.rows, modes.p());
    require_starts(modes.columns, modes.q());
    require(modes.p() <= MAX_COORDINATES && modes.q() <= MAX_COORDINATES, "too many coordinates");
    size_t size = 0;
    for (size_t b = 0; b + 1 < modes.rows.size(); ++b) {
        size += static_cast<size_t>((modes.rows[b + 1] - modes.rows[b]) *
                                    (modes.columns[b + 1] - modes.columns[b]));
    }
    require(size == modes.flat.size(), "blocks have other sizes");
    return modes;
}

void write_entries(const AdditiveRows& rows,
                   Output<int64_t> starts,
                   Output<uint16_t> index,
                   Output<int16_t> value) {
    require_size(starts, rows.n() + 1);
    require_size(index, rows.index().size());
    require_size(value, rows.value().size());
    std::copy(rows.starts().begin(), rows.starts().end(), starts.data());
    std::copy(rows.index().begin(), rows.index().end(), index.data());
    std::copy(rows.value().begin(), rows.value().end(), value.data());
}

void scores(const AdditiveRows& rows, const Matrix<int64_t>& coefficients, Output<int64_t> out) {
    require_size(coefficients, rows.p() * coefficients.shape(1));
    require_size(out, rows.n() * coefficients.shape(1));
    const Released released;
    rows.scores(coefficients.data(), coefficients.shape(1), out.data());
}

void add_gram(const AdditiveRows& rows,
              const Vector<int64_t>& counts,
              const Vector<int64_t>& targets,
              Output<int64_t> gram,
              Output<int64_t> products) {
    require_size(counts, rows.n());
    require_size(targets, rows.n());
    require_size(gram, rows.p() * rows.p());
    require_size(products, rows.p());
    const Released released;
    rows.add_gram(counts.data(), targets.data(), gram.data(), NarrowSums(products.data()));
}

// The same with sums of 128 bits: products are (2, p), all low words and then all high words.
void add_wide_gram(const AdditiveRows& rows,
                   const Vector<int64_t>& counts,
                   const Vector<int64_t>& targets,
                   Output<int64_t> gram,
                   nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> products) {
    require_size(counts, rows.n());
    require_size(targets, rows.n());
    require_size(gram, rows.p() * rows.p());
    require_size(products, 2 * rows.p());
    const Released released;
    rows.add_gram(counts.data(),
                  targets.data(),
                  gram.data(),
                  WideSums(products.data(), products.data() + rows.p()));
}

void require_labels(const Vector<int32_t>& labels, int32_t end) {
    for (size_t i = 0; i < labels.size(); ++i) {
        require(labels.data()[i] >= 0 && labels.data()[i] < end, "a label is outside the table");
    }
}

ClassRows make_class_rows(const AdditiveRows& rows,
                          const Vector<int32_t>& labels,
                          const Vector<double>& weights,
                          size_t outputs) {
    require_size(labels, rows.n());
    require_size(weights, rows.n());
    require_labels(labels, static_cast<int32_t>(outputs == 1 ? 2 : outputs));
    return {rows, labels.data(), weights.data(), outputs};
}

void curvature(const AdditiveRows& rows,
               const Vector<int32_t>& labels,
               const Vector<double>& weights,
               const Modes& modes,
               const Matrix<double>& phi,
               size_t most,
               Output<double> out) {
    const size_t o = phi.shape(0);
    const size_t q = modes.q();
    const ClassRows class_rows = make_class_rows(rows, labels, weights, o);
    require(rows.p() == modes.p() && o > 0, "modes of other coordinates");
    require_size(phi, o * q);
    require_size(out, q * q);
    const Released released;
    class_rows.curvature(modes, phi.data(), most, out.data());
}

// fold_weights: (folds, n).
void fold_slopes(const AdditiveRows& rows,
                 const Vector<int32_t>& labels,
                 const Matrix<double>& fold_weights,
                 const Modes& modes,
                 const Matrix<double>& phi,
                 Output<double> out) {
    const size_t outputs = phi.shape(0);
    const size_t n_folds = fold_weights.shape(0);
    require_size(labels, rows.n());
    require_size(fold_weights, n_folds * rows.n());
    require(rows.p() == modes.p() && outputs > 0, "modes of other coordinates");
    require_size(phi, outputs * modes.q());
    require_size(out, n_folds * outputs * modes.q());
    require_labels(labels, static_cast<int32_t>(outputs == 1 ? 2 : outputs));
    const Released released;
    const ClassRows class_rows{rows, labels.data(), nullptr, outputs};
    class_rows.fold_slopes(modes, phi.data(), fold_weights.data(), n_folds, out.data());
}

void fit(const AdditiveRows& rows,
         const Vector<int32_t>& labels,
         const Vector<double>& weights,
         const Modes& modes,
         const Matrix<double>& inverse,
         const Vector<double>& penalties,
         const Matrix<double>& center,
         size_t steps,
         double tolerance,
         OutputMatrix phi) {
    const size_t outputs = phi.shape(0);
    const size_t q = modes.q();
    const ClassRows class_rows = make_class_rows(rows, labels, weights, outputs);
    require(rows.p() == modes.p() && outputs > 0, "modes of other coordinates");
    require_size(inverse, q * q);
    require_size(penalties, q);
    require_size(center, outputs * q);
    require_size(phi, outputs * q);
    const Released released;
    class_rows.fit(
        modes, inverse.data(), penalties.data(), center.data(), steps, tolerance, phi.data());
}

// Coordinates of the fit, (outputs, q), become those of rows, (p, outputs).
void apply(const Modes& modes, const Matrix<double>& phi, Output<double> out) {
    const size_t o = phi.shape(0);
    const size_t p = modes.p();
    const size_t q = modes.q();
    require_size(phi, o * q);
    require_size(out, p * o);
    std::vector<double> one(p);
    for (size_t k = 0; k < o; ++k) {
        modes.apply(phi.data() + k * q, one.data());
        for (size_t i = 0; i < p; ++i) {
            out.data()[i * o + k] = one[i];
        }
    }
}

void apply_turned(const Modes& modes, const Vector<double>& from, Output<double> out) {
    require_size(from, modes.p());
    require_size(out, modes.q());
    modes.apply_turned(from.data(), out.data());
}

void turn(const Modes& modes, const Matrix<double>& upper, Output<double> out) {
    require_size(upper, modes.p() * modes.p());
    require_size(out, modes.q() * modes.q());
    const Released released;
    modes.turn(upper.data(), out.data());
}

bool write_inverse_root(const Matrix<double>& a, Output<double> out) {
    const size_t n = a.shape(0);
    require_size(a, n * n);
    require_size(out, n * n);
    std::vector<double> own_matrix(a.data(), a.data() + n * n);
    const Released released;
    return invert_root(own_matrix.data(), n, out.data());
}

// Shares of labels, (n, outputs), by scores in 1/65536; returns the sum of losses, none above
// `most`, times weights.
double write_label_shares(const Matrix<int64_t>& scores,
                          const Vector<int32_t>& labels,
                          const Vector<double>& weights,
                          double most,
                          Output<double> out) {
    const size_t n = scores.shape(0);
    const size_t o = scores.shape(1);
    const size_t end = o == 1 ? 2 : o;
    require_size(scores, n * o);
    require_size(labels, n);
    require_size(weights, n);
    require_size(out, n * o);
    for (size_t i = 0; i < n; ++i) {
        require(labels.data()[i] >= 0 && static_cast<size_t>(labels.data()[i]) < end,
                "a label is outside the table");
    }
    const Released released;
    std::vector<double> one(o);
    double loss = 0;
    for (size_t i = 0; i < n; ++i) {
        for (size_t k = 0; k < o; ++k) {
            one[k] = static_cast<double>(scores.data()[i * o + k]) / 65536.0;
        }
        loss += weights.data()[i] *
                std::min(shares_of(one.data(), o, labels.data()[i], out.data() + i * o), most);
    }
    return loss;
}

void pairs(const Matrix<uint8_t>& cells,
           const Vector<int64_t>& sizes,
           const Matrix<int64_t>& left,
           const Matrix<int64_t>& spread,
           double shrinkage,
           Output<double> out) {
    const size_t columns = cells.shape(0);
    const size_t n = cells.shape(1);
    const size_t outputs = left.shape(1);
    const std::vector<int64_t> own_sizes = copy_array(sizes);
    require_aligned(cells);
    require_size(left, n * outputs);
    require_size(spread, n * outputs);
    require(own_sizes.size() == columns && out.size() == columns * (columns - (columns > 0)) / 2,
            "one number for each pair of columns");
    for (size_t c = 0; c < columns; ++c) {
        require(own_sizes[c] > 0 && own_sizes[c] <= 256, "a column has 1 to 256 cells");
        for (size_t i = 0; i < n; ++i) {
            require(cells.data()[c * n + i] < own_sizes[c], "a cell is outside its column");
        }
    }
    const Released released;
    pair_scores(
        cells.data(), own_sizes, n, left.data(), spread.data(), outputs, shrinkage, out.data());
}

StepRatios make_ratios(const Matrix<int64_t>& columns,
                       const Matrix<int32_t>& levels,
                       const Matrix<int32_t>& rights,
                       const Matrix<int64_t>& pairs,
                       const Vector<int64_t>& widths,
                       const Vector<int64_t>& starts,
                       const Matrix<int64_t>& blocks,
                       const Vector<int64_t>& constant,
                       const Vector<int64_t>& prior,
                       const Vector<int64_t>& places,
                       const Vector<double>& weights) {
    const size_t n = levels.shape(0);
    const size_t o = constant.shape(0);
    const auto flat = [](const auto& array) {
        return std::vector(array.data(), array.data() + array.size());
    };
    require_size(columns, n * 256 * o);
    require_size(levels, n * 256);
    require_size(rights, n * 256);
    require_aligned(pairs);
    require_aligned(blocks);
    require(o > 0 && levels.shape(1) == 256 && columns.shape(1) == 256 * o && blocks.shape(1) == o,
            "one entry for each byte and output");
    StepTables tables{o,
                      copy_array(constant),
                      flat(columns),
                      flat(levels),
                      flat(rights),
                      flat(pairs),
                      copy_array(widths),
                      copy_array(starts),
                      flat(blocks)};
    require_starts(tables.starts, blocks.shape(0));
    const size_t n_pairs = tables.starts.size() - 1;
    require(pairs.shape(0) == n_pairs && pairs.shape(1) == 2 && tables.widths.size() == n_pairs,
            "one block for each pair");
    for (int64_t c : tables.pairs) {
        require(c >= 0 && static_cast<size_t>(c) < n, "a pair is of a column that there is not");
    }
    for (int32_t right : tables.rights) {
        require(right >= 0 && right <= HAT, "a byte lies between two levels");
    }
    for (size_t k = 0; k < n_pairs; ++k) {
        const auto top = [&](int64_t c) {
            return *std::max_element(tables.levels.begin() + c * 256,
                                     tables.levels.begin() + (c + 1) * 256);
        };
        const int64_t a = top(tables.pairs[2 * k]);
        const int64_t b = top(tables.pairs[2 * k + 1]);
        const int64_t width = tables.widths[k];
        require(width >= 0 && width <= 4096 && a <= 4096 && b <= 4096,
                "a column has 4,096 levels at most");
        require(a < 0 || b < 0 || (a + 1) * width + b + 1 < tables.starts[k + 1] - tables.starts[k],
                "a level is outside its block");
    }
    StepRatios ratios{
        std::move(tables), copy_array(prior), copy_array(places), copy_array(weights), 0};
    const size_t n_known = ratios.prior.size();
    require(n_known >= o && ratios.places.size() == ratios.weights.size(),
            "one prior and one weight for each label");
    for (int64_t place : ratios.places) {
        require(place >= -1 && place < static_cast<int64_t>(n_known),
                "a label is outside the function");
    }
    ratios.unit = static_cast<double>(n_known) * 65536.0;
    return ratios;
}

void add_ratios(const StepRatios& ratios, const Matrix<uint8_t>& rows, OutputMatrix out) {
    require_aligned(rows);
    require_aligned(out);
    require(rows.shape(1) >= ratios.tables.n_columns(), "one byte for each column");
    require(out.shape(0) == rows.shape(0) && out.shape(1) == ratios.places.size(),
            "one score for each row and label");
    const Released released;
    ratios.add(rows.data(), rows.shape(0), rows.shape(1), out.data());
}

}  // namespace

void bind_additive(nb::module_& m) {
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    nb::class_<Levels>(m, "AdditiveLevels")
        .def_static("of",
                    &make_levels,
                    array("knots"),
                    array("starts"),
                    array("has_missing"),
                    array("of_names"),
                    array("sizes"),
                    nb::arg("reach"));
    nb::class_<Modes>(m, "AdditiveModes")
        .def_static("of", &make_modes, array("rows"), array("columns"), array("flat"))
        .def("apply", &apply, array("phi"), array("out"))
        .def("apply_turned", &apply_turned, array("given"), array("out"))
        .def("turn", &turn, array("upper"), array("out"));
    nb::class_<AdditiveRows>(m, "AdditiveRows")
        .def_static("of",
                    &make_rows,
                    array("values"),
                    array("names"),
                    nb::arg("fine"),
                    nb::arg("coarse"),
                    array("pairs"))
        .def_prop_ro("n", &AdditiveRows::n)
        .def_prop_ro("n_entries", [](const AdditiveRows& rows) { return rows.index().size(); })
        .def("entries", &write_entries, array("starts"), array("index"), array("value"))
        .def("scores", &scores, array("coefficients"), array("out"))
        .def("add_gram",
             &add_gram,
             array("counts"),
             array("targets"),
             array("gram"),
             array("products"))
        .def("add_wide_gram",
             &add_wide_gram,
             array("counts"),
             array("targets"),
             array("gram"),
             array("products"))
        .def("curvature",
             &curvature,
             array("labels"),
             array("weights"),
             nb::arg("modes"),
             array("phi"),
             nb::arg("most"),
             array("out"))
        .def("fold_slopes",
             &fold_slopes,
             array("labels"),
             array("fold_weights"),
             nb::arg("modes"),
             array("phi"),
             array("out"))
        .def("fit",
             &fit,
             array("labels"),
             array("weights"),
             nb::arg("modes"),
             array("inverse"),
             array("penalties"),
             array("center"),
             nb::arg("steps"),
             nb::arg("tolerance"),
             array("phi"));
    nb::class_<StepRatios>(m, "StepRatios")
        .def_static("of",
                    &make_ratios,
                    array("columns"),
                    array("levels"),
                    array("rights"),
                    array("pairs"),
                    array("widths"),
                    array("starts"),
                    array("blocks"),
                    array("constant"),
                    array("prior"),
                    array("places"),
                    array("weights"))
        .def("add", &add_ratios, array("rows"), array("out"));
    m.def("inverse_root", &write_inverse_root, array("a"), array("out"));
    m.def("label_shares",
          &write_label_shares,
          array("scores"),
          array("labels"),
          array("weights"),
          nb::arg("most"),
          array("out"));
    m.def("pair_scores",
          &pairs,
          array("cells"),
          array("sizes"),
          array("left"),
          array("spread"),
          nb::arg("shrinkage"),
          array("out"));
}
