// The weights of a log-linear vote by L-BFGS: those that all labels share, or these and how those
// of each label differ, with one number a label. src/hammemo/votes/fitting.py has the loss that is
// minimised.
#pragma once

#include <cstddef>
#include <vector>

#include "log_ratios.hpp"

namespace hammemo {

// A loss, and its gradient, at a point.
class Loss {
public:
    virtual ~Loss() = default;
    virtual double operator()(const std::vector<double>& at, std::vector<double>& gradient) = 0;
};

class WeightLoss final : public Loss {
public:
    // shares: of each row in the loss; strength: of the ridge, which pulls shared weights towards
    // `start` and all others towards zero.
    WeightLoss(const LogRatios& ratios,
               size_t n_sites,
               std::vector<double> base,
               std::vector<double> shares,
               std::vector<double> start,
               double strength,
               bool by_label);

    // Shared weights (features,); with weights by label also differences (labels, features) and
    // numbers (labels,).
    size_t size() const { return n_features_ + (by_label_ ? n_labels_ * (n_features_ + 1) : 0); }
    double operator()(const std::vector<double>& at, std::vector<double>& gradient) override;

private:
    const LogRatios& ratios_;
    size_t n_sites_, n_features_, n_labels_;
    std::vector<double> base_, shares_, start_, weights_, scores_, excess_, losses_, by_weight_;
    double strength_;
    bool by_label_;
};

// Goes from `at` to where the loss falls, so many steps at most; a step that gains less than the
// tolerance is the last one. With `lower`, no number goes below its bound: steps are projected, and
// numbers at their bounds that would go further rest.
void descend(Loss& loss,
             std::vector<double>& at,
             size_t steps,
             double tolerance,
             const std::vector<double>& lower = {});

}  // namespace hammemo
