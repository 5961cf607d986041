#include "row_shares.hpp"

#include <algorithm>
#include <stdexcept>

#include "../shared_arrays.hpp"

namespace hammemo {

void add_row_shares(const SharedRows& rows, size_t m, size_t n, double* scores) {
    size_t entry = 0;
    for (size_t r = 0; r < rows.n_rows; ++r) {
        const uint64_t context = static_cast<uint64_t>(load_once(rows.contexts + r));
        const uint64_t length = static_cast<uint64_t>(load_once(rows.lengths + r));
        if (context >= m || length > rows.n_entries - entry) {
            throw std::invalid_argument("a row is outside the arrays");
        }
        const double weight = rows.weights[r];
        const double kept = rows.kept[r];
        const double lost[4] = {
            rows.lost[4 * r], rows.lost[4 * r + 1], rows.lost[4 * r + 2], rows.lost[4 * r + 3]};
        double* context_scores = scores + context * n;
        for (const size_t end = entry + length; entry < end; ++entry) {
            const uint64_t column = static_cast<uint64_t>(load_once(rows.columns + entry));
            const int64_t count = load_once(rows.counts + entry);
            if (column >= n || count < 0) {
                throw std::invalid_argument("an entry is outside the arrays");
            }
            const double gained = static_cast<double>(count) - lost[std::min<int64_t>(count, 3)];
            context_scores[column] += weight * (std::max(gained, 0.0) / kept);
        }
    }
}

}  // namespace hammemo
