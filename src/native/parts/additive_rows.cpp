#include "additive_rows.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "../selection/label_weights.hpp"
#include "../selection/portable_math.hpp"

namespace hammemo {
namespace {

Place place_of(const Levels& levels, size_t column, double x) {
    const double* knots = levels.knots.data() + levels.starts[column];
    const auto k = static_cast<int32_t>(levels.starts[column + 1] - levels.starts[column]);
    if (std::isnan(x)) return {levels.has_missing[column] ? k : -1, 0};
    if (k < 2) return {-1, 0};
    const auto above = static_cast<int32_t>(std::upper_bound(knots, knots + k, x) - knots);
    const int32_t j = std::min(std::max(above - 1, 0), k - 2);
    const double low = 0.5 * knots[j], width = 0.5 * knots[j + 1] - low;  // halves: the difference of two numbers may be too large for one
    const double right = width > 0 ? (0.5 * x - low) / width * HAT : 0.0;  // the smallest numbers have no halves
    return {j, static_cast<int32_t>(std::nearbyint(std::min(std::max(right, static_cast<double>(-levels.reach)), static_cast<double>(HAT + levels.reach))))};
}

Place place_of(const Levels& levels, size_t column, const double* values, const uint8_t* names) {
    const size_t ordered = levels.starts.size() - 1;
    if (column < ordered) return place_of(levels, column, values[column]);
    return {levels.of_names[(column - ordered) * NAME_CODES + names[column - ordered]], 0};
}

// out += factor * other
inline void add_scaled(double* out, const double* other, double factor, size_t n) {
    for (size_t j = 0; j < n; ++j) out[j] += factor * other[j];
}

// Calls a function with the width as a constant, so that short loops over outputs unroll; 0 stands for any width.
template <class Function>
void with_width(size_t width, const Function& function) {
    switch (width) {
        case 1: return function(std::integral_constant<size_t, 1>());
        case 3: return function(std::integral_constant<size_t, 3>());
        case 4: return function(std::integral_constant<size_t, 4>());
        case 5: return function(std::integral_constant<size_t, 5>());
        case 6: return function(std::integral_constant<size_t, 6>());
        case 7: return function(std::integral_constant<size_t, 7>());
        case 8: return function(std::integral_constant<size_t, 8>());
        default: return function(std::integral_constant<size_t, 0>());
    }
}

class PenalisedLoss final : public Loss {
   public:
    PenalisedLoss(const ClassRows& given, const Modes& modes, const double* inverses, size_t width, const double* penalties, const double* start)
        : given_(given), modes_(modes), inverses_(inverses), width_(width), penalties_(penalties), start_(start), q_(modes.q()),
          turned_(width * q_ * q_) {
        for (size_t k = 0; k < width; ++k)
            for (size_t i = 0; i < q_; ++i)
                for (size_t j = i; j < q_; ++j) turned_[(k * q_ + j) * q_ + i] = inverses[(k * q_ + i) * q_ + j];
    }

    // From steps, in coordinates in which the curvature is about one, to the coordinates of the fit: (outputs, q).
    std::vector<double> moved(const std::vector<double>& at) const {
        std::vector<double> phi(start_, start_ + at.size());
        for (size_t k = 0; k < given_.outputs; ++k)
            for (size_t j = 0; j < q_; ++j)
                add_scaled(phi.data() + k * q_, turned_.data() + ((k < width_ ? k : 0) * q_ + j) * q_, at[k * q_ + j], j + 1);
        return phi;
    }

    double operator()(const std::vector<double>& at, std::vector<double>& gradient) override {
        const size_t o = given_.outputs, p = modes_.p();
        const std::vector<double> phi = moved(at);
        std::vector<double> one(p), theta(p * o), slopes(p * o), scores(o), excess(o), of_modes(q_);
        for (size_t k = 0; k < o; ++k) {
            modes_.apply(phi.data() + k * q_, one.data());
            for (size_t i = 0; i < p; ++i) theta[i * o + k] = one[i];
        }
        double loss = 0, away = 0;
        for (size_t i = 0; i < given_.rows.n(); ++i) {
            const double weight = given_.weights[i];
            if (weight == 0) continue;
            given_.rows.score(i, theta.data(), o, scores.data());
            loss += weight * shares_of(scores.data(), o, given_.labels[i], excess.data());
            if (o > 1 || given_.labels[i]) excess[o > 1 ? static_cast<size_t>(given_.labels[i]) : 0] -= 1.0;
            for (double& e : excess) e *= weight;
            given_.rows.add_gradient(i, excess.data(), o, slopes.data());
        }
        std::fill(gradient.begin(), gradient.end(), 0.0);
        for (size_t k = 0; k < o; ++k) {
            for (size_t i = 0; i < p; ++i) one[i] = slopes[i * o + k];
            modes_.apply_turned(one.data(), of_modes.data());
            for (size_t j = 0; j < q_; ++j) {
                const double x = phi[k * q_ + j];
                away += penalties_[j] * x * x;
                of_modes[j] += penalties_[j] * x;
                add_scaled(gradient.data() + k * q_ + j, inverses_ + ((k < width_ ? k : 0) * q_ + j) * q_ + j, of_modes[j], q_ - j);
            }
        }
        return loss + 0.5 * away;
    }

