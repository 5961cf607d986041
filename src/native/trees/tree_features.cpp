#include "tree_features.hpp"

#include <algorithm>
#include <vector>

#include "../sums/wide_sums.hpp"

namespace hammemo {

void TreeFeatures::write(float* out) const {
    const size_t per_kind = n_levels * n_amounts;
    const size_t n_features = n_kinds * per_kind;
    std::vector<double> sums(n_features * n_labels);
    std::vector<int64_t> seen(n_kinds);
    for (size_t i = 0; i < n_rows; ++i) {
        std::fill(sums.begin(), sums.end(), 0.0);
        std::fill(seen.begin(), seen.end(), 0);
        const auto own_label = static_cast<size_t>(labels[i]);
        for (size_t tree = 0; tree < n_trees; ++tree) {
            if (!is_out[i * n_trees + tree]) {
                continue;
            }
            const auto kind = static_cast<size_t>(kinds[tree]);
            ++seen[kind];
            for (size_t level = 0; level < n_levels; ++level) {
                const auto node = static_cast<size_t>(leaves[i * n_trees + tree]);
                const int64_t* label_counts =
                    counts + static_cast<size_t>(cells[level * n_nodes + node]) * n_labels;
                int64_t total = 0;
                for (size_t c = 0; c < n_labels; ++c) {
                    total += label_counts[c];
                }
                total -= label_counts[own_label] > 0;
                const double* of_total = total_logs + static_cast<size_t>(total) * n_amounts;
                double* sum = sums.data() + (kind * per_kind + level * n_amounts) * n_labels;
                for (size_t c = 0; c < n_labels; ++c) {
                    const int64_t count = label_counts[c] - (c == own_label && label_counts[c] > 0);
                    const double* of_label =
                        (c == own_label ? own_logs : label_logs) +
                        static_cast<size_t>(label_starts[c] + count) * n_amounts;
                    for (size_t j = 0; j < n_amounts; ++j) {
                        sum[j * n_labels + c] += of_label[j] - of_total[j];
                    }
                }
            }
        }
        for (size_t f = 0; f < n_features; ++f) {
            const int64_t number = std::max<int64_t>(seen[f / per_kind], 1);
            for (size_t c = 0; c < n_labels; ++c) {
                out[(c * n_rows + i) * width + f] =
                    static_cast<float>(sums[f * n_labels + c] / static_cast<double>(number));
            }
        }
    }
}

void NumberFeatures::write(double* out) const {
    if (words == nullptr) {
        // Both are below 2^62 (`NumberCells`), so the difference is below 2^63.
        const auto narrow = [this](size_t cell, int64_t number) {
            return static_cast<double>(sums[cell] - number);
        };
        write_with(narrow, out);
    } else {
        const auto wide = [this](size_t cell, int64_t number) {
            const WideSum sum = {words[cell], static_cast<int64_t>(words[n_cells + cell])};
            return as_double(add(sum, widen(-number)));
        };
        write_with(wide, out);
    }
}

// sum_without(cell, number): the sum of a cell without a number.
template <class SumWithout>
void NumberFeatures::write_with(const SumWithout& sum_without, double* out) const {
    const size_t per_kind = n_levels * n_amounts;
    const size_t n_features = n_kinds * per_kind;
    std::vector<int64_t> seen(n_kinds);
    for (size_t i = 0; i < n_rows; ++i, out += n_features) {
        std::fill(out, out + n_features, 0.0);
        std::fill(seen.begin(), seen.end(), 0);
        for (size_t tree = 0; tree < n_trees; ++tree) {
            if (!is_out[i * n_trees + tree]) {
                continue;
            }
            const size_t kind = tree % n_kinds;
            ++seen[kind];
            const auto node = static_cast<size_t>(leaves[i * n_trees + tree]);
            for (size_t level = 0; level < n_levels; ++level) {
                const auto cell = static_cast<size_t>(cells[level * n_nodes + node]);
                const auto count = static_cast<double>(std::max<int64_t>(counts[cell] - 1, 0));
                const double sum = sum_without(cell, numbers[i]);
                double* at = out + kind * per_kind + level * n_amounts;
                for (size_t j = 0; j < n_amounts; ++j) {
                    at[j] += sum / (count + amounts[j]);
                }
            }
        }
        for (size_t f = 0; f < n_features; ++f) {
            out[f] /= static_cast<double>(std::max<int64_t>(seen[f / per_kind], 1));
        }
    }
}

}  // namespace hammemo
