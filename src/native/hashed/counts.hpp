// Learning: every example adds to one cell of the table for each of its sites.
#pragma once

#include "loops.hpp"

namespace hammemo {

// Add contexts [0, m): cells[row * n_labels + column] += multiplicity (1 where null) for the row of
// each site. The row of empty sites, the last one, is written to as well; a reader of the cells
// leaves it out.
void count_contexts(const Loops& loops,
                    const LayoutView& layout,
                    const Source& source,
                    size_t m,
                    const int32_t* columns,
                    const uint32_t* multiplicity,
                    uint32_t n_labels,
                    uint32_t* cells);

// Add the windows of a stream of n tokens: for every i >= h with columns[i] >= 0, the context [i -
// h, i).
void count_stream(const Loops& loops,
                  const LayoutView& layout,
                  const Source& source,
                  size_t n,
                  const int32_t* columns,
                  uint32_t n_labels,
                  uint32_t* cells);

// The rank of each of n integer tokens in a set of hashes, -1 for those outside it.
void find_integers(const Loops& loops,
                   const IntegerHash& hash,
                   const FinderView& finder,
                   const Source& source,
                   size_t n,
                   int32_t* out);

}  // namespace hammemo