   private:
    const ClassRows& given_;
    const Modes& modes_;
    const double* inverses_;
    size_t width_;
    const double *penalties_, *start_;
    size_t q_;
    std::vector<double> turned_;
};

}  // namespace

void Modes::apply(const double* from, double* to) const {
    const double* entry = flat.data();
    for (size_t b = 0; b + 1 < rows.size(); ++b)
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i) {
            to[i] = 0;
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j) to[i] += *entry++ * from[j];
        }
}

void Modes::apply_turned(const double* from, double* to) const {
    const double* entry = flat.data();
    std::fill(to, to + q(), 0.0);
    for (size_t b = 0; b + 1 < rows.size(); ++b)
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i)
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j) to[j] += *entry++ * from[i];
}

void Modes::turn(const double* upper, size_t stride, double* out) const {
    const size_t P = p(), Q = q();
    std::vector<double> whole(P * P), half(P * Q);
    for (size_t i = 0; i < P; ++i)
        for (size_t j = i; j < P; ++j) whole[i * P + j] = whole[j * P + i] = upper[(i * P + j) * stride];
    for (size_t i = 0; i < P; ++i) apply_turned(whole.data() + i * P, half.data() + i * Q);
    std::fill(out, out + Q * Q, 0.0);
    const double* entry = flat.data();
    for (size_t b = 0; b + 1 < rows.size(); ++b)
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i)
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j)
                add_scaled(out + static_cast<size_t>(j) * Q, half.data() + static_cast<size_t>(i) * Q, *entry++, Q);
}

AdditiveRows::AdditiveRows(const double* values, const uint8_t* names, size_t n, const Levels& fine, const Levels& coarse,
                           const std::vector<int64_t>& pairs)
    : p_(1), starts_(1, 0) {
    const size_t ordered = fine.starts.size() - 1, named = fine.of_names.size() / NAME_CODES, columns = ordered + named;
    std::vector<size_t> first;
    for (int64_t size : fine.sizes) first.push_back(p_), p_ += static_cast<size_t>(size);
    for (size_t k = 0; k < pairs.size(); k += 2)
        first.push_back(p_), p_ += static_cast<size_t>(coarse.sizes[static_cast<size_t>(pairs[k])] * coarse.sizes[static_cast<size_t>(pairs[k + 1])]);
    const auto push = [this](size_t at, int32_t value) {
        if (value != 0) index_.push_back(static_cast<uint16_t>(at)), value_.push_back(static_cast<int16_t>(value));
    };
    starts_.reserve(n + 1), index_.reserve(n * (1 + 2 * columns + 2 * pairs.size())), value_.reserve(n * (1 + 2 * columns + 2 * pairs.size()));
    for (size_t i = 0; i < n; ++i, values += ordered, names += named) {
        push(0, HAT);
        for (size_t c = 0; c < columns; ++c) {
            const Place place = place_of(fine, c, values, names);
            if (place.level < 0) continue;
            push(first[c] + static_cast<size_t>(place.level), HAT - place.right), push(first[c] + static_cast<size_t>(place.level) + 1, place.right);
        }
        for (size_t k = 0; k < pairs.size(); k += 2) {
            const auto left = static_cast<size_t>(pairs[k]), right = static_cast<size_t>(pairs[k + 1]);
            const Place a = place_of(coarse, left, values, names), b = place_of(coarse, right, values, names);
            if (a.level < 0 || b.level < 0) continue;
            const auto width = static_cast<size_t>(coarse.sizes[right]);
            const size_t at = first[columns + k / 2] + static_cast<size_t>(a.level) * width + static_cast<size_t>(b.level);
            const int32_t both = (a.right * b.right) / HAT;  // the four numbers add up to HAT
            push(at, HAT - a.right - b.right + both), push(at + 1, b.right - both), push(at + width, a.right - both), push(at + width + 1, both);
        }
        starts_.push_back(static_cast<int64_t>(index_.size()));
    }
}

void AdditiveRows::scores(const int64_t* coefficients, size_t outputs, int64_t* out) const {
    for (size_t i = 0; i < n(); ++i, out += outputs) {
        std::fill(out, out + outputs, 0);
        for (int64_t e = starts_[i]; e < starts_[i + 1]; ++e)
            for (size_t k = 0; k < outputs; ++k) out[k] += value_[e] * coefficients[index_[e] * outputs + k];
        for (size_t k = 0; k < outputs; ++k) out[k] = (out[k] + HAT / 2) >> 10;
    }
}

void AdditiveRows::score(size_t row, const double* coefficients, size_t outputs, double* out) const {
    std::fill(out, out + outputs, 0.0);
    with_width(outputs, [&](auto constant) {
        const size_t width = constant ? constant : outputs;
        for (int64_t e = starts_[row]; e < starts_[row + 1]; ++e) add_scaled(out, coefficients + index_[e] * width, value_[e], width);
    });
    for (size_t k = 0; k < outputs; ++k) out[k] *= 1.0 / HAT;
}

