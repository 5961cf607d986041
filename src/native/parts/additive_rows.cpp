#include "additive_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../selection/label_weights.hpp"
#include "../selection/lanes.hpp"
#include "../selection/portable_math.hpp"
#include "../sums/wide_sums.hpp"

namespace hammemo {
namespace {

// Where a number lies between the knots of its column. Beyond the outer knots the line goes on, as
// far as `levels.reach` says.
Place find_place(const Levels& levels, size_t column, double x) {
    const double* knots = levels.knots.data() + levels.starts[column];
    const auto k = static_cast<int32_t>(levels.starts[column + 1] - levels.starts[column]);
    if (std::isnan(x)) {
        return {levels.has_missing[column] ? k : -1, 0};
    }
    if (k < 2) {
        return {-1, 0};
    }
    const auto n_up_to_x = static_cast<int32_t>(std::upper_bound(knots, knots + k, x) - knots);
    const int32_t j = std::min(std::max(n_up_to_x - 1, 0), k - 2);
    const double low = 0.5 * knots[j];
    // Halves: the difference of two numbers may be too large for one.
    const double width = 0.5 * knots[j + 1] - low;
    // The smallest numbers have no halves.
    const double right = width > 0 ? (0.5 * x - low) / width * HAT : 0.0;
    const auto least = static_cast<double>(-levels.reach);
    const auto most = static_cast<double>(HAT + levels.reach);
    return {j, static_cast<int32_t>(std::nearbyint(std::min(std::max(right, least), most)))};
}

Place find_place(const Levels& levels, size_t column, const double* values, const uint8_t* names) {
    const size_t ordered = levels.starts.size() - 1;
    if (column < ordered) {
        return find_place(levels, column, values[column]);
    }
    return {levels.of_names[(column - ordered) * NAME_CODES + names[column - ordered]], 0};
}

// out += factor * other
inline void add_scaled(double* out, const double* other, double factor, size_t n) {
    for (size_t j = 0; j < n; ++j) {
        out[j] += factor * other[j];
    }
}

// Outputs lie side by side, filled up with zeros to vectors. The sum of an output has the same
// order in all of them.
constexpr size_t pad_outputs(size_t outputs) {
#ifdef __GNUC__
    if (outputs == 1) {
        return 1;
    }
    return outputs <= 4 ? 4 : (outputs + 7) / 8 * 8;
#else
    return outputs;
#endif
}

// What the sums of a loss read. Shapes: theta (p, stride), at, phi (q, stride).
struct Pass {
    const AdditiveRows& rows;
    const double* inverse;  // T (q, q), an upper triangle
    size_t outputs, stride, q;
};

template <size_t LANES>
HAMMEMO_INLINE void load(typename Lanes<LANES>::type& to, const double* from) {
    std::memcpy(&to, from, sizeof to);
}

// The scores of a row before they are divided by HAT.
template <size_t LANES>
HAMMEMO_INLINE void add_scores(const Pass& pass,
                               size_t stride,
                               size_t row,
                               const double* theta,
                               double* out) {
    using V = typename Lanes<LANES>::type;
    const int64_t first = pass.rows.starts()[row];
    const int64_t end = pass.rows.starts()[row + 1];
    const uint16_t* index = pass.rows.index().data();
    const int16_t* value = pass.rows.value().data();
    for (size_t c = 0; c < stride; c += LANES) {
        V total[2] = {};
        V one;
        int64_t e = first;
        for (; e + 2 <= end; e += 2) {
            for (int64_t k = 0; k < 2; ++k) {
                load<LANES>(one, theta + index[e + k] * stride + c);
                total[k] += static_cast<double>(value[e + k]) * one;
            }
        }
        if (e < end) {
            load<LANES>(one, theta + index[e] * stride + c);
            total[0] += static_cast<double>(value[e]) * one;
        }
        total[0] += total[1];
        std::memcpy(out + c, &total[0], sizeof(V));
    }
}

template <size_t LANES>
HAMMEMO_INLINE void add_slopes(const Pass& pass,
                               size_t stride,
                               size_t row,
                               const double* excess,
                               double* out) {
    using V = typename Lanes<LANES>::type;
    const uint16_t* index = pass.rows.index().data();
    const int16_t* value = pass.rows.value().data();
    for (size_t c = 0; c < stride; c += LANES) {
        V excess_lanes;
        V sum;
        load<LANES>(excess_lanes, excess + c);
        for (int64_t e = pass.rows.starts()[row]; e < pass.rows.starts()[row + 1]; ++e) {
            double* to = out + index[e] * stride + c;
            load<LANES>(sum, to);
            sum += (value[e] * (1.0 / HAT)) * excess_lanes;
            std::memcpy(to, &sum, sizeof sum);
        }
    }
}

// phi += T at
template <size_t LANES>
HAMMEMO_INLINE void add_moved(const Pass& pass, size_t stride, const double* at, double* phi) {
    using V = typename Lanes<LANES>::type;
    for (size_t i = 0; i < pass.q; ++i) {
        for (size_t c = 0; c < stride; c += LANES) {
            const double* factors = pass.inverse + i * pass.q;
            V total[4] = {};
            V one;
            size_t j = i;
            for (; j + 4 <= pass.q; j += 4) {
                for (size_t k = 0; k < 4; ++k) {
                    load<LANES>(one, at + (j + k) * stride + c);
                    total[k] += factors[j + k] * one;
                }
            }
            for (; j < pass.q; ++j) {
                load<LANES>(one, at + j * stride + c);
                total[0] += factors[j] * one;
            }
            load<LANES>(one, phi + i * stride + c);
            one += (total[0] + total[1]) + (total[2] + total[3]);
            std::memcpy(phi + i * stride + c, &one, sizeof one);
        }
    }
}

// gradient += T' slopes
template <size_t LANES>
HAMMEMO_INLINE void add_turned(const Pass& pass,
                               size_t stride,
                               const double* slopes,
                               double* gradient) {
    using V = typename Lanes<LANES>::type;
    for (size_t i = 0; i < pass.q; ++i) {
        for (size_t c = 0; c < stride; c += LANES) {
            V slope_lanes;
            V sum;
            load<LANES>(slope_lanes, slopes + i * stride + c);
            for (size_t j = i; j < pass.q; ++j) {
                double* to = gradient + j * stride + c;
                load<LANES>(sum, to);
                sum += pass.inverse[i * pass.q + j] * slope_lanes;
                std::memcpy(to, &sum, sizeof sum);
            }
        }
    }
}

enum class Step { SCORES, SLOPES, MOVED, TURNED };

template <size_t LANES>
HAMMEMO_INLINE void run(Step step,
                        const Pass& pass,
                        size_t stride,
                        size_t row,
                        const double* from,
                        double* to) {
    switch (step) {
        case Step::SCORES:
            return add_scores<LANES>(pass, stride, row, from, to);
        case Step::SLOPES:
            return add_slopes<LANES>(pass, stride, row, from, to);
        case Step::MOVED:
            return add_moved<LANES>(pass, stride, from, to);
        case Step::TURNED:
            return add_turned<LANES>(pass, stride, from, to);
    }
}

// Strides of one vector are constants.
HAMMEMO_INLINE void run_any(Step step,
                            const Pass& pass,
                            size_t row,
                            const double* from,
                            double* to) {
    if (pass.stride == 1) {
        run<1>(step, pass, 1, row, from, to);
        return;
    }
#ifdef __GNUC__
    if (pass.stride == 4) {
        run<4>(step, pass, 4, row, from, to);
        return;
    }
    if (pass.stride == 8) {
        run<8>(step, pass, 8, row, from, to);
        return;
    }
    run<8>(step, pass, pass.stride, row, from, to);
#else
    run<1>(step, pass, pass.stride, row, from, to);
#endif
}

#ifdef HAMMEMO_X86
__attribute__((target("avx512f,avx512vl,avx512dq"))) void run_512(Step step,
                                                                  const Pass& pass,
                                                                  size_t row,
                                                                  const double* from,
                                                                  double* to) {
    run_any(step, pass, row, from, to);
}
__attribute__((target("avx2"))) void run_256(Step step,
                                             const Pass& pass,
                                             size_t row,
                                             const double* from,
                                             double* to) {
    run_any(step, pass, row, from, to);
}
void run_128(Step step, const Pass& pass, size_t row, const double* from, double* to) {
    run_any(step, pass, row, from, to);
}
const bool HAS_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq");
auto choose_run() noexcept {
    if (HAS_512) {
        return run_512;
    }
    return __builtin_cpu_supports("avx2") ? run_256 : run_128;
}
const auto RUN = choose_run();
#else
const auto RUN = run_any;
#endif

// Coordinates of the fit, (q, stride), become those of rows, (p, stride); or, `turned`, the other
// way.
void change(const Modes& modes,
            size_t outputs,
            size_t stride,
            const double* from,
            double* to,
            bool turned) {
    std::vector<double> one(turned ? modes.p() : modes.q());
    std::vector<double> other(turned ? modes.q() : modes.p());
    for (size_t k = 0; k < outputs; ++k) {
        for (size_t i = 0; i < one.size(); ++i) {
            one[i] = from[i * stride + k];
        }
        turned ? modes.apply_turned(one.data(), other.data())
               : modes.apply(one.data(), other.data());
        for (size_t i = 0; i < other.size(); ++i) {
            to[i * stride + k] = other[i];
        }
    }
}

// (outputs, q) becomes (q, stride).
std::vector<double> spread_outputs(const double* phi, size_t outputs, size_t q) {
    std::vector<double> points(q * pad_outputs(outputs));
    for (size_t k = 0; k < outputs; ++k) {
        for (size_t j = 0; j < q; ++j) {
            points[j * pad_outputs(outputs) + k] = phi[k * q + j];
        }
    }
    return points;
}

// Points are (q, stride), steps in coordinates in which the curvature is about one.
class PenalisedLoss final : public Loss {
public:
    PenalisedLoss(const ClassRows& class_rows,
                  const Modes& modes,
                  const double* inverse,
                  const double* penalties,
                  std::vector<double> center,
                  std::vector<double> start)
        : class_rows_(class_rows),
          modes_(modes),
          pass_{class_rows.rows,
                inverse,
                class_rows.outputs,
                pad_outputs(class_rows.outputs),
                modes.q()},
          penalties_(penalties),
          center_(std::move(center)),
          start_(std::move(start)) {}

