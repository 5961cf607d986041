// The sum of what rows of counts say of each label, for the mixture vote:
// hammemo.votes.mixture.row_shares has the same in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hammemo {

// Rows that contexts read, one after the other. The arrays are the caller's, and another thread may
// write to them at any time: each number is read once and checked before it decides where something
// is read or written.
struct SharedRows {
    const int64_t* contexts;  // n_rows: which context has read the row
    const double* weights;    // n_rows: how much the row counts
    const double* kept;       // n_rows: its total less what its entries lose
    const double* lost;       // n_rows * 4: what entries of counts 0, 1, 2 and 3 or more lose
    const int64_t* lengths;   // n_rows
    const int64_t* columns;   // n_entries
    const int64_t* counts;    // n_entries
    size_t n_rows, n_entries;
};

// Add weight * (count - lost) / kept of every entry, none below zero, to the score of its context
// and column: m * n of them. Entries are added one after another, as NumPy's bincount does. Throws
// std::invalid_argument for a place outside the arrays.
void add_row_shares(const SharedRows& rows, size_t m, size_t n, double* scores);

}  // namespace hammemo
