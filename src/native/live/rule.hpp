// Scores that depend on how many examples a label has: the mean vote, and the log-linear vote with
// shared weights.
//
// With n_k the count of a label in the row that site k reads, and M the label's examples, of N in
// all:
//
//   mean:        sum over k of w_k n_k / M, over the sum of the weights;
//   log-linear:  log p + sum over k, j of w_kj log(1 + n_k / (p a_j)), with the label's share p =
//   (M + 1/2) / N'.
//
// (What a row takes from every label alike is left out: it does not change their order. N' is N and
// half an example a label.) Both are a function of M plus the sum of functions of the ratio n_k /
// M, times a number that all labels share. Those of the log-linear vote are tables, linear between
// 128 points an octave: near enough to choose labels whose order is then decided by the functions
// themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hammemo::live {

class Rule {
public:
    static Rule mean(const double* weights, size_t n_sites, double divisor) {
        Rule rule(weights, n_sites, 1, divisor);
        rule.slack = 1e-9 * rule.sum_of_weights();
        return rule;
    }

    // `weights`: one a site and amount. Shares are at least 1 / 2^octaves.
    static Rule log_linear(const double* amounts,
                           size_t n_amounts,
                           const double* weights,
                           size_t n_sites,
                           uint32_t octaves) {
        Rule rule(weights, n_sites, n_amounts, 0);
        rule.amounts_.assign(amounts, amounts + n_amounts);
        const double sum = rule.sum_of_weights();
        // Of the interpolation, h^2 / 8 max|f''| <= (1/128)^2 / 8 a weight; and of floats, in all
        // that is added up.
        const double near = sum * 1e-5;
        const double rounding = double(n_sites * n_amounts + 8) * 64 * (1 + sum) * 0x1p-50;
        rule.slack = 2 * (near + rounding);
        rule.doubt = rounding;
        rule.tabulate(octaves, near);
        return rule;
    }

    size_t n_sites;
    // Scores by `gain` may err by half of it each, and still more apart means apart.
    double slack = 0;
    // Of scores by `score_term`: so near ones may be in another order in NumPy's arithmetic.
    double doubt = 0;
    double divisor;

    bool is_mean() const { return amounts_.empty(); }
    uint32_t octaves() const { return uint32_t((cells_ - 1) >> BITS); }
    bool counts(size_t site) const {
        for (size_t j = 0; j < n_amounts_; ++j) {
            if (weights_[site * n_amounts_ + j] != 0) {
                return true;
            }
        }
        return false;
    }

    // Nearly what a site adds for a ratio, of at least 1 where the vote is log-linear.
    double gain(size_t site, double ratio) const {
        if (is_mean()) {
            return weights_[site] * ratio;
        }
        uint64_t bits;
        std::memcpy(&bits, &ratio, sizeof bits);
        const double* cell = gains_.data() + site * cells_ + cell_of(bits);
        const double part = double(bits & ((uint64_t(1) << (52 - BITS)) - 1)) *
                            (1.0 / double(uint64_t(1) << (52 - BITS)));
        return cell[0] + (cell[1] - cell[0]) * part;
    }

    // At most this for a ratio up to this one, and not below zero.
    double most(size_t site, double ratio) const {
        if (is_mean()) {
            return weights_[site] * ratio;
        }
        uint64_t bits;
        std::memcpy(&bits, &ratio, sizeof bits);
        return most_[site * cells_ + cell_of(bits)];
    }

    // In the order of NumPy's arithmetic.
    double sum_term(size_t site, double count) const { return weights_[site] * count; }
    double log_term(size_t site, double count, double share) const {
        double total = 0;
        for (size_t j = 0; j < n_amounts_; ++j) {
            total += weights_[site * n_amounts_ + j] * std::log1p(count / share / amounts_[j]);
        }
        return total;
    }

private:
    static constexpr int BITS = 7;

    Rule(const double* weights, size_t n_sites, size_t n_amounts, double divisor)
        : n_sites(n_sites),
          divisor(divisor),
          n_amounts_(n_amounts),
          weights_(weights, weights + n_sites * n_amounts) {}

    double sum_of_weights() const {
        double sum = 0;
        for (const double weight : weights_) {
            sum += std::fabs(weight);
        }
        return sum;
    }
    size_t cell_of(uint64_t bits) const {
        const int64_t cell = int64_t(bits >> (52 - BITS)) - (int64_t(1023) << BITS);
        return size_t(std::min<int64_t>(std::max<int64_t>(cell, 0), int64_t(cells_) - 2));
    }
    void tabulate(uint32_t octaves, double near) {
        cells_ = (size_t(octaves) << BITS) + 1;
        gains_.resize(n_sites * cells_);
        most_.resize(n_sites * cells_);
        for (size_t site = 0; site < n_sites; ++site) {
            double* gains = gains_.data() + site * cells_;
            for (size_t i = 0; i < cells_; ++i) {
                gains[i] = log_term(
                    site,
                    std::ldexp(1 + double(i & ((1 << BITS) - 1)) / (1 << BITS), int(i >> BITS)),
                    1.0);
            }
            double highest = std::max(gains[0], 0.0);
            for (size_t i = 0; i + 1 < cells_; ++i) {
                highest = std::max(highest, gains[i + 1]);
                most_[site * cells_ + i] = highest > 0 ? highest + near : 0;
            }
        }
    }

    size_t n_amounts_, cells_ = 2;
    std::vector<double> weights_, amounts_, gains_, most_;
};

}  // namespace hammemo::live