void AdditiveRows::add_gram(const int64_t* counts, const int64_t* targets, int64_t* gram, int64_t* products) const {
    for (size_t i = 0; i < n(); ++i) {
        if (counts[i] == 0) continue;
        for (int64_t a = starts_[i]; a < starts_[i + 1]; ++a) {
            const int64_t weight = counts[i] * value_[a];
            products[index_[a]] += weight * targets[i];
            int64_t* line = gram + index_[a] * p_;
            for (int64_t b = a; b < starts_[i + 1]; ++b) line[index_[b]] += weight * value_[b];
        }
    }
}

void AdditiveRows::add_products(size_t row, const double* weights, size_t width, double* out) const {
    with_width(width, [&](auto constant) {
        const size_t own = constant ? constant : width;
        for (int64_t a = starts_[row]; a < starts_[row + 1]; ++a) {
            double* line = out + index_[a] * p_ * own;
            for (int64_t b = a; b < starts_[row + 1]; ++b) add_scaled(line + index_[b] * own, weights, value_[a] * value_[b], own);
        }
    });
}

void AdditiveRows::add_gradient(size_t row, const double* excess, size_t outputs, double* out) const {
    with_width(outputs, [&](auto constant) {
        const size_t width = constant ? constant : outputs;
        for (int64_t e = starts_[row]; e < starts_[row + 1]; ++e) add_scaled(out + index_[e] * width, excess, value_[e] * (1.0 / HAT), width);
    });
}

double shares_of(const double* scores, size_t outputs, int32_t label, double* out) {
    if (outputs == 1) {
        const double less = portable_exp(scores[0] < 0 ? scores[0] : -scores[0]), lost = portable_log1p(less);
        out[0] = (scores[0] < 0 ? less : 1.0) / (1.0 + less);
        return lost + ((label == 1) == (scores[0] < 0) ? std::fabs(scores[0]) : 0.0);
    }
    const double highest = *std::max_element(scores, scores + outputs);
    double sum = 0;
    for (size_t k = 0; k < outputs; ++k) sum += out[k] = portable_exp(scores[k] - highest);
    for (size_t k = 0; k < outputs; ++k) out[k] /= sum;
    return portable_log(sum) + highest - scores[label];
}

void ClassRows::curvature(const double* theta, size_t width, size_t most, double* out) const {
    const size_t size = rows.p() * rows.p() * width;
    std::vector<double> scores(outputs), curved(outputs);
    double used = 0, all = 0;
    for (size_t i = 0; i < rows.n(); ++i) {
        all += weights[i];
        if (weights[i] == 0 || most == 0) continue;
        --most, used += weights[i];
        rows.score(i, theta, outputs, scores.data());
        shares_of(scores.data(), outputs, labels[i], curved.data());
        for (double& share : curved) share = weights[i] * std::max(share * (1.0 - share), 1e-6);
        for (size_t k = width; k < outputs; ++k) curved[0] += curved[k];
        rows.add_products(i, curved.data(), width, out);
    }
    const double scale = used > 0 ? all / used / (1.0 * HAT * HAT) / static_cast<double>(outputs / width) : 0.0;
    for (size_t i = 0; i < size; ++i) out[i] *= scale;
}

void ClassRows::fit(const Modes& modes, const double* inverses, size_t width, const double* penalties, size_t steps, double tolerance,
                      double* phi) const {
    std::vector<double> at(outputs * modes.q());
    PenalisedLoss loss(*this, modes, inverses, width, penalties, phi);
    descend(loss, at, steps, tolerance);
    const std::vector<double> found = loss.moved(at);
    std::copy(found.begin(), found.end(), phi);
}

void pair_scores(const uint8_t* cells, const std::vector<int64_t>& sizes, size_t n, const int64_t* left, const int64_t* spread, size_t outputs,
                 double shrinkage, double* out) {
    const size_t columns = sizes.size();
    std::vector<int64_t> sums;
    for (size_t a = 0; a < columns; ++a)
        for (size_t b = a + 1; b < columns; ++b, ++out) {
            const auto size = static_cast<size_t>(sizes[a] * sizes[b]) * outputs;
            sums.assign(2 * size, 0);
            for (size_t i = 0; i < n; ++i) {
                const size_t cell = (cells[a * n + i] * static_cast<size_t>(sizes[b]) + cells[b * n + i]) * outputs;
                for (size_t k = 0; k < outputs; ++k) sums[cell + k] += left[i * outputs + k], sums[size + cell + k] += spread[i * outputs + k];
            }
            double found = 0, squares = 0;
            for (size_t c = 0; c < size; ++c) {
                const double s = static_cast<double>(sums[c]) / 65536.0, v = static_cast<double>(sums[size + c]) / 65536.0;
                const double share = v / (v + shrinkage);
                found += s * s / (v + shrinkage) - share;
                squares += share * share;
            }
            *out = found / std::sqrt(2.0 * squares + 1e-9);
        }
}

}  // namespace hammemo
