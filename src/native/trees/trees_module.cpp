// What Python sees of trees: arrays are checked here.
#include "trees_module.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "cuts.hpp"
#include "tree_features.hpp"
#include "tree_scores.hpp"
#include "trees.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

void write_copies(const Vector<uint64_t>& words,
                  const Vector<int64_t>& counts,
                  uint64_t tree,
                  nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
    require(words.shape(0) == counts.shape(0) && words.shape(0) == out.shape(0),
            "one hash and one count for each row");
    require_aligned(words);
    require_aligned(counts);
    require_aligned(out);
    const Released released;
    draw_copies(words.data(), counts.data(), words.shape(0), tree, out.data());
}

// cuts: one place for each of them.
void write_cuts(const Vector<double>& values,
                const Vector<int64_t>& upto,
                int64_t least,
                double band,
                int64_t band_rows,
                nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> cuts) {
    require_aligned(values);
    require_aligned(upto);
    require_aligned(cuts);
    require(values.shape(0) == upto.shape(0), "one sum of rows for each value");
    require(least > 0 && band >= 0 && band < 0.5 && band_rows >= 0,
            "a range needs rows, and a band around its middle");
    const CountedValues column{values.data(), upto.data(), values.shape(0)};
    for (size_t i = 0; i < column.n; ++i) {
        require(
            std::isfinite(column.values[i]) && (i == 0 || column.values[i - 1] < column.values[i]),
            "values must ascend");
        require(
            column.upto[i] > (i ? column.upto[i - 1] : 0) && column.upto[i] < (int64_t{1} << 54),
            "sums of rows must ascend");
    }
    const Released released;
    halve(column, {least, band, band_rows}, cuts.shape(0), cuts.data());
}

template <class T>
using Result = nb::ndarray<nb::numpy, T>;
using TreeArrays = std::tuple<Result<int32_t>, Result<uint8_t>, Result<int32_t>, Result<int64_t>>;

// codes: (columns, rows). The arrays are those of the tree: column, step, right child, weight.
TreeArrays grow_checked_tree(const Matrix<uint8_t>& codes,
                             const Vector<uint8_t>& names,
                             const Vector<int32_t>& targets,
                             const Vector<int32_t>& weights,
                             const Vector<int32_t>& bag,
                             size_t n_labels,
                             int64_t min_weight,
                             size_t max_columns,
                             bool random_split,
                             uint64_t seed,
                             const Vector<uint64_t>& words) {
    require(codes.shape(0) == names.shape(0) && codes.shape(1) == targets.shape(0),
            "one code for each column and row");
    require(weights.shape(0) == targets.shape(0) && words.shape(0) == targets.shape(0),
            "one weight and one hash for each row");
    require(codes.shape(0) > 0 && codes.shape(0) < (size_t{1} << 31) &&
                codes.shape(1) < (size_t{1} << 31),
            "too many rows, or no column");
    require(bag.shape(0) > 0 && min_weight > 0 && max_columns > 0, "numbers must be above zero");
    require_aligned(targets);
    require_aligned(weights);
    const std::vector<uint64_t> own_words = copy_array(words);
    std::vector<int32_t> own_bag = copy_array(bag);
    std::vector<int32_t> own_targets = copy_array(targets);
    std::vector<int32_t> own_weights = copy_array(weights);
    int64_t total = 0;
    for (int32_t row : own_bag) {
        require(row >= 0 && static_cast<size_t>(row) < own_targets.size(),
                "a row is outside the table");
        require(own_weights[static_cast<size_t>(row)] > 0, "weights are above zero");
        total += own_weights[static_cast<size_t>(row)];
        require(total < (int64_t{1} << 31), "the weights are too large together");
    }
    if (n_labels) {  // else they are numbers
        for (int32_t label : own_targets) {
            require(label >= 0 && static_cast<size_t>(label) < n_labels,
                    "a label is outside the table");
        }
    }
    const GrowingRows rows{codes.data(),
                           names.data(),
                           own_targets.data(),
                           own_weights.data(),
                           own_words.data(),
                           codes.shape(1),
                           codes.shape(0),
                           n_labels};
    const GrowingRules rules{min_weight, max_columns, random_split, seed};
    Tree tree;
    {
        const Released released;
        tree = grow_tree(rows, std::move(own_bag), rules);
    }
    return {hand_over(std::move(tree.column)),
            hand_over(std::move(tree.step)),
            hand_over(std::move(tree.right)),
            hand_over(std::move(tree.weight))};
}

