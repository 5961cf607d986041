#include "tree_scores.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hammemo {

StepCoder::StepCoder(std::vector<double> cuts,
                     std::vector<int64_t> cut_starts,
                     size_t n_names,
                     std::vector<int64_t> pairs,
                     const std::vector<int64_t>& pair_cuts,
                     const std::vector<int64_t>& pair_starts)
    : cuts_(std::move(cuts)),
      cut_starts_(std::move(cut_starts)),
      n_names_(n_names),
      pairs_(std::move(pairs)) {
    for (size_t pair = 0; pair < pairs_.size() / 2; ++pair) {
        const auto begin = pair_cuts.begin() + pair_starts[pair];
        const auto end = pair_cuts.begin() + pair_starts[pair + 1];
        for (int difference = -MOST; difference <= MOST; ++difference) {
            of_difference_.push_back(
                static_cast<uint8_t>(1 + (std::upper_bound(begin, end, difference) - begin)));
        }
    }
}

void StepCoder::write(const double* values, const uint8_t* names, size_t n, uint8_t* codes) const {
    const size_t ordered = n_ordered();
    const size_t columns = n_columns();
    const size_t n_pairs = pairs_.size() / 2;
    for (size_t i = 0; i < n; ++i) {
        uint8_t* out = codes + i * columns;
        for (size_t j = 0; j < ordered; ++j) {
            const double value = values[i * ordered + j];
            const double* begin = cuts_.data() + cut_starts_[j];
            const double* end = cuts_.data() + cut_starts_[j + 1];
            out[j] = std::isnan(value)
                         ? 0
                         : static_cast<uint8_t>(1 + (std::upper_bound(begin, end, value) - begin));
        }
        std::copy(names + i * n_names_, names + (i + 1) * n_names_, out + ordered);
        uint8_t* differences = out + ordered + n_names_;
        for (size_t pair = 0; pair < n_pairs; ++pair) {
            const int first = out[pairs_[2 * pair]];
            const int second = out[pairs_[2 * pair + 1]];
            const size_t place = pair * (2 * MOST + 1) + static_cast<size_t>(first - second + MOST);
            differences[pair] = first && second ? of_difference_[place] : uint8_t{0};
        }
    }
}

void TreeScores::add(const uint8_t* codes, size_t n, double* scores) const {
    // Rows whose codes stay in the cache while all trees look at them.
    constexpr size_t BLOCK = 256;
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t rows = std::min(n - begin, BLOCK);
        double* out = scores + begin * n_labels_;
        for (size_t tree = 0; tree < forest_.n_trees(); ++tree) {
            forest_.walk(
                tree, codes + begin * forest_.n_columns(), rows, [&](size_t row, int32_t leaf) {
                    const auto place = static_cast<size_t>(rows_[static_cast<size_t>(leaf)]);
                    const double* values = values_.data() + place * n_labels_;
                    for (size_t label = 0; label < n_labels_; ++label) {
                        out[row * n_labels_ + label] += values[label];
                    }
                });
        }
    }
}

}  // namespace hammemo
