// Products of features with themselves, and the equations that they make. Sums are in double
// precision and in an order that does not depend on the processor: a vector holds different sums,
// never parts of one.
#pragma once

#include <cstddef>
#include <vector>

namespace hammemo {

// Rows of features that are collected, a few at a time, into the sum of their products.
class Products {
public:
    explicit Products(size_t n_features);
    double* next_row();  // zeros, to be filled
    void finish();       // adds what is collected
    // The sum, both halves: (features, features).
    void copy_to(double* out) const;

private:
    static constexpr size_t BLOCK = 64;
    size_t n_features_, stride_, held_ = 0;
    std::vector<double> rows_, sums_;
};

// Solves (A + ridge) x = b for several b by the root of Cholesky; A: (n, n), b and x: (k, n). False
// if A + ridge is not positive.
bool solve_positive(const double* a, size_t n, double ridge, const double* b, size_t k, double* x);

// The inverse, upper half, of the root R of Cholesky, A = R^T R; `a` is overwritten. False if A is
// not positive.
bool invert_root(double* a, size_t n, double* inverse);

}  // namespace hammemo