// Trees that were checked once, with copies of their arrays.
class CheckedForest {
public:
    CheckedForest(const Vector<int32_t>& column,
                  const Vector<uint8_t>& step,
                  const Vector<int32_t>& right,
                  const Vector<int64_t>& starts,
                  const Vector<uint8_t>& names)
        : walked_(walk_checked(copy_array(column),
                               copy_array(step),
                               copy_array(right),
                               copy_array(starts),
                               copy_array(names))) {}

    // codes: (rows, columns). Writes leaves: (rows, trees).
    void leaves(const Matrix<uint8_t>& codes,
                nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) const {
        require(codes.shape(1) == walked_.n_columns(), "one code for each column");
        require(out.shape(0) == codes.shape(0) && out.shape(1) == walked_.n_trees(),
                "one leaf for each row and tree");
        require_aligned(out);
        const Released released;
        find_leaves(walked_, codes.data(), codes.shape(0), out.data());
    }

    // levels: (nodes,). Writes parents: (nodes,); cells and numbers: (levels, nodes).
    void cells(const Vector<uint8_t>& levels,
               nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> parents,
               nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> nodes,
               nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> numbers) const {
        const size_t n = walked_.n_nodes();
        require_aligned(parents);
        require_aligned(nodes);
        require_aligned(numbers);
        require(levels.shape(0) == n && parents.shape(0) == n && nodes.shape(1) == n &&
                    numbers.shape(1) == n && nodes.shape(0) == numbers.shape(0),
                "one cell for each level and node");
        const std::vector<uint8_t> own_levels = copy_array(levels);
        const Released released;
        find_cells(walked_,
                   own_levels.data(),
                   nodes.shape(0),
                   {parents.data(), nodes.data(), numbers.data()});
    }

    // cells: (levels, nodes); values: (nodes, width). Adds to out: (cells, width).
    void add_leaves(const Matrix<int32_t>& cells,
                    const Matrix<int64_t>& values,
                    nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) const {
        const size_t n = walked_.n_nodes();
        require_aligned(values);
        require_aligned(out);
        require(cells.shape(1) == n && values.shape(0) == n && values.shape(1) == out.shape(1),
                "one cell for each level and node, and one row of values for each node");
        const std::vector<int32_t> own_cells(cells.data(), cells.data() + cells.size());
        for (int32_t cell : own_cells) {
            require(cell >= 0 && static_cast<size_t>(cell) < out.shape(0),
                    "a cell is outside the sums");
        }
        const Released released;
        hammemo::add_leaves(
            walked_, own_cells.data(), cells.shape(0), values.data(), out.shape(1), out.data());
    }