    // From steps to the coordinates of the fit.
    std::vector<double> move_start(const std::vector<double>& at) const {
        std::vector<double> phi = start_;
        RUN(Step::MOVED, pass_, 0, at.data(), phi.data());
        return phi;
    }

    double operator()(const std::vector<double>& at, std::vector<double>& gradient) override {
        const size_t o = class_rows_.outputs;
        const size_t stride = pass_.stride;
        const std::vector<double> phi = move_start(at);
        std::vector<double> theta(modes_.p() * stride);
        std::vector<double> slopes(theta.size());
        std::vector<double> of_modes(phi.size());
        std::vector<double> scores(stride);
        std::vector<double> excess(stride);
        change(modes_, o, stride, phi.data(), theta.data(), false);
        double loss = 0;
        double away = 0;
        for (size_t i = 0; i < class_rows_.rows.n(); ++i) {
            const double weight = class_rows_.weights[i];
            if (weight == 0) {
                continue;
            }
            RUN(Step::SCORES, pass_, i, theta.data(), scores.data());
            for (double& score : scores) {
                score *= 1.0 / HAT;
            }
            loss += weight * shares_of(scores.data(), o, class_rows_.labels[i], excess.data());
            class_rows_.subtract_observed(excess.data(), i);
            for (double& e : excess) {
                e *= weight;
            }
            RUN(Step::SLOPES, pass_, i, excess.data(), slopes.data());
        }
        change(modes_, o, stride, slopes.data(), of_modes.data(), true);
        for (size_t i = 0; i < phi.size(); ++i) {
            const double moved_by = phi[i] - center_[i];
            away += penalties_[i / stride] * moved_by * moved_by;
            of_modes[i] += penalties_[i / stride] * moved_by;
        }
        std::fill(gradient.begin(), gradient.end(), 0.0);
        RUN(Step::TURNED, pass_, 0, of_modes.data(), gradient.data());
        return loss + 0.5 * away;
    }

private:
    const ClassRows& class_rows_;
    const Modes& modes_;
    const Pass pass_;
    const double* penalties_;
    const std::vector<double> center_;  // where penalties pull to
    const std::vector<double> start_;
};

}  // namespace

void Modes::apply(const double* from, double* to) const {
    const double* entry = flat.data();
    for (size_t b = 0; b + 1 < rows.size(); ++b) {
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i) {
            to[i] = 0;
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j) {
                to[i] += *entry++ * from[j];
            }
        }
    }
}

