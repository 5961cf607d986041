// The score test of candidate sites: gradient and curvature of the log-loss for the log-ratios of
// each site.
//
// The log-ratio of label c in a row depends on two things, the cell that the row lies in and its
// own label, which is left out of the counts: x_c = log(1 + (n_c - [c is the row's label]) / (a
// p_c)), one for each amount of smoothing a. A label without examples in the cell has x_c = 0. So
// logarithms come from a table by label and count, and only labels with examples in the cell are
// visited. With two labels a row needs one number, x_1 - x_0, and sums by (cell, own label) are
// enough.
//
// With P the probabilities of a row and y its label, the sums over rows are
//     gradient_j = x_y,j - sum_c P_c x_c,j        curvature_jk = sum_c P_c x_c,j x_c,k - (sum_c P_c
//     x_c,j)(sum_c P_c x_c,k)
// in double precision and in an order that depends on the codes and the order of the site's columns
// alone. The first term of the curvature is linear in P, so it is made of sums by cell and label;
// only the means are made row by row.
//
// Examples are sorted by all columns of a site but the last, and then each group is split by the
// last one. Sites that differ in the last column only share the sorting when they are asked for one
// after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "site_scan.hpp"

namespace hammemo {

constexpr size_t PRODUCTS = 6;  // of two of them: 00, 11, 22, 01, 12, 02

struct SiteSums {
    double gradient[AMOUNTS] = {};
    double products[PRODUCTS] = {};
};

// sites: each with one column at least; rows: which of the counted examples are tested, each once;
// probabilities: (rows, labels), with two labels those of label 1.
std::vector<SiteSums> site_sums(const SiteScan& scan,
                                const std::vector<std::vector<int32_t>>& sites,
                                const std::vector<int32_t>& rows,
                                const double* probabilities);

}  // namespace hammemo