    // rows: for each node, which row of values a leaf has. values: (rows, labels).
    TreeScores with_scores(const Vector<int32_t>& rows, const Matrix<double>& values) const {
        require_aligned(values);
        std::vector<int32_t> own_rows = copy_array(rows);
        require(own_rows.size() == walked_.n_nodes() && values.shape(1) > 0,
                "one row for each node, and one label at least");
        for (size_t i = 0; i < own_rows.size(); ++i) {
            require(!walked_.is_leaf(i) ||
                        (own_rows[i] >= 0 && static_cast<size_t>(own_rows[i]) < values.shape(0)),
                    "a leaf has no values");
        }
        return {walked_,
                std::move(own_rows),
                {values.data(), values.data() + values.size()},
                values.shape(1)};
    }

private:
    static WalkedForest walk_checked(const std::vector<int32_t>& column,
                                     const std::vector<uint8_t>& step,
                                     const std::vector<int32_t>& right,
                                     const std::vector<int64_t>& starts,
                                     const std::vector<uint8_t>& names) {
        require(step.size() == column.size() && right.size() == column.size(),
                "one step and child for each node");
        require(!starts.empty() && starts.front() == 0 &&
                    starts.back() == static_cast<int64_t>(column.size()),
                "trees must cover all nodes");
        require(column.size() < (size_t{1} << 31) && !names.empty(),
                "there are too many nodes, or no column");
        for (size_t tree = 0; tree + 1 < starts.size(); ++tree) {
            const int64_t first = starts[tree];
            const int64_t last = starts[tree + 1];
            require(first >= 0 && first < last && last <= static_cast<int64_t>(column.size()),
                    "a tree has one node at least");
            for (int64_t i = first; i < last; ++i) {
                const int32_t split_column = column[static_cast<size_t>(i)];
                if (split_column == LEAF) {
                    continue;
                }
                const int64_t child = right[static_cast<size_t>(i)];
                require(split_column >= 0 && static_cast<size_t>(split_column) < names.size(),
                        "a column is outside the table");
                require(child > i - first && child < last - first && i + 1 < last,
                        "children come behind their parent");
            }
        }
        return WalkedForest({column.data(),
                             step.data(),
                             right.data(),
                             starts.data(),
                             names.data(),
                             starts.size() - 1,
                             names.size()});
    }

    WalkedForest walked_;
};

CheckedForest make_forest(const Vector<int32_t>& column,
                          const Vector<uint8_t>& step,
                          const Vector<int32_t>& right,
                          const Vector<int64_t>& starts,
                          const Vector<uint8_t>& names) {
    return {column, step, right, starts, names};
}

std::vector<int64_t> copy_starts(const Vector<int64_t>& starts, size_t n, size_t end) {
    std::vector<int64_t> own_starts = copy_array(starts);
    require(own_starts.size() == n + 1 && own_starts.front() == 0 &&
                own_starts.back() == static_cast<int64_t>(end),
            "columns must cover all cuts");
    for (size_t i = 0; i < n; ++i) {
        require(own_starts[i] <= own_starts[i + 1] && own_starts[i + 1] - own_starts[i] < 255,
                "a column has too many cuts");
    }
    return own_starts;
}

StepCoder make_coder(const Vector<double>& cuts,
                     const Vector<int64_t>& cut_starts,
                     size_t n_names,
                     const Matrix<int64_t>& pairs,
                     const Vector<int64_t>& pair_cuts,
                     const Vector<int64_t>& pair_starts) {
    require_aligned(pairs);
    require(cut_starts.shape(0) > 0 && pairs.shape(1) == 2 && n_names < (size_t{1} << 31),
            "pairs are of two columns");
    const size_t n_ordered = cut_starts.shape(0) - 1;
    std::vector<int64_t> own_pairs(pairs.data(), pairs.data() + pairs.size());
    for (int64_t column : own_pairs) {
        require(column >= 0 && static_cast<size_t>(column) < n_ordered,
                "a column is outside the table");
    }
    return {copy_array(cuts),
            copy_starts(cut_starts, n_ordered, cuts.shape(0)),
            n_names,
            std::move(own_pairs),
            copy_array(pair_cuts),
            copy_starts(pair_starts, pairs.shape(0), pair_cuts.shape(0))};
}

// Writes codes: (rows, columns).
void write_codes(const StepCoder& coder,
                 const Matrix<double>& values,
                 const Matrix<uint8_t>& names,
                 nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    require_aligned(values);
    require(values.shape(1) == coder.n_ordered() && names.shape(1) == coder.n_names(),
            "one value for each column");
    require(names.shape(0) == values.shape(0) && out.shape(0) == values.shape(0) &&
                out.shape(1) == coder.n_columns(),
            "one code for each row and column");
    const Released released;
    coder.write(values.data(), names.data(), values.shape(0), out.data());
}