void Modes::apply_turned(const double* from, double* to) const {
    const double* entry = flat.data();
    std::fill(to, to + q(), 0.0);
    for (size_t b = 0; b + 1 < rows.size(); ++b) {
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i) {
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j) {
                to[j] += *entry++ * from[i];
            }
        }
    }
}

void Modes::turn(const double* upper, double* out) const {
    const size_t P = p();
    const size_t Q = q();
    std::vector<double> whole(P * P);
    std::vector<double> half(P * Q);
    for (size_t i = 0; i < P; ++i) {
        for (size_t j = i; j < P; ++j) {
            whole[i * P + j] = whole[j * P + i] = upper[i * P + j];
        }
    }
    for (size_t i = 0; i < P; ++i) {
        apply_turned(whole.data() + i * P, half.data() + i * Q);
    }
    std::fill(out, out + Q * Q, 0.0);
    const double* entry = flat.data();
    for (size_t b = 0; b + 1 < rows.size(); ++b) {
        for (int64_t i = rows[b]; i < rows[b + 1]; ++i) {
            for (int64_t j = columns[b]; j < columns[b + 1]; ++j) {
                add_scaled(out + static_cast<size_t>(j) * Q,
                           half.data() + static_cast<size_t>(i) * Q,
                           *entry++,
                           Q);
            }
        }
    }
}

