#include "label_weights.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

namespace hammemo {
namespace {

constexpr size_t REMEMBERED = 10;  // steps that the curvature is learnt from
constexpr size_t HALVINGS = 20;
constexpr double SUFFICIENT = 1e-4;  // of the fall that the slope promises
constexpr double FLAT = 1e-7;        // a gradient below this is none

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

void add(std::vector<double>& to, double factor, const std::vector<double>& by) {
    for (size_t i = 0; i < to.size(); ++i) {
        to[i] += factor * by[i];
    }
}

struct Step {
    std::vector<double> moved, turned;  // of the point, and of the gradient
    double product;
};

// Returns minus the gradient times what the last steps say of the inverse of the curvature.
std::vector<double> find_direction(const std::vector<double>& gradient,
                                   const std::deque<Step>& past) {
    std::vector<double> d = gradient;
    std::vector<double> factors(past.size());
    for (size_t k = past.size(); k-- > 0;) {
        factors[k] = dot(past[k].moved, d) / past[k].product;
        add(d, -factors[k], past[k].turned);
    }
    const double scale = past.empty()
                             ? 1.0 / std::max(1.0, std::sqrt(dot(gradient, gradient)))
                             : past.back().product / dot(past.back().turned, past.back().turned);
    for (double& value : d) {
        value *= scale;
    }
    for (size_t k = 0; k < past.size(); ++k) {
        add(d, factors[k] - dot(past[k].turned, d) / past[k].product, past[k].moved);
    }
    for (double& value : d) {
        value = -value;
    }
    return d;
}

}  // namespace

WeightLoss::WeightLoss(const LogRatios& ratios,
                       size_t n_sites,
                       std::vector<double> base,
                       std::vector<double> shares,
                       std::vector<double> start,
                       double strength,
                       bool by_label)
    : ratios_(ratios),
      n_sites_(n_sites),
      n_features_(n_sites * AMOUNTS),
      n_labels_(ratios.n_labels()),
      base_(std::move(base)),
      shares_(std::move(shares)),
      start_(std::move(start)),
      weights_(n_features_ * (by_label ? n_labels_ : 1)),
      scores_(ratios.n() * ratios.n_columns()),
      excess_(scores_.size()),
      losses_(ratios.n()),
      by_weight_(weights_.size()),
      strength_(strength),
      by_label_(by_label) {}

double WeightLoss::operator()(const std::vector<double>& at, std::vector<double>& gradient) {
    const size_t F = n_features_;
    const size_t L = n_labels_;
    const size_t K = ratios_.n_columns();
    const double* differences = at.data() + F;
    const double* offsets = differences + F * L;
    std::vector<double> base = base_;
    for (size_t f = 0; f < F; ++f) {
        for (size_t c = 0; c < (by_label_ ? L : 1); ++c) {
            weights_[by_label_ ? f * L + c : f] = at[f] + (by_label_ ? differences[c * F + f] : 0);
        }
    }
    for (size_t c = 0; by_label_ && c < L; ++c) {
        base[c] += offsets[c];
    }
    ratios_.scores(n_sites_, weights_.data(), by_label_, scores_.data());
    softmax_rows(scores_.data(),
                 ratios_.n(),
                 L,
                 base.data(),
                 ratios_.labels().data(),
                 excess_.data(),
                 losses_.data());
    double loss = 0;
    std::vector<double> by_offset(L);
    // Probabilities become what they exceed the observed label by.
    for (size_t i = 0; i < ratios_.n(); ++i) {
        loss += shares_[i] * losses_[i];
        double* row = excess_.data() + i * K;
        const auto label = static_cast<size_t>(ratios_.labels()[i]);
        if (K == 1 ? label == 1 : true) {
            row[K == 1 ? 0 : label] -= 1.0;
        }
        for (size_t c = 0; c < K; ++c) {
            row[c] *= shares_[i];
        }
        for (size_t c = 0; c < K; ++c) {
            by_offset[K == 1 ? 1 : c] += row[c];
        }
    }
    if (K == 1) {
        by_offset[0] = -by_offset[1];
    }
    ratios_.gradient(n_sites_, excess_.data(), 0, ratios_.n(), by_label_, by_weight_.data());
    for (size_t f = 0; f < F; ++f) {
        double sum = 0;
        for (size_t c = 0; c < (by_label_ ? L : 1); ++c) {
            const double one = by_weight_[by_label_ ? f * L + c : f];
            sum += one;
            if (by_label_) {
                gradient[F + c * F + f] = one;
            }
        }
        gradient[f] = sum;
    }
    for (size_t c = 0; by_label_ && c < L; ++c) {
        gradient[F + L * F + c] = by_offset[c];
    }
    double away = 0;
    for (size_t i = 0; i < at.size(); ++i) {
        const double difference = at[i] - (i < F ? start_[i] : 0.0);
        away += difference * difference;
        gradient[i] += 2 * strength_ * difference;
    }
    return loss + strength_ * away;
}

void descend(Loss& loss,
             std::vector<double>& at,
             size_t steps,
             double tolerance,
             const std::vector<double>& lower) {
    std::vector<double> gradient(at.size());
    std::vector<double> next;
    std::vector<double> turned(at.size());
    std::deque<Step> past;
    double value = loss(at, gradient);
    for (size_t step = 0; step < steps; ++step) {
        std::vector<double> slopes = gradient;
        for (size_t i = 0; i < lower.size(); ++i) {
            if (at[i] <= lower[i] && gradient[i] > 0) {
                slopes[i] = 0;
            }
        }
        const auto find_allowed_direction = [&] {
            std::vector<double> allowed = find_direction(slopes, past);
            for (size_t i = 0; i < lower.size(); ++i) {
                if (at[i] <= lower[i] && (allowed[i] < 0 || slopes[i] == 0)) {
                    allowed[i] = 0;
                }
            }
            return allowed;
        };
        std::vector<double> d = find_allowed_direction();
        double slope = dot(d, slopes);
        if (!(slope < 0) && !past.empty()) {
            past.clear();
            d = find_allowed_direction();
            slope = dot(d, slopes);
        }
        if (!(slope < -FLAT * FLAT)) {
            return;
        }
        double length = 1.0;
        double next_value = value;
        bool fell = false;
        for (size_t halving = 0; halving < HALVINGS && !fell; ++halving) {
            next = at;
            add(next, length, d);
            double promised = length * slope;
            if (!lower.empty()) {
                promised = 0;
                for (size_t i = 0; i < next.size(); ++i) {
                    next[i] = std::max(next[i], lower[i]);
                    promised += gradient[i] * (next[i] - at[i]);
                }
            }
            next_value = loss(next, turned);
            fell = next_value <= value + SUFFICIENT * promised && promised < 0;
            if (!fell) {
                length *=
                    std::min(0.5, std::max(0.1, -promised / (2 * (next_value - value - promised))));
            }
        }
        if (!fell) {
            return;
        }
        Step last_step{next, turned, 0};
        add(last_step.moved, -1.0, at);
        add(last_step.turned, -1.0, gradient);
        last_step.product = dot(last_step.moved, last_step.turned);
        const double gain = value - next_value;
        at.swap(next);
        gradient.swap(turned);
        value = next_value;
        if (gain <= tolerance * std::max(1.0, std::abs(value))) {
            return;
        }
        if (last_step.product <= 0) {
            continue;
        }
        if (past.size() == REMEMBERED) {
            past.pop_front();
        }
        past.push_back(std::move(last_step));
    }
}

}  // namespace hammemo
