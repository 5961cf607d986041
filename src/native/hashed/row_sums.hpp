// Scores from the few rows of raw counts that queries read, centred on the way:
// memories/hashed/raw_rows.py says how, and has the same in NumPy.
#pragma once

#include "layout.hpp"

namespace hammemo {

// Rows of raw counts that m contexts read, and what is needed to centre them. All arrays are the
// caller's, and another thread may write to them at any time: nothing that is read decides where
// something is read or written.
struct RawRows {
    const int64_t* rows;    // m * n_sites: which row of the site's own table it is, -1 for none
    const int64_t* counts;  // m * n_sites * n_labels
    const int64_t* shared_sums;  // n_sites * n_labels: sums over each site's buckets
    const double* weights;       // n_sites
    size_t m, n_labels;
};

// Write the sums over sites of the weighted centred counts, in fixed point, times `scale`: m *
// n_labels of them. Sites are added one after another, as NumPy does: the last bit of a sum of
// floats depends on the order.
void sum_centred(const LayoutView& layout, const RawRows& raw, double scale, double* out);

}  // namespace hammemo