AdditiveRows::AdditiveRows(const double* values,
                           const uint8_t* names,
                           size_t n,
                           const Levels& fine,
                           const Levels& coarse,
                           const std::vector<int64_t>& pairs)
    : p_(1), starts_(1, 0) {  // coordinate 0 is the constant
    const size_t ordered = fine.starts.size() - 1;
    const size_t named = fine.of_names.size() / NAME_CODES;
    const size_t columns = ordered + named;
    const std::vector<size_t> first = number_coordinates(fine, coarse, pairs);
    const size_t most_entries = 1 + 2 * columns + 2 * pairs.size();  // of a row
    starts_.reserve(n + 1);
    index_.reserve(n * most_entries);
    value_.reserve(n * most_entries);
    for (size_t i = 0; i < n; ++i) {
        push(0, HAT);
        for (size_t c = 0; c < columns; ++c) {
            push_level(first[c], find_place(fine, c, values, names));
        }
        for (size_t k = 0; k < pairs.size(); k += 2) {
            const auto left = static_cast<size_t>(pairs[k]);
            const auto right = static_cast<size_t>(pairs[k + 1]);
            push_cell(first[columns + k / 2],
                      static_cast<size_t>(coarse.sizes[right]),
                      find_place(coarse, left, values, names),
                      find_place(coarse, right, values, names));
        }
        starts_.push_back(static_cast<int64_t>(index_.size()));
        values += ordered;
        names += named;
    }
}

// The first coordinate of each column and then of each pair: a column has one for each of its
// levels, a pair one for each two levels of its columns.
std::vector<size_t> AdditiveRows::number_coordinates(const Levels& fine,
                                                     const Levels& coarse,
                                                     const std::vector<int64_t>& pairs) {
    std::vector<size_t> first;
    for (int64_t size : fine.sizes) {
        first.push_back(p_);
        p_ += static_cast<size_t>(size);
    }
    for (size_t k = 0; k < pairs.size(); k += 2) {
        const int64_t left_size = coarse.sizes[static_cast<size_t>(pairs[k])];
        const int64_t right_size = coarse.sizes[static_cast<size_t>(pairs[k + 1])];
        first.push_back(p_);
        p_ += static_cast<size_t>(left_size * right_size);
    }
    return first;
}

void AdditiveRows::push(size_t coordinate, int32_t value) {
    if (value != 0) {
        index_.push_back(static_cast<uint16_t>(coordinate));
        value_.push_back(static_cast<int16_t>(value));
    }
}

// A hat is shared between the level of a place and the next one.
void AdditiveRows::push_level(size_t first, const Place& place) {
    if (place.level < 0) {
        return;
    }
    const size_t coordinate = first + static_cast<size_t>(place.level);
    push(coordinate, HAT - place.right);
    push(coordinate + 1, place.right);
}

// The same in two dimensions: the hat is shared between four neighbouring cells. Only the share of
// the last one is rounded; the others follow from it, so that the four add up to HAT.
void AdditiveRows::push_cell(size_t first, size_t width, const Place& a, const Place& b) {
    if (a.level < 0 || b.level < 0) {
        return;
    }
    const size_t coordinate =
        first + static_cast<size_t>(a.level) * width + static_cast<size_t>(b.level);
    const int32_t both = (a.right * b.right) / HAT;
    push(coordinate, HAT - a.right - b.right + both);
    push(coordinate + 1, b.right - both);
    push(coordinate + width, a.right - both);
    push(coordinate + width + 1, both);
}

