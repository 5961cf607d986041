// Cuts of a column of numbers: at most so many, each at the roundest binary number near the median
// of its range. What hammemo.features.cells.column_codes says in Python (`_halved`), to the bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hammemo {

// The distinct values of a column, ascending, and the rows up to each.
struct CountedValues {
    const double* values;
    const int64_t* upto;
    size_t n;
};

struct CutRules {
    int64_t least;      // rows of a range that is divided
    double band;        // how far a cut may be from the median, as a share of the rows of its range
    int64_t band_rows;  // and as rows
};

// Writes the cuts to their places among `most`; the other places keep what they hold.
void halve(const CountedValues& column, const CutRules& rules, size_t most, double* cuts);

}  // namespace hammemo
