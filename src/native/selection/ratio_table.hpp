// Logarithms by label and count: log(1 + count / (a p_c)) for each amount of smoothing a, and log(1
// + count / a).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "portable_math.hpp"

namespace hammemo {

constexpr size_t AMOUNTS = 3;  // amounts of smoothing

class RatioTable {
public:
    // most: the largest count of each label; the largest total is their sum.
    RatioTable(const std::vector<double>& prior,
               const double* amounts,
               const std::vector<int64_t>& most) {
        int64_t all = 0;  // at most 2^26, which of_counts checks, or 2^31 rows of a scan
        for (size_t c = 0; c < prior.size(); ++c) {
            double scales[AMOUNTS];
            for (size_t j = 0; j < AMOUNTS; ++j) {
                scales[j] = amounts[j] * prior[c];
            }
            starts_.push_back(gains_.size() / AMOUNTS);
            fill(gains_, scales, most[c]);
            all += most[c];
        }
        fill(totals_, amounts, all);
    }
    size_t place(size_t label, int64_t count) const {
        return starts_[label] + static_cast<size_t>(count);
    }
    const double* at(size_t place) const { return gains_.data() + place * AMOUNTS; }
    const double* of(size_t label, int64_t count) const { return at(place(label, count)); }
    const double* total(int64_t count) const {
        return totals_.data() + static_cast<size_t>(count) * AMOUNTS;
    }

private:
    static void fill(std::vector<double>& table, const double* scales, int64_t most) {
        for (int64_t count = 0; count <= most; ++count) {
            for (size_t j = 0; j < AMOUNTS; ++j) {
                table.push_back(portable_log1p(static_cast<double>(count) / scales[j]));
            }
        }
    }
    std::vector<double> gains_, totals_;
    std::vector<size_t> starts_;  // of each label
};

}  // namespace hammemo