void AdditiveRows::scores(const int64_t* coefficients, size_t outputs, int64_t* out) const {
    for (size_t i = 0; i < n(); ++i) {
        std::fill(out, out + outputs, 0);
        for (int64_t e = starts_[i]; e < starts_[i + 1]; ++e) {
            // Below 2^62 together: `AdditiveDesign.largest_coefficient` bounds coefficients by the
            // coordinates of a row.
            for (size_t k = 0; k < outputs; ++k) {
                out[k] += value_[e] * coefficients[index_[e] * outputs + k];
            }
        }
        for (size_t k = 0; k < outputs; ++k) {
            out[k] = (out[k] + HAT / 2) >> 10;  // divided by HAT, to the nearest
        }
        out += outputs;
    }
}

template <class Sums>
void AdditiveRows::add_gram(const int64_t* counts,
                            const int64_t* targets,
                            int64_t* gram,
                            Sums products) const {
    for (size_t i = 0; i < n(); ++i) {
        if (counts[i] == 0) {
            continue;
        }
        for (int64_t a = starts_[i]; a < starts_[i + 1]; ++a) {
            const int64_t weight = counts[i] * value_[a];  // below 2^51
            products.add_product(index_[a], targets[i], weight);
            int64_t* line = gram + index_[a] * p_;
            for (int64_t b = a; b < starts_[i + 1]; ++b) {
                line[index_[b]] += weight * value_[b];
            }
        }
    }
}

template void AdditiveRows::add_gram(const int64_t*, const int64_t*, int64_t*, NarrowSums) const;
template void AdditiveRows::add_gram(const int64_t*, const int64_t*, int64_t*, WideSums) const;

void AdditiveRows::add_products(size_t row, double weight, double* out) const {
    for (int64_t a = starts_[row]; a < starts_[row + 1]; ++a) {
        double* line = out + index_[a] * p_;
        for (int64_t b = a; b < starts_[row + 1]; ++b) {
            line[index_[b]] += weight * (value_[a] * value_[b]);
        }
    }
}

double shares_of(const double* scores, size_t outputs, int32_t label, double* out) {
    if (outputs == 1) {
        const double less = portable_exp(scores[0] < 0 ? scores[0] : -scores[0]);
        const double lost = portable_log1p(less);
        out[0] = (scores[0] < 0 ? less : 1.0) / (1.0 + less);
        return lost + ((label == 1) == (scores[0] < 0) ? std::fabs(scores[0]) : 0.0);
    }
    const double highest = *std::max_element(scores, scores + outputs);
    double sum = 0;
    for (size_t k = 0; k < outputs; ++k) {
        sum += out[k] = portable_exp(scores[k] - highest);
    }
    for (size_t k = 0; k < outputs; ++k) {
        out[k] /= sum;
    }
    return portable_log(sum) + highest - scores[label];
}

void ClassRows::curvature(const Modes& modes, const double* phi, size_t most, double* out) const {
    const Pass pass{rows, nullptr, outputs, pad_outputs(outputs), modes.q()};
    std::vector<double> theta(rows.p() * pass.stride);
    std::vector<double> scores(pass.stride);
    std::vector<double> shares(pass.stride);
    std::vector<double> upper(rows.p() * rows.p());
    change(modes,
           outputs,
           pass.stride,
           spread_outputs(phi, outputs, pass.q).data(),
           theta.data(),
           false);
    double used = 0;
    double all = 0;
    for (size_t i = 0; i < rows.n(); ++i) {
        all += weights[i];
        if (weights[i] == 0 || most == 0) {
            continue;
        }
        --most;
        used += weights[i];
        RUN(Step::SCORES, pass, i, theta.data(), scores.data());
        for (double& score : scores) {
            score *= 1.0 / HAT;
        }
        shares_of(scores.data(), outputs, labels[i], shares.data());
        double curved = 0;
        for (size_t k = 0; k < outputs; ++k) {
            curved += std::max(shares[k] * (1.0 - shares[k]), 1e-6);
        }
        rows.add_products(i, weights[i] * curved, upper.data());
    }
    const double scale =
        used > 0 ? all / used / (1.0 * HAT * HAT) / static_cast<double>(outputs) : 0.0;
    for (double& sum : upper) {
        sum *= scale;
    }
    modes.turn(upper.data(), out);
}