// Adds to scores: (rows, labels). codes: (rows, columns).
void add_scores(const TreeScores& trees,
                const Matrix<uint8_t>& codes,
                nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    require(codes.shape(1) == trees.n_columns(), "one code for each column");
    require(out.shape(0) == codes.shape(0) && out.shape(1) == trees.n_labels(),
            "one score for each row and label");
    require_aligned(out);
    const Released released;
    trees.add(codes.data(), codes.shape(0), out.data());
}

// leaves: (rows, trees). Adds to counts: (nodes, labels).
void add_label_counts(const Matrix<int32_t>& leaves,
                      const Vector<int32_t>& labels,
                      const Vector<int64_t>& weights,
                      nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> counts) {
    require_aligned(leaves);
    require_aligned(counts);
    const size_t n_labels = counts.shape(1);
    const std::vector<int32_t> own_labels = copy_array(labels);
    const std::vector<int64_t> own_weights = copy_array(weights);
    require(own_labels.size() == leaves.shape(0) && own_weights.size() == leaves.shape(0),
            "one label and one weight for each row");
    for (int32_t label : own_labels) {
        require(label >= 0 && static_cast<size_t>(label) < n_labels,
                "a label is outside the counts");
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
        require(leaves.data()[i] >= 0 && static_cast<size_t>(leaves.data()[i]) < counts.shape(0),
                "a leaf is outside the trees");
    }
    const Released released;
    count_labels(leaves.data(),
                 own_labels.data(),
                 own_weights.data(),
                 leaves.shape(0),
                 leaves.shape(1),
                 n_labels,
                 counts.data());
}

// Writes the features of rows into the first places of out: (labels, rows, width).
void write_features(const Matrix<int32_t>& leaves,
                    const Matrix<uint8_t>& is_out,
                    const Matrix<int32_t>& cells,
                    const Matrix<int64_t>& counts,
                    const Vector<int32_t>& labels,
                    const Vector<int32_t>& kinds,
                    size_t n_kinds,
                    const Matrix<double>& label_logs,
                    const Matrix<double>& own_logs,
                    const Vector<int64_t>& label_starts,
                    const Matrix<double>& total_logs,
                    nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu> out) {
    require_aligned(leaves);
    require_aligned(cells);
    require_aligned(counts);
    require_aligned(label_logs);
    require_aligned(own_logs);
    require_aligned(total_logs);
    require_aligned(out);
    const size_t n = leaves.shape(0);
    const size_t n_trees = leaves.shape(1);
    const size_t n_labels = counts.shape(1);
    const size_t n_amounts = label_logs.shape(1);
    const std::vector<int32_t> own_labels = copy_array(labels);
    const std::vector<int32_t> own_kinds = copy_array(kinds);
    const std::vector<int64_t> own_starts = copy_array(label_starts);
    require(is_out.shape(0) == n && is_out.shape(1) == n_trees && own_labels.size() == n,
            "one label and one bag for each row");
    require(own_kinds.size() == n_trees && own_starts.size() == n_labels && n_labels > 0,
            "one kind a tree and one table a label");
    require(own_logs.shape(0) == label_logs.shape(0) && own_logs.shape(1) == n_amounts,
            "as many logarithms for a row's own label");
    require(total_logs.shape(1) == n_amounts && n_amounts > 0 && n_kinds > 0,
            "one logarithm for each amount");
    require(out.shape(0) == n_labels && out.shape(1) == n &&
                out.shape(2) >= n_kinds * cells.shape(0) * n_amounts,
            "the features need room");
    for (int32_t kind : own_kinds) {
        require(kind >= 0 && static_cast<size_t>(kind) < n_kinds, "a tree is of no kind");
    }
    for (int32_t label : own_labels) {
        require(label >= 0 && static_cast<size_t>(label) < n_labels,
                "a label is outside the counts");
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
        require(leaves.data()[i] >= 0 && static_cast<size_t>(leaves.data()[i]) < cells.shape(1),
                "a leaf is outside the trees");
    }
    for (size_t i = 0; i < cells.size(); ++i) {
        require(cells.data()[i] >= 0 && static_cast<size_t>(cells.data()[i]) < counts.shape(0),
                "a cell has no counts");
    }
    const auto entries = static_cast<int64_t>(label_logs.shape(0));
    const auto totals = static_cast<int64_t>(total_logs.shape(0));
    for (size_t cell = 0; cell < counts.shape(0); ++cell) {
        int64_t total = 0;
        for (size_t c = 0; c < n_labels; ++c) {
            const int64_t count = counts.data()[cell * n_labels + c];
            const int64_t start = own_starts[c];
            require(count >= 0 && start >= 0 && start < entries && count < entries - start,
                    "a count is outside its table");
            total += count;
            require(total < totals, "a count is outside its table");
        }
    }
    const TreeFeatures features{leaves.data(),
                                is_out.data(),
                                cells.data(),
                                counts.data(),
                                own_labels.data(),
                                own_kinds.data(),
                                label_logs.data(),
                                own_logs.data(),
                                own_starts.data(),
                                total_logs.data(),
                                n,
                                n_trees,
                                cells.shape(0),
                                cells.shape(1),
                                n_labels,
                                n_kinds,
                                n_amounts,
                                out.shape(2)};
    const Released released;
    features.write(out.data());
}

