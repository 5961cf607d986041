#include "dense_weights.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "lanes.hpp"
#include "portable_math.hpp"

namespace hammemo {
namespace {

constexpr size_t BLOCK = DenseRatios::BLOCK, PARTS = DenseRatios::PARTS;
constexpr size_t TILE = 4;  // groups of rows, or features, whose sums are in registers at a time

template <size_t LANES>
HAMMEMO_INLINE void load(const float* from, typename Lanes<LANES>::type& to) {
    typename Lanes<LANES>::narrow narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    if constexpr (LANES == 1) {
        to = narrow;
    }
#ifdef __GNUC__
    else {
        to = __builtin_convertvector(narrow, typename Lanes<LANES>::type);
    }
#endif
}

// scores[c][i] = base[c] + the sum over features of weights times log-ratios
template <size_t LANES>
HAMMEMO_INLINE void add_scores(const DenseLoss::Work& work) {
    using V = typename Lanes<LANES>::type;
    for (size_t c = 0; c < work.n_labels; ++c) {
        const float* ratios = work.ratios + c * work.n_features * BLOCK;
        const double* weights = work.weights + c * work.n_features;
        for (size_t i = 0; i < BLOCK; i += TILE * LANES) {
            V total[TILE];
            for (size_t t = 0; t < TILE; ++t) {
                total[t] = V{} + work.base[c];
            }
            for (size_t f = 0; f < work.n_features; ++f) {
                for (size_t t = 0; t < TILE; ++t) {
                    V x;
                    load<LANES>(ratios + f * BLOCK + i + t * LANES, x);
                    total[t] += weights[f] * x;
                }
            }
            std::memcpy(work.scores + c * BLOCK + i, total, sizeof total);
        }
    }
}

// exp of numbers up to zero, as portable_exp has it but for the way to the next whole number; below
// -700 that of -700.
template <size_t LANES>
HAMMEMO_INLINE void exponential(typename Lanes<LANES>::type& x) {
    using V = typename Lanes<LANES>::type;
    using Bits = typename Lanes<LANES>::bits;
    constexpr double SHIFT = 6755399441055744.0;  // 1.5 * 2^52: a number added to it is rounded to
                                                  // a whole one, in its last bits
    const V least = V{} - 700.0;
    x = x < least ? least : x;
    const V shifted = x * 1.44269504088896338700 + SHIFT;
    const V k = shifted - SHIFT;
    Bits bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;  // what SHIFT itself has in its last bits is a multiple of 2^12
    V power;
    std::memcpy(&power, &bits, sizeof power);
    const V high = x - k * LN2_HIGH;
    const V low = k * LN2_LOW;
    const V r = high - low;
    const V t = r * r;
    const V c =
        r - t * (1.66666666666666019037e-01 +
                 t * (-2.77777777770155933842e-03 +
                      t * (6.61375632143793436117e-05 +
                           t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
    x = (1.0 - ((low - (r * c) / (2.0 - c)) - high)) * power;
}

// Scores become what probabilities exceed the observed labels by, times shares; losses are added.
template <size_t LANES>
HAMMEMO_INLINE void take_softmax(const DenseLoss::Work& work) {
    using V = typename Lanes<LANES>::type;
    double observed[BLOCK] = {};
    double missed[BLOCK];  // the score of the own label, and what it lacks to the highest
    for (size_t i = 0; i < work.n; ++i) {
        observed[i] = work.scores[static_cast<size_t>(work.labels[i]) * BLOCK + i];
    }
    for (size_t i = 0; i < BLOCK; i += LANES) {
        V highest;
        V sum{};
        V score;
        std::memcpy(&highest, work.scores + i, sizeof highest);
        for (size_t c = 1; c < work.n_labels; ++c) {
            std::memcpy(&score, work.scores + c * BLOCK + i, sizeof score);
            highest = score > highest ? score : highest;
        }
        for (size_t c = 0; c < work.n_labels; ++c) {
            std::memcpy(&score, work.scores + c * BLOCK + i, sizeof score);
            score -= highest;
            exponential<LANES>(score);
            sum += score;
            std::memcpy(work.scores + c * BLOCK + i, &score, sizeof score);
        }
        V share;
        std::memcpy(&share, work.shares + i, sizeof share);
        for (size_t c = 0; c < work.n_labels; ++c) {
            std::memcpy(&score, work.scores + c * BLOCK + i, sizeof score);
            score = score / sum * share;
            std::memcpy(work.scores + c * BLOCK + i, &score, sizeof score);
        }
        std::memcpy(work.sums + i, &sum, sizeof sum);
        V observed_score;
        std::memcpy(&observed_score, observed + i, sizeof observed_score);
        observed_score = highest - observed_score;
        std::memcpy(missed + i, &observed_score, sizeof observed_score);
    }
    for (size_t i = 0; i < work.n; ++i) {
        work.scores[static_cast<size_t>(work.labels[i]) * BLOCK + i] -= work.shares[i];
        work.loss[i % PARTS] += work.shares[i] * (portable_log(work.sums[i]) + missed[i]);
    }
}

// by_weight[c][f][i mod PARTS] += excess[c][i] times the log-ratio of row i
template <size_t LANES>
HAMMEMO_INLINE void add_gradient(const DenseLoss::Work& work) {
    using V = typename Lanes<LANES>::type;
    for (size_t c = 0; c < work.n_labels; ++c) {
        const double* excess = work.scores + c * BLOCK;
        for (size_t i = 0; i < BLOCK; ++i) {
            work.by_offset[c * PARTS + i % PARTS] += excess[i];
        }
        for (size_t first = 0; first < work.n_features; first += TILE) {
            const size_t tile = std::min(TILE, work.n_features - first);
            const float* ratios = work.ratios + (c * work.n_features + first) * BLOCK;
            double* sums = work.by_weight + (c * work.n_features + first) * PARTS;
            for (size_t part = 0; part < PARTS; part += LANES) {
                V total[TILE] = {};
                V one;
                V x;
                if (tile == TILE) {
                    for (size_t i = part; i < BLOCK; i += PARTS) {
                        std::memcpy(&one, excess + i, sizeof one);
                        for (size_t t = 0; t < TILE; ++t) {
                            load<LANES>(ratios + t * BLOCK + i, x);
                            total[t] += one * x;
                        }
                    }
                } else {
                    for (size_t i = part; i < BLOCK; i += PARTS) {
                        std::memcpy(&one, excess + i, sizeof one);
                        for (size_t t = 0; t < tile; ++t) {
                            load<LANES>(ratios + t * BLOCK + i, x);
                            total[t] += one * x;
                        }
                    }
                }
                for (size_t t = 0; t < tile; ++t) {
                    V before;
                    std::memcpy(&before, sums + t * PARTS + part, sizeof before);
                    before += total[t];
                    std::memcpy(sums + t * PARTS + part, &before, sizeof before);
                }
            }
        }
    }
}

template <size_t LANES>
HAMMEMO_INLINE void add_block(const DenseLoss::Work& work) {
    add_scores<LANES>(work);
    take_softmax<LANES>(work);
    add_gradient<LANES>(work);
}

void block_1(const DenseLoss::Work& work) {
    add_block<1>(work);
}
#ifdef HAMMEMO_X86
__attribute__((target("avx512f,avx512vl,avx512dq"))) void block_8(const DenseLoss::Work& work) {
    add_block<8>(work);
}
__attribute__((target("avx2"))) void block_4(const DenseLoss::Work& work) {
    add_block<4>(work);
}
void block_2(const DenseLoss::Work& work) {
    add_block<2>(work);
}
const bool HAS_8 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq");
const bool HAS_4 = __builtin_cpu_supports("avx2");
#endif

// The blocks of vectors of this width; a processor that has none of it takes the next one.
void (*blocks_of(size_t width))(const DenseLoss::Work&) {
#ifdef HAMMEMO_X86
    if ((width == 0 || width == 8) && HAS_8) {
        return block_8;
    }
    if ((width == 0 || width >= 4) && HAS_4) {
        return block_4;
    }
    if (width != 1) {
        return block_2;
    }
#endif
    return width <= PARTS ? block_1 : nullptr;
}

double add_parts(const double* parts) {
    double sum = 0;
    for (size_t k = 0; k < PARTS; ++k) {
        sum += parts[k];
    }
    return sum;
}

}  // namespace

DenseRatios::DenseRatios(const float* ratios,
                         size_t n_labels,
                         size_t n_all,
                         size_t n_features,
                         const std::vector<int64_t>& rows,
                         std::vector<int32_t> labels)
    : n_labels_(n_labels),
      n_features_(n_features),
      labels_(std::move(labels)),
      values_(n_blocks() * n_labels * n_features * BLOCK) {
    for (size_t i = 0; i < rows.size(); ++i) {
        float* block = values_.data() + i / BLOCK * n_labels * n_features * BLOCK + i % BLOCK;
        for (size_t c = 0; c < n_labels; ++c) {
            const float* row = ratios + (c * n_all + static_cast<size_t>(rows[i])) * n_features;
            for (size_t f = 0; f < n_features; ++f) {
                block[(c * n_features + f) * BLOCK] = row[f];
            }
        }
    }
}

DenseLoss::DenseLoss(const DenseRatios& ratios,
                     std::vector<double> base,
                     std::vector<double> shares,
                     std::vector<double> start,
                     double strength,
                     bool by_label,
                     size_t width)
    : ratios_(ratios),
      base_(std::move(base)),
      shares_(std::move(shares)),
      start_(std::move(start)),
      strength_(strength),
      by_label_(by_label),
      add_block_(blocks_of(width)) {
    shares_.resize(ratios.n_blocks() * BLOCK);  // rows behind the last one count nothing
}

double DenseLoss::operator()(const std::vector<double>& at, std::vector<double>& gradient) {
    const size_t F = ratios_.n_features();
    const size_t L = ratios_.n_labels();
    const double* differences = at.data() + F;
    const double* offsets = differences + F * L;
    std::vector<double> base = base_;
    std::vector<double> weights(L * F);
    std::vector<double> scores(L * BLOCK);
    std::vector<double> sums(BLOCK);
    std::vector<double> by_weight(L * F * PARTS);
    std::vector<double> by_offset(L * PARTS);
    std::vector<double> loss(PARTS);
    for (size_t c = 0; c < L; ++c) {
        for (size_t f = 0; f < F; ++f) {
            weights[c * F + f] = at[f] + (by_label_ ? differences[c * F + f] : 0.0);
        }
    }
    for (size_t c = 0; by_label_ && c < L; ++c) {
        base[c] += offsets[c];
    }
    for (size_t k = 0; k < ratios_.n_blocks(); ++k) {
        add_block_({ratios_.block(k),
                    ratios_.labels().data() + k * BLOCK,
                    std::min(BLOCK, ratios_.n() - k * BLOCK),
                    L,
                    F,
                    base.data(),
                    weights.data(),
                    shares_.data() + k * BLOCK,
                    scores.data(),
                    sums.data(),
                    by_weight.data(),
                    by_offset.data(),
                    loss.data()});
    }
    for (size_t f = 0; f < F; ++f) {
        gradient[f] = 0;
        for (size_t c = 0; c < L; ++c) {
            const double one = add_parts(by_weight.data() + (c * F + f) * PARTS);
            gradient[f] += one;
            if (by_label_) {
                gradient[F + c * F + f] = one;
            }
        }
    }
    for (size_t c = 0; by_label_ && c < L; ++c) {
        gradient[F + L * F + c] = add_parts(by_offset.data() + c * PARTS);
    }
    double away = 0;
    for (size_t i = 0; i < at.size(); ++i) {
        const double difference = at[i] - (i < F ? start_[i] : 0.0);
        away += difference * difference;
        gradient[i] += 2 * strength_ * difference;
    }
    return add_parts(loss.data()) + strength_ * away;
}

std::vector<double> DenseLoss::lower() const {
    const size_t F = ratios_.n_features();
    const size_t L = ratios_.n_labels();
    std::vector<double> bounds(size(), -std::numeric_limits<double>::infinity());
    for (size_t f = 0; f < F; ++f) {
        bounds[f] = by_label_ ? start_[f] : 0.0;
        for (size_t c = 0; by_label_ && c < L; ++c) {
            bounds[F + c * F + f] = -start_[f];
        }
    }
    return bounds;
}

void portable_logs(const double* values, size_t n, double* out) {
    for (size_t i = 0; i < n; ++i) {
        out[i] = portable_log(values[i]);
    }
}

void portable_log1ps(const double* values, size_t n, double* out) {
    for (size_t i = 0; i < n; ++i) {
        out[i] = portable_log1p(values[i]);
    }
}

}  // namespace hammemo
