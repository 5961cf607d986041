// Features of rows for the weights of trees: log-ratios of the cells that rows lie in, averaged
// over the trees of a kind.
//
// A row reads, in every tree that it did not grow, its cell on each level. With n_c the count of
// label c there, one less for the row's own label, and n their sum, the feature of (kind, level,
// amount a) is the mean over these trees of
//     log(1 + n_c / (a p_c)) - log(1 + n / a),
// in double precision, tree by tree. The shares p_c leave the row out, too. Logarithms come from
// tables by label and count.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hammemo {

struct TreeFeatures {
    const int32_t* leaves;        // (rows, trees): a node
    const uint8_t* is_out;        // (rows, trees): whether the row did not grow the tree
    const int32_t* cells;         // (levels, nodes): a row of counts
    const int64_t* counts;        // (cells, labels)
    const int32_t* labels;        // (rows,)
    const int32_t* kinds;         // (trees,)
    const double* label_logs;     // (entries, amounts): for labels that are not the row's own
    const double* own_logs;       // (entries, amounts): for its own
    const int64_t* label_starts;  // (labels,): the entry of count 0
    const double* total_logs;     // (entries, amounts)
    size_t n_rows, n_trees, n_levels, n_nodes, n_labels, n_kinds, n_amounts, width;

    // out: (labels, rows, width); the first kinds * levels * amounts features of each are written,
    // zeros where a kind has no tree.
    void write(float* out) const;
};

// The same where cells hold how many rows there are, n, and the sum s of their numbers: the feature
// of (kind, level, amount a) is the mean over these trees of s / (n + a), both without one copy of
// the row itself.
struct NumberFeatures {
    const int32_t* leaves;  // (rows, trees): a node
    const uint8_t* is_out;  // (rows, trees): whether the row did not grow the tree
    const int32_t* cells;   // (levels, nodes): a cell
    const int64_t* counts;  // (cells,)
    const int64_t* sums;    // (cells,); null where sums have two words
    // (2, cells): all low words, then all high words; null where sums have one.
    const uint64_t* words;
    const int64_t* numbers;  // (rows,): what the row adds to sums
    const double* amounts;   // (amounts,)
    size_t n_rows, n_trees, n_levels, n_nodes, n_cells, n_kinds,
        n_amounts;  // tree t is of kind t % n_kinds

    // out: (rows, kinds * levels * amounts), zeros where a kind has no tree.
    void write(double* out) const;

private:
    template <class SumWithout>
    void write_with(const SumWithout& sum_without, double* out) const;
};

}  // namespace hammemo
