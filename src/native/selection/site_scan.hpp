// The score test of candidate sites: gradient and curvature of the log-loss for the log-ratios of each site.
//
// The log-ratio of label c in a row depends on two things, the cell that the row lies in and its own label, which is left
// out of the counts: x_c = log(1 + (n_c - [c is the row's label]) / (a p_c)), one for each amount of smoothing a. A label
// without examples in the cell has x_c = 0. So logarithms come from a table by label and count, and only labels with
// examples in the cell are visited. With two labels a row needs one number, x_1 - x_0, and sums by (cell, own label) are
// enough.
//
// With P the probabilities of a row and y its label, the sums over rows are
//     gradient_j = x_y,j - sum_c P_c x_c,j        curvature_jk = sum_c P_c x_c,j x_c,k - (sum_c P_c x_c,j)(sum_c P_c x_c,k)
// in double precision and in an order that depends on the codes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hammemo {

constexpr size_t AMOUNTS = 3;   // amounts of smoothing
constexpr size_t PRODUCTS = 6;  // of two of them: 00, 11, 22, 01, 12, 02

struct SiteSums {
    double gradient[AMOUNTS] = {};
    double products[PRODUCTS] = {};
};

class SiteScan {
   public:
    // codes: one row a column of the table, -1 where it holds nothing; sizes: how many values each column has. The caller has
    // checked that codes are below their size and labels below the number of labels.
    SiteScan(std::vector<int32_t> codes, std::vector<int32_t> sizes, std::vector<int32_t> labels, std::vector<double> prior,
             const double* amounts);

    size_t n() const { return labels_.size(); }
    size_t n_columns() const { return sizes_.size(); }
    size_t n_labels() const { return prior_.size(); }

    // rows: which examples are tested; probabilities: (rows, labels).
    std::vector<SiteSums> sums(const std::vector<std::vector<int32_t>>& sites, const std::vector<int32_t>& rows,
                               const double* probabilities) const;

   private:
    struct Scratch;
    size_t join(const std::vector<int32_t>& site, Scratch& scratch) const;
    SiteSums of_two(size_t cells, const std::vector<int32_t>& rows, const double* probabilities, Scratch& scratch) const;
    SiteSums of_many(size_t cells, const double* probabilities, Scratch& scratch) const;
    const double* ratios(size_t label, size_t count) const { return table_.data() + (starts_[label] + count) * AMOUNTS; }

    std::vector<int32_t> codes_, sizes_, labels_;
    std::vector<double> prior_, table_;
    std::vector<size_t> starts_;  // of each label in the table
};

}  // namespace hammemo
