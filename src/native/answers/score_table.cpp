#include "score_table.hpp"

#include <algorithm>
#include <utility>

#include "../hashes.hpp"

namespace hammemo {

namespace {

inline uint64_t fold_token(uint64_t hash, int32_t token) {
    return scramble(hash + static_cast<uint32_t>(token));
}

inline size_t slots_for(int64_t rows) {
    size_t n = 1;
    while (n < 2 * static_cast<size_t>(rows)) {
        n *= 2;
    }
    return n;
}

}  // namespace

ScoreTable::ScoreTable(size_t h,
                       std::vector<int64_t> site_starts,
                       std::vector<int64_t> positions,
                       std::vector<int64_t> row_starts,
                       std::vector<int32_t> tuples,
                       std::vector<double> values,
                       std::vector<double> base,
                       uint64_t seed)
    : h_(h),
      site_starts_(std::move(site_starts)),
      positions_(std::move(positions)),
      row_starts_(std::move(row_starts)),
      tuples_(std::move(tuples)),
      values_(std::move(values)),
      base_(std::move(base)),
      seed_(seed) {
    const size_t n_sites = site_starts_.size() - 1;
    int64_t tuple_start = 0;
    int64_t slot_start = 0;
    for (size_t site = 0; site < n_sites; ++site) {
        const int64_t rows = row_starts_[site + 1] - row_starts_[site];
        tuple_starts_.push_back(tuple_start);
        slot_starts_.push_back(slot_start);
        tuple_start += rows * (site_starts_[site + 1] - site_starts_[site]);
        slot_start += static_cast<int64_t>(slots_for(rows));
    }
    slot_starts_.push_back(slot_start);
    slots_.assign(static_cast<size_t>(slot_start), 0);
    for (size_t site = 0; site < n_sites; ++site) {
        const auto width = static_cast<size_t>(site_starts_[site + 1] - site_starts_[site]);
        const auto mask = static_cast<uint64_t>(slot_starts_[site + 1] - slot_starts_[site] - 1);
        uint32_t* slots = slots_.data() + slot_starts_[site];
        for (int64_t row = row_starts_[site]; row < row_starts_[site + 1]; ++row) {
            const int32_t* tuple = tuples_.data() + tuple_starts_[site] +
                                   (row - row_starts_[site]) * static_cast<int64_t>(width);
            uint64_t hash = seed_;
            for (size_t j = 0; j < width; ++j) {
                hash = fold_token(hash, tuple[j]);
            }
            uint64_t place = hash & mask;
            while (slots[place]) {
                place = (place + 1) & mask;
            }
            slots[place] = static_cast<uint32_t>(row + 1);
        }
    }
}

int64_t ScoreTable::row_of(size_t site, const int32_t* context) const {
    const auto width = static_cast<size_t>(site_starts_[site + 1] - site_starts_[site]);
    const int64_t* positions = positions_.data() + site_starts_[site];
    uint64_t hash = seed_;
    for (size_t j = 0; j < width; ++j) {
        const int32_t token = context[positions[j]];
        if (token < 0) {
            return -1;
        }
        hash = fold_token(hash, token);
    }
    const auto mask = static_cast<uint64_t>(slot_starts_[site + 1] - slot_starts_[site] - 1);
    const uint32_t* slots = slots_.data() + slot_starts_[site];
    for (uint64_t place = hash & mask; slots[place]; place = (place + 1) & mask) {
        const int64_t row = static_cast<int64_t>(slots[place]) - 1;
        const int32_t* tuple = tuples_.data() + tuple_starts_[site] +
                               (row - row_starts_[site]) * static_cast<int64_t>(width);
        size_t same = 0;
        while (same < width && tuple[same] == context[positions[same]]) {
            ++same;
        }
        if (same == width) {
            return row;
        }
    }
    return -1;
}

void ScoreTable::write(const int32_t* tokens, size_t n, double* scores) const {
    const size_t n_sites = site_starts_.size() - 1;
    const size_t n_labels = base_.size();
    for (size_t i = 0; i < n; ++i) {
        double* out = scores + i * n_labels;
        std::copy(base_.begin(), base_.end(), out);
        for (size_t site = 0; site < n_sites; ++site) {
            const int64_t row = row_of(site, tokens + i * h_);
            if (row < 0) {
                continue;
            }
            const double* values = values_.data() + static_cast<size_t>(row) * n_labels;
            for (size_t label = 0; label < n_labels; ++label) {
                out[label] += values[label];
            }
        }
    }
}

size_t winning_column(const double* scores, size_t n_labels) {
    return static_cast<size_t>(std::max_element(scores, scores + n_labels) - scores);
}

}  // namespace hammemo