// Writes out: (rows, kinds * levels * amounts).
void write_number_features(const Matrix<int32_t>& leaves,
                           const Matrix<uint8_t>& is_out,
                           const Matrix<int32_t>& cells,
                           const Vector<int64_t>& counts,
                           const std::variant<Vector<int64_t>, Matrix<uint64_t>>& sums,
                           const Vector<int64_t>& numbers,
                           const Vector<double>& amounts,
                           nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    require_aligned(leaves);
    require_aligned(cells);
    require_aligned(out);
    const std::vector<int64_t> own_counts = copy_array(counts);
    const std::vector<int64_t> own_numbers = copy_array(numbers);
    std::vector<int64_t> own_sums;
    std::vector<uint64_t> own_words;
    if (const auto* narrow = std::get_if<Vector<int64_t>>(&sums)) {
        own_sums = copy_array(*narrow);
        require(own_sums.size() == own_counts.size(), "one count and one sum for each cell");
    } else {
        const auto& wide = std::get<Matrix<uint64_t>>(sums);
        require_aligned(wide);
        require(wide.shape(0) == 2 && wide.shape(1) == own_counts.size(),
                "one count and two words of a sum for each cell");
        own_words.assign(wide.data(), wide.data() + wide.size());
    }
    const std::vector<double> own_amounts = copy_array(amounts);
    const size_t n = leaves.shape(0);
    const size_t n_trees = leaves.shape(1);
    const size_t per_kind = cells.shape(0) * own_amounts.size();
    require(is_out.shape(0) == n && is_out.shape(1) == n_trees && own_numbers.size() == n,
            "one number and one bag for each row");
    require(per_kind > 0, "levels and amounts");
    require(out.shape(0) == n && out.shape(1) > 0 && out.shape(1) % per_kind == 0,
            "the features need room");
    for (double amount : own_amounts) {
        require(amount > 0, "amounts are above zero");
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
        require(leaves.data()[i] >= 0 && static_cast<size_t>(leaves.data()[i]) < cells.shape(1),
                "a leaf is outside the trees");
    }
    for (size_t i = 0; i < cells.size(); ++i) {
        require(cells.data()[i] >= 0 && static_cast<size_t>(cells.data()[i]) < own_counts.size(),
                "a cell has no counts");
    }
    NumberFeatures features{};
    features.leaves = leaves.data();
    features.is_out = is_out.data();
    features.cells = cells.data();
    features.counts = own_counts.data();
    features.sums = own_sums.data();
    features.words = own_words.empty() ? nullptr : own_words.data();
    features.numbers = own_numbers.data();
    features.amounts = own_amounts.data();
    features.n_rows = n;
    features.n_trees = n_trees;
    features.n_levels = cells.shape(0);
    features.n_nodes = cells.shape(1);
    features.n_cells = own_counts.size();
    features.n_kinds = out.shape(1) / per_kind;
    features.n_amounts = own_amounts.size();
    const Released released;
    features.write(out.data());
}

}  // namespace

