// From numbers to bytes, and from bytes to the sum of what the leaves of all trees say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trees.hpp"

namespace hammemo {

// How rows become bytes: 0 for a missing number, else 1 plus the number of cuts that are not above
// it; then the codes of names; then, for each pair of ordered columns, the same for the difference
// of their bytes, 0 where one of them is 0.
class StepCoder {
public:
    // cut_starts: (ordered columns + 1,), at most 254 cuts a column, ascending. pairs: (n_pairs,
    // 2). The caller has checked them.
    StepCoder(std::vector<double> cuts,
              std::vector<int64_t> cut_starts,
              size_t n_names,
              std::vector<int64_t> pairs,
              const std::vector<int64_t>& pair_cuts,
              const std::vector<int64_t>& pair_starts);

    size_t n_ordered() const { return cut_starts_.size() - 1; }
    size_t n_names() const { return n_names_; }
    size_t n_columns() const { return n_ordered() + n_names_ + pairs_.size() / 2; }

    // values: (n, ordered columns); names: (n, columns of names); codes: (n, columns).
    void write(const double* values, const uint8_t* names, size_t n, uint8_t* codes) const;

private:
    static constexpr int MOST = 255;  // the highest byte
    std::vector<double> cuts_;
    std::vector<int64_t> cut_starts_;
    size_t n_names_;
    std::vector<int64_t> pairs_;
    std::vector<uint8_t> of_difference_;  // (pairs, 2 * MOST + 1): the byte of each difference
};

// Trees whose leaves have one number a label.
class TreeScores {
public:
    // rows: for each node, which row of values, (rows, n_labels), a leaf has; any number for
    // others.
    TreeScores(WalkedForest forest,
               std::vector<int32_t> rows,
               std::vector<double> values,
               size_t n_labels)
        : forest_(std::move(forest)),
          rows_(std::move(rows)),
          values_(std::move(values)),
          n_labels_(n_labels) {}

    size_t n_columns() const { return forest_.n_columns(); }
    size_t n_labels() const { return n_labels_; }

    // Adds to the scores of rows, (n, labels), what their leaves say, tree by tree. codes: (n,
    // columns).
    void add(const uint8_t* codes, size_t n, double* scores) const;

private:
    WalkedForest forest_;
    std::vector<int32_t> rows_;
    std::vector<double> values_;
    size_t n_labels_;
};

}  // namespace hammemo
