// An additive function of the bytes of rows as tables: a column adds one of 256 entries, a pair of
// columns mixes four of its block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hammemo {

struct StepTables {
    size_t outputs;
    std::vector<int64_t> constant;        // (outputs,), in 1/1024 as all that follows
    std::vector<int64_t> columns;         // (columns, 256, outputs)
    std::vector<int32_t> levels, rights;  // (columns, 256): where a byte lies between levels of
                                          // pairs, by `right` of 1,024; level -1: in none
    std::vector<int64_t> pairs, widths;   // (pairs, 2) columns; how many levels the second one has
    std::vector<int64_t> starts,
        blocks;  // where the block of each pair starts, and the end; (entries, outputs)

    size_t n_columns() const { return levels.size() / 256; }
    // The rounded sum of one row: (outputs,).
    void scores(const uint8_t* row, int64_t* out) const;
};

// Weighted ratios of labels by the scores of rows.
struct StepRatios {
    StepTables tables;
    std::vector<int64_t> prior;  // (labels of the function,)
    // (labels of the answer,), -1 for a label that the function does not know.
    std::vector<int64_t> places;
    std::vector<double> weights;  // (labels of the answer,)
    double unit;                  // what a centred score is divided by

    // rows: (n, stride) bytes, of which the first ones are those of the columns; adds to out, (n,
    // labels of the answer).
    void add(const uint8_t* rows, size_t n, size_t stride, double* out) const;
};

}  // namespace hammemo