void bind_trees(nb::module_& m) {
    m.def("copies_in_bag",
          &write_copies,
          nb::arg("words").noconvert(),
          nb::arg("counts").noconvert(),
          nb::arg("tree"),
          nb::arg("out").noconvert());
    m.def("halved_cuts",
          &write_cuts,
          nb::arg("values").noconvert(),
          nb::arg("upto").noconvert(),
          nb::arg("least"),
          nb::arg("band"),
          nb::arg("band_rows"),
          nb::arg("cuts").noconvert());
    m.def("grow_tree",
          &grow_checked_tree,
          nb::arg("codes").noconvert(),
          nb::arg("names").noconvert(),
          nb::arg("targets").noconvert(),
          nb::arg("weights").noconvert(),
          nb::arg("bag").noconvert(),
          nb::arg("n_labels"),
          nb::arg("min_weight"),
          nb::arg("max_columns"),
          nb::arg("random_split"),
          nb::arg("seed"),
          nb::arg("words").noconvert());
    m.def("count_labels",
          &add_label_counts,
          nb::arg("leaves").noconvert(),
          nb::arg("labels").noconvert(),
          nb::arg("weights").noconvert(),
          nb::arg("counts").noconvert());
    m.def("tree_features",
          &write_features,
          nb::arg("leaves").noconvert(),
          nb::arg("is_out").noconvert(),
          nb::arg("cells").noconvert(),
          nb::arg("counts").noconvert(),
          nb::arg("labels").noconvert(),
          nb::arg("kinds").noconvert(),
          nb::arg("n_kinds"),
          nb::arg("label_logs").noconvert(),
          nb::arg("own_logs").noconvert(),
          nb::arg("label_starts").noconvert(),
          nb::arg("total_logs").noconvert(),
          nb::arg("out").noconvert());
    m.def("number_features",
          &write_number_features,
          nb::arg("leaves").noconvert(),
          nb::arg("is_out").noconvert(),
          nb::arg("cells").noconvert(),
          nb::arg("counts").noconvert(),
          nb::arg("sums").noconvert(),
          nb::arg("numbers").noconvert(),
          nb::arg("amounts").noconvert(),
          nb::arg("out").noconvert());
    nb::class_<CheckedForest>(m, "Forest")
        .def(nb::new_(&make_forest),
             nb::arg("column").noconvert(),
             nb::arg("step").noconvert(),
             nb::arg("right").noconvert(),
             nb::arg("starts").noconvert(),
             nb::arg("names").noconvert())
        .def("leaves",
             &CheckedForest::leaves,
             nb::arg("codes").noconvert(),
             nb::arg("leaves").noconvert())
        .def("cells",
             &CheckedForest::cells,
             nb::arg("levels").noconvert(),
             nb::arg("parents").noconvert(),
             nb::arg("nodes").noconvert(),
             nb::arg("numbers").noconvert())
        .def("add_leaves",
             &CheckedForest::add_leaves,
             nb::arg("cells").noconvert(),
             nb::arg("values").noconvert(),
             nb::arg("out").noconvert())
        .def("with_scores",
             &CheckedForest::with_scores,
             nb::arg("rows").noconvert(),
             nb::arg("values").noconvert());
    nb::class_<TreeScores>(m, "TreeScores")
        .def("add", &add_scores, nb::arg("codes").noconvert(), nb::arg("scores").noconvert());
    nb::class_<StepCoder>(m, "StepCoder")
        .def(nb::new_(&make_coder),
             nb::arg("cuts").noconvert(),
             nb::arg("cut_starts").noconvert(),
             nb::arg("n_names"),
             nb::arg("pairs").noconvert(),
             nb::arg("pair_cuts").noconvert(),
             nb::arg("pair_starts").noconvert())
        .def_prop_ro("n_columns", &StepCoder::n_columns)
        .def("write",
             &write_codes,
             nb::arg("values").noconvert(),
             nb::arg("names").noconvert(),
             nb::arg("codes").noconvert());
}
