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
#include <memory>
#include <vector>

#include "log_ratios.hpp"
#include "ratio_table.hpp"

namespace hammemo {

constexpr size_t PRODUCTS = 6;  // of two of them: 00, 11, 22, 01, 12, 02

struct SiteSums {
    double gradient[AMOUNTS] = {};
    double products[PRODUCTS] = {};
};

class SiteScan {
   public:
    // codes: one row a column of the table, -1 where it holds nothing; sizes: how many values each column has. The first n examples are
    // counted. The caller has checked that codes are below their size and labels below the number of labels.
    SiteScan(std::vector<int32_t> codes, std::vector<int32_t> sizes, std::vector<int32_t> labels, const std::vector<double>& prior,
             const double* amounts, size_t n);

    size_t n() const { return n_; }
    size_t n_all() const { return labels_.size(); }
    size_t n_columns() const { return sizes_.size(); }
    size_t n_labels() const { return n_labels_; }
    const std::vector<int32_t>& labels() const { return labels_; }
    const std::shared_ptr<const RatioTable>& table() const { return table_; }

    // rows: which of the counted examples are tested; probabilities: (rows, labels), with two labels those of label 1.
    std::vector<SiteSums> sums(const std::vector<std::vector<int32_t>>& sites, const std::vector<int32_t>& rows,
                               const double* probabilities) const;
    // The cell of each example at a site, -1 where it has none, numbered in the order in which they come; returns how many there are.
    size_t cells(const std::vector<int32_t>& site, int32_t* out) const;
    // Adds a site to the log-ratios of some examples, counted or not.
    void add_to(LogRatios& ratios, const std::vector<int32_t>& site, const std::vector<int32_t>& rows) const;

   private:
    struct Scratch;
    size_t join(const std::vector<int32_t>& site, size_t n, Scratch& scratch) const;
    void sort_members(size_t cells, Scratch& scratch) const;
    void count_labels(const int32_t* first, const int32_t* last, Scratch& scratch) const;
    SiteSums of_two(size_t cells, const std::vector<int32_t>& rows, const double* probabilities, Scratch& scratch) const;
    SiteSums of_many(size_t cells, const double* probabilities, Scratch& scratch) const;

    std::vector<int32_t> codes_, sizes_, labels_;
    size_t n_, n_labels_;
    std::shared_ptr<const RatioTable> table_;
};

}  // namespace hammemo
