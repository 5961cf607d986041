// The weights of a log-linear vote whose log-ratios are numbers a row, such as means over trees, in
// place of tables by cell.
//
// Sums are in double precision and in an order that depends on the rows alone: a sum over features
// goes feature by feature, and one over rows has eight parts, row i in part i mod 8, whatever
// vectors a processor has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "label_weights.hpp"

namespace hammemo {

// Log-ratios of rows, in blocks of rows: (blocks, labels, features, rows of a block), zeros behind
// the last row.
class DenseRatios {
public:
    static constexpr size_t BLOCK = 128, PARTS = 8;

    // ratios: (labels, all rows, features), of which the given rows are kept; labels: of these.
    DenseRatios(const float* ratios,
                size_t n_labels,
                size_t n_all,
                size_t n_features,
                const std::vector<int64_t>& rows,
                std::vector<int32_t> labels);

    size_t n() const { return labels_.size(); }
    size_t n_labels() const { return n_labels_; }
    size_t n_features() const { return n_features_; }
    size_t n_blocks() const { return (n() + BLOCK - 1) / BLOCK; }
    const std::vector<int32_t>& labels() const { return labels_; }
    const float* block(size_t k) const {
        return values_.data() + k * n_labels_ * n_features_ * BLOCK;
    }

private:
    size_t n_labels_, n_features_;
    std::vector<int32_t> labels_;
    std::vector<float> values_;
};

class DenseLoss final : public Loss {
public:
    // As in WeightLoss. width: numbers in a vector, 1, 2, 4 or 8; 0 for the widest of this
    // processor. The result is the same.
    DenseLoss(const DenseRatios& ratios,
              std::vector<double> base,
              std::vector<double> shares,
              std::vector<double> start,
              double strength,
              bool by_label,
              size_t width);

    size_t size() const {
        return ratios_.n_features() * (1 + (by_label_ ? ratios_.n_labels() : 0)) +
               (by_label_ ? ratios_.n_labels() : 0);
    }
    double operator()(const std::vector<double>& at, std::vector<double>& gradient) override;

    // Bounds with which no label has a negative weight: shared weights are not below 0 or, with
    // differences, not below the start, and differences not below minus the start.
    std::vector<double> lower() const;

    // What one block of rows needs, and the parts of the sums that it adds to.
    struct Work {
        const float* ratios;
        const int32_t* labels;
        size_t n, n_labels, n_features;         // n: rows of the block
        const double *base, *weights, *shares;  // weights: (labels, features)
        double *scores, *sums, *by_weight, *by_offset,
            *loss;  // (labels, BLOCK), (BLOCK,), (labels, features, PARTS), (labels, PARTS),
                    // (PARTS,)
    };

private:
    const DenseRatios& ratios_;
    std::vector<double> base_, shares_, start_;
    double strength_;
    bool by_label_;
    void (*add_block_)(const Work&);
};

// Of each number, by additions, multiplications and divisions alone.
void portable_logs(const double* values, size_t n, double* out);
void portable_log1ps(const double* values, size_t n, double* out);

}  // namespace hammemo
