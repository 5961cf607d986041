#include "symmetric.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.hpp"

namespace hammemo {
namespace {

constexpr size_t TILE = 4;    // rows of the result that are summed at a time
constexpr size_t WIDTH = 16;  // and columns: features are filled up to a multiple of it

// sums[f][e] += rows[.][f] * rows[.][e] for e up to the tile of f: two vectors of columns and four
// rows in registers.
template <size_t LANES>
HAMMEMO_INLINE void add_products(const double* rows, size_t n, size_t stride, double* sums) {
    using V = typename Lanes<LANES>::type;
    for (size_t f = 0; f < stride; f += TILE) {
        for (size_t e = 0; e < f + TILE; e += 2 * LANES) {
            V total[TILE][2] = {};
            for (size_t r = 0; r < n; ++r) {
                const double* row = rows + r * stride;
                V left;
                V right;
                std::memcpy(&left, row + e, sizeof left);
                std::memcpy(&right, row + e + LANES, sizeof right);
                for (size_t i = 0; i < TILE; ++i) {
                    total[i][0] += row[f + i] * left;
                    total[i][1] += row[f + i] * right;
                }
            }
            for (size_t i = 0; i < TILE; ++i) {
                double lanes[2 * LANES];
                std::memcpy(lanes, total[i], sizeof lanes);
                for (size_t j = 0; j < 2 * LANES; ++j) {
                    sums[(f + i) * stride + e + j] += lanes[j];
                }
            }
        }
    }
}

// row[j] -= factor * other[j]
template <size_t LANES>
HAMMEMO_INLINE void subtract(double* row, const double* other, double factor, size_t n) {
    using V = typename Lanes<LANES>::type;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        V x;
        V y;
        std::memcpy(&x, row + j, sizeof x);
        std::memcpy(&y, other + j, sizeof y);
        x -= factor * y;
        std::memcpy(row + j, &x, sizeof x);
    }
    for (; j < n; ++j) {
        row[j] -= factor * other[j];
    }
}

// Makes of the lower half of a matrix, kept as its upper half row by row, the root of Cholesky.
template <size_t LANES>
HAMMEMO_INLINE bool take_root(double* a, size_t n) {
    for (size_t k = 0; k < n; ++k) {
        double* pivot = a + k * n;
        if (!(pivot[k] > 0)) {
            return false;
        }
        const double scale = 1.0 / std::sqrt(pivot[k]);
        for (size_t j = k; j < n; ++j) {
            pivot[j] *= scale;
        }
        for (size_t i = k + 1; i < n; ++i) {
            subtract<LANES>(a + i * n + i, pivot + i, pivot[i], n - i);
        }
    }
    return true;
}

// The inverse of an upper triangle, from the last row to the first one.
template <size_t LANES>
HAMMEMO_INLINE void invert(const double* root, size_t n, double* inverse) {
    std::fill(inverse, inverse + n * n, 0.0);
    for (size_t i = n; i-- > 0;) {
        double* row = inverse + i * n;
        for (size_t k = i + 1; k < n; ++k) {
            subtract<LANES>(row + k, inverse + k * n + k, root[i * n + k], n - k);
        }
        row[i] = 1.0;
        for (size_t j = i; j < n; ++j) {
            row[j] /= root[i * n + i];
        }
    }
}

#ifdef HAMMEMO_X86
__attribute__((target("avx512f,avx512vl,avx512dq"))) void products_512(const double* rows,
                                                                       size_t n,
                                                                       size_t stride,
                                                                       double* sums) {
    add_products<8>(rows, n, stride, sums);
}
__attribute__((target("avx2"))) void products_256(const double* rows,
                                                  size_t n,
                                                  size_t stride,
                                                  double* sums) {
    add_products<4>(rows, n, stride, sums);
}
void products_128(const double* rows, size_t n, size_t stride, double* sums) {
    add_products<2>(rows, n, stride, sums);
}
__attribute__((target("avx512f,avx512vl,avx512dq"))) bool root_512(double* a, size_t n) {
    return take_root<8>(a, n);
}
__attribute__((target("avx2"))) bool root_256(double* a, size_t n) {
    return take_root<4>(a, n);
}
bool root_128(double* a, size_t n) {
    return take_root<2>(a, n);
}
__attribute__((target("avx512f,avx512vl,avx512dq"))) void inverse_512(const double* root,
                                                                      size_t n,
                                                                      double* out) {
    invert<8>(root, n, out);
}
__attribute__((target("avx2"))) void inverse_256(const double* root, size_t n, double* out) {
    invert<4>(root, n, out);
}
void inverse_128(const double* root, size_t n, double* out) {
    invert<2>(root, n, out);
}
const bool HAS_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq");
const bool HAS_256 = __builtin_cpu_supports("avx2");
template <class Function>
Function choose_by_processor(Function with_512, Function with_256, Function with_128) noexcept {
    if (HAS_512) {
        return with_512;
    }
    return HAS_256 ? with_256 : with_128;
}
const auto PRODUCTS_OF = choose_by_processor(products_512, products_256, products_128);
const auto ROOT_OF = choose_by_processor(root_512, root_256, root_128);
const auto INVERSE_OF = choose_by_processor(inverse_512, inverse_256, inverse_128);
#else
const auto PRODUCTS_OF = add_products<1>;
const auto ROOT_OF = take_root<1>;
const auto INVERSE_OF = invert<1>;
#endif

}  // namespace

Products::Products(size_t n_features)
    : n_features_(n_features),
      stride_((n_features + WIDTH - 1) / WIDTH * WIDTH),
      rows_(BLOCK * stride_),
      sums_(stride_ * stride_) {}

double* Products::next_row() {
    if (held_ == BLOCK) {
        finish();
    }
    double* row = rows_.data() + held_++ * stride_;
    std::fill(row, row + stride_, 0.0);
    return row;
}

void Products::finish() {
    PRODUCTS_OF(rows_.data(), held_, stride_, sums_.data());
    held_ = 0;
}

void Products::copy_to(double* out) const {
    for (size_t f = 0; f < n_features_; ++f) {
        for (size_t e = 0; e <= f; ++e) {
            out[f * n_features_ + e] = out[e * n_features_ + f] = sums_[f * stride_ + e];
        }
    }
}

bool solve_positive(const double* a, size_t n, double ridge, const double* b, size_t k, double* x) {
    std::vector<double> root(a, a + n * n);
    for (size_t i = 0; i < n; ++i) {
        root[i * n + i] += ridge;
    }
    if (!ROOT_OF(root.data(), n)) {
        return false;
    }
    std::copy(b, b + k * n, x);
    for (double* right = x; right < x + k * n; right += n) {
        for (size_t i = 0; i < n; ++i) {
            right[i] /= root[i * n + i];
            for (size_t j = i + 1; j < n; ++j) {
                right[j] -= root[i * n + j] * right[i];
            }
        }
        for (size_t i = n; i-- > 0;) {
            for (size_t j = i + 1; j < n; ++j) {
                right[i] -= root[i * n + j] * right[j];
            }
            right[i] /= root[i * n + i];
        }
    }
    return true;
}

bool invert_root(double* a, size_t n, double* inverse) {
    if (!ROOT_OF(a, n)) {
        return false;
    }
    INVERSE_OF(a, n, inverse);
    return true;
}

}  // namespace hammemo
