// Something for some of many columns, emptied in no time.
//
// Up to `most_placed` columns have a place each; more are found by hashing, so that what is kept
// grows with the columns that are used and not with all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../hashes.hpp"

namespace hammemo::live {

template <class Value>
class ByColumn {
public:
    explicit ByColumn(size_t most_placed) : most_placed_(most_placed) {}

    void start(size_t n_columns) {
        is_placed_ = n_columns <= most_placed_;
        if (is_placed_ && cells_.size() < n_columns) {
            cells_.assign(n_columns, {});
            stamp_ = 0;
        }
        const bool is_power = !(cells_.size() & (cells_.size() - 1)) && cells_.size() >= 1024;
        // By the last use.
        const bool is_far_too_large =
            cells_.size() > MOST_KEPT && 64 * touched_.size() < cells_.size();
        if (!is_placed_ && (!is_power || is_far_too_large)) {
            std::vector<Cell>(1024).swap(cells_);
            stamp_ = 0;
        }
        touched_.clear();
        if (++stamp_ == 0) {
            for (Cell& cell : cells_) {
                cell.stamp = 0;
            }
            stamp_ = 1;
        }
    }

    // What a column has; made now if it has nothing. It stays until the next one is made.
    Value& operator[](int64_t column) {
        if (!is_placed_ && 2 * (touched_.size() + 1) > cells_.size()) {
            grow();
        }
        Cell& cell = find(column);
        if (cell.stamp != stamp_) {
            cell = {stamp_, column, {}};
            touched_.push_back(column);
        }
        return cell.value;
    }
    Value* at(int64_t column) {
        Cell& cell = find(column);
        return cell.stamp == stamp_ ? &cell.value : nullptr;
    }
    const std::vector<int64_t>& touched() const { return touched_; }

private:
    static constexpr size_t MOST_KEPT = 1 << 16;
    struct Cell {
        uint32_t stamp = 0;
        int64_t column = 0;
        Value value{};
    };

    Cell& find(int64_t column) {
        if (is_placed_) {
            return cells_[size_t(column)];
        }
        const size_t mask = cells_.size() - 1;
        size_t i = size_t(uint64_t(column) * GOLDEN_STEP >> 32) & mask;
        while (cells_[i].stamp == stamp_ && cells_[i].column != column) {
            i = (i + 1) & mask;
        }
        return cells_[i];
    }
    void grow() {
        std::vector<Cell> before(2 * cells_.size());
        before.swap(cells_);
        for (const Cell& cell : before) {
            if (cell.stamp == stamp_) {
                find(cell.column) = cell;
            }
        }
    }

    const size_t most_placed_;
    std::vector<Cell> cells_;
    std::vector<int64_t> touched_;
    uint32_t stamp_ = 0;
    bool is_placed_ = true;
};

}  // namespace hammemo::live
