#include "step_scores.hpp"

#include <algorithm>

namespace hammemo {

// The entries of tables are coordinates times coefficients, so the sum of a row stays below 2^62,
// as in `AdditiveRows::scores`.
void StepTables::scores(const uint8_t* row, int64_t* out) const {
    std::copy(constant.begin(), constant.end(), out);
    for (size_t c = 0; c < n_columns(); ++c) {
        const int64_t* entry = columns.data() + (c * 256 + row[c]) * outputs;
        for (size_t k = 0; k < outputs; ++k) {
            out[k] += entry[k];
        }
    }
    for (size_t pair = 0; pair + 1 < starts.size(); ++pair) {
        const auto first = static_cast<size_t>(pairs[2 * pair]);
        const auto second = static_cast<size_t>(pairs[2 * pair + 1]);
        const size_t a = first * 256 + row[first];
        const size_t b = second * 256 + row[second];
        if (levels[a] < 0 || levels[b] < 0) {
            continue;
        }
        const int64_t both = static_cast<int64_t>(rights[a]) * rights[b] >> 10;
        const auto width = static_cast<size_t>(widths[pair]);
        const int64_t* entry = blocks.data() + (static_cast<size_t>(starts[pair]) +
                                                static_cast<size_t>(levels[a]) * width +
                                                static_cast<size_t>(levels[b])) *
                                                   outputs;
        const int64_t shares[4] = {
            1024 - rights[a] - rights[b] + both, rights[b] - both, rights[a] - both, both};
        const size_t steps[4] = {0, 1, width, width + 1};
        for (size_t s = 0; s < 4; ++s) {
            for (size_t k = 0; k < outputs; ++k) {
                out[k] += shares[s] * entry[steps[s] * outputs + k];
            }
        }
    }
    for (size_t k = 0; k < outputs; ++k) {
        out[k] = (out[k] + 512) >> 10;
    }
}

void StepRatios::add(const uint8_t* rows, size_t n, size_t stride, double* out) const {
    const size_t n_known = prior.size();
    const size_t n_answered = places.size();
    std::vector<int64_t> scores(n_known);
    for (size_t i = 0; i < n; ++i) {
        std::fill(scores.begin(), scores.end(), 0);
        tables.scores(rows + i * stride,
                      // Two labels have one output, the second one's.
                      scores.data() + (n_known - tables.outputs));
        int64_t total = 0;  // with the product below, under 2^61:
                            // `AdditiveDesign.largest_coefficient` knows how many labels there are
        for (size_t k = 0; k < n_known; ++k) {
            total += scores[k] -= prior[k];
        }
        for (size_t k = 0; k < n_answered; ++k) {
            if (places[k] < 0) {
                continue;
            }
            const int64_t centred =
                scores[static_cast<size_t>(places[k])] * static_cast<int64_t>(n_known) - total;
            out[i * n_answered + k] += weights[k] * (static_cast<double>(centred) / unit);
        }
    }
}

}  // namespace hammemo