void ClassRows::fold_slopes(const Modes& modes,
                            const double* phi,
                            const double* fold_weights,
                            size_t n_folds,
                            double* out) const {
    const Pass pass{rows, nullptr, outputs, pad_outputs(outputs), modes.q()};
    std::vector<double> theta(rows.p() * pass.stride);
    std::vector<double> scores(pass.stride);
    std::vector<double> excess(pass.stride);
    std::vector<double> weighted(pass.stride);
    std::vector<double> slopes(n_folds * theta.size());
    change(modes,
           outputs,
           pass.stride,
           spread_outputs(phi, outputs, pass.q).data(),
           theta.data(),
           false);
    for (size_t i = 0; i < rows.n(); ++i) {
        RUN(Step::SCORES, pass, i, theta.data(), scores.data());
        for (double& score : scores) {
            score *= 1.0 / HAT;
        }
        shares_of(scores.data(), outputs, labels[i], excess.data());
        subtract_observed(excess.data(), i);
        for (size_t fold = 0; fold < n_folds; ++fold) {
            const double weight = fold_weights[fold * rows.n() + i];
            if (weight == 0) {
                continue;
            }
            for (size_t k = 0; k < excess.size(); ++k) {
                weighted[k] = weight * excess[k];
            }
            RUN(Step::SLOPES, pass, i, weighted.data(), slopes.data() + fold * theta.size());
        }
    }
    std::vector<double> of_modes(pass.q * pass.stride);
    for (size_t fold = 0; fold < n_folds; ++fold) {
        change(modes,
               outputs,
               pass.stride,
               slopes.data() + fold * theta.size(),
               of_modes.data(),
               true);
        for (size_t k = 0; k < outputs; ++k) {
            for (size_t j = 0; j < pass.q; ++j) {
                *out++ = of_modes[j * pass.stride + k];
            }
        }
    }
}

void ClassRows::fit(const Modes& modes,
                    const double* inverse,
                    const double* penalties,
                    const double* center,
                    size_t steps,
                    double tolerance,
                    double* phi) const {
    PenalisedLoss loss(*this,
                       modes,
                       inverse,
                       penalties,
                       spread_outputs(center, outputs, modes.q()),
                       spread_outputs(phi, outputs, modes.q()));
    std::vector<double> at(pad_outputs(outputs) * modes.q());
    descend(loss, at, steps, tolerance);
    const std::vector<double> fitted = loss.move_start(at);
    for (size_t k = 0; k < outputs; ++k) {
        for (size_t j = 0; j < modes.q(); ++j) {
            phi[k * modes.q() + j] = fitted[j * pad_outputs(outputs) + k];
        }
    }
}

void pair_scores(const uint8_t* cells,
                 const std::vector<int64_t>& sizes,
                 size_t n,
                 const int64_t* left,
                 const int64_t* spread,
                 size_t outputs,
                 double shrinkage,
                 double* out) {
    const size_t columns = sizes.size();
    std::vector<int64_t> sums;
    for (size_t a = 0; a < columns; ++a) {
        for (size_t b = a + 1; b < columns; ++b, ++out) {
            const auto size = static_cast<size_t>(sizes[a] * sizes[b]) * outputs;
            sums.assign(2 * size, 0);
            for (size_t i = 0; i < n; ++i) {
                const size_t cell =
                    (cells[a * n + i] * static_cast<size_t>(sizes[b]) + cells[b * n + i]) * outputs;
                // Both are at most 2^16 a row: of labels 2^45 rows are tested (fit_classes), of
                // numbers there are 2^40. Below 2^61.
                for (size_t k = 0; k < outputs; ++k) {
                    sums[cell + k] += left[i * outputs + k];
                    sums[size + cell + k] += spread[i * outputs + k];
                }
            }
            double excess = 0;  // of the test above what it is where the pair says nothing
            double squares = 0;
            for (size_t c = 0; c < size; ++c) {
                const double s = static_cast<double>(sums[c]) / 65536.0;
                const double v = static_cast<double>(sums[size + c]) / 65536.0;
                const double share = v / (v + shrinkage);
                excess += s * s / (v + shrinkage) - share;
                squares += share * share;
            }
            *out = excess / std::sqrt(2.0 * squares + 1e-9);
        }
    }
}

}  // namespace hammemo
