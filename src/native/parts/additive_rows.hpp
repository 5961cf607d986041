// Rows as sparse whole numbers in the coordinates of an additive function, and the sums over rows
// that a fit needs.
//
// All sums go row by row in the order given, and an entry of a matrix is one such sum: no result
// depends on the processor or on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hammemo {

constexpr int32_t HAT = 1024;  // a hat that a value fully lies in
constexpr size_t NAME_CODES = 256;

// How the columns of a table become levels: ordered columns first, then columns of names.
struct Levels {
    std::vector<double> knots;    // of all ordered columns; a column has none, or two or more
    std::vector<int64_t> starts;  // where each column's knots start, and the end
    // Whether a missing value has a level of its own, behind the knots.
    std::vector<uint8_t> has_missing;
    std::vector<uint8_t> of_names;  // (columns of names, NAME_CODES)
    std::vector<int64_t> sizes;     // levels of each column
    int32_t reach;  // how far a line goes on behind the outer knots, in 1/HAT of the last range
};

// A value lies between a level and the next one, by `right` of HAT. Level -1: it lies in none.
struct Place {
    int32_t level, right;
};

// A change of coordinates, block by block: p coordinates of rows, q of the fit.
struct Modes {
    std::vector<int64_t> rows, columns;  // where the blocks start, and the end
    std::vector<double> flat;

    size_t p() const { return static_cast<size_t>(rows.back()); }
    size_t q() const { return static_cast<size_t>(columns.back()); }
    void apply(const double* from, double* to) const;         // q -> p
    void apply_turned(const double* from, double* to) const;  // p -> q
    // Of a matrix whose upper half is given, (p, p): the whole matrix in the new coordinates, (q,
    // q).
    void turn(const double* upper, double* out) const;
};

class AdditiveRows {
public:
    // values: (n, ordered columns); names: (n, columns of names); pairs: (pairs, 2) columns, whose
    // coarse levels are multiplied.
    AdditiveRows(const double* values,
                 const uint8_t* names,
                 size_t n,
                 const Levels& fine,
                 const Levels& coarse,
                 const std::vector<int64_t>& pairs);

    size_t n() const { return starts_.size() - 1; }
    size_t p() const { return p_; }
    const std::vector<int64_t>& starts() const { return starts_; }
    const std::vector<uint16_t>& index() const { return index_; }
    const std::vector<int16_t>& value() const { return value_; }

    // The nearest whole number to the sum over coordinates: coefficients (p, outputs), out (n,
    // outputs).
    void scores(const int64_t* coefficients, size_t outputs, int64_t* out) const;
    // Adds products of coordinates, upper half (p, p), and of coordinates and targets (p,), both
    // times counts. A coordinate of a row is at most 2 HAT = 2^11 and counts add up to less than
    // 2^40, so the matrix stays below 2^62. Products with targets stay below 2^11 times the sum of
    // absolute targets: the caller takes `NarrowSums` where that is below 2^63, else `WideSums`.
    template <class Sums>
    void add_gram(const int64_t* counts,
                  const int64_t* targets,
                  int64_t* gram,
                  Sums products) const;
    // Adds products of coordinates times the weight of the row: upper half, (p, p), in units of 1 /
    // HAT^2.
    void add_products(size_t row, double weight, double* out) const;

private:
    std::vector<size_t> number_coordinates(const Levels& fine,
                                           const Levels& coarse,
                                           const std::vector<int64_t>& pairs);
    void push(size_t coordinate, int32_t value);
    void push_level(size_t first, const Place& place);
    void push_cell(size_t first, size_t width, const Place& a, const Place& b);

    size_t p_;
    std::vector<int64_t> starts_;
    std::vector<uint16_t> index_;
    std::vector<int16_t> value_;
};

// The shares of the labels that have scores: of the second of two labels, or of all. Returns minus
// the log of the given label's share.
double shares_of(const double* scores, size_t outputs, int32_t label, double* out);

// Log-linear fits. One output: the score of the second of two labels. Else one score for each
// label.
struct ClassRows {
    const AdditiveRows& rows;
    const int32_t* labels;
    const double* weights;
    size_t outputs;

    // Shares become what they exceed the observed label of a row by.
    void subtract_observed(double* shares, size_t row) const {
        if (outputs > 1) {
            shares[labels[row]] -= 1.0;
        } else if (labels[row]) {
            shares[0] -= 1.0;
        }
    }
    // The mean over outputs of the curvature at phi (outputs, q), by the first `most` rows with a
    // weight: (q, q).
    void curvature(const Modes& modes, const double* phi, size_t most, double* out) const;
    // The slopes of the loss at phi (outputs, q), without penalties, by the rows of each fold.
    // fold_weights: (folds, n); out: (folds, outputs, q).
    void fold_slopes(const Modes& modes,
                     const double* phi,
                     const double* fold_weights,
                     size_t n_folds,
                     double* out) const;
    // Minimises the loss, penalised by the distance from center (outputs, q), from phi (outputs, q)
    // on; inverse: (q, q), upper, of the root of the curvature with penalties.
    void fit(const Modes& modes,
             const double* inverse,
             const double* penalties,
             const double* center,
             size_t steps,
             double tolerance,
             double* phi) const;
};

// Score tests of all pairs of columns. cells: (columns, n); left, spread: (n, outputs) whole
// numbers; out: one number for each pair a < b.
void pair_scores(const uint8_t* cells,
                 const std::vector<int64_t>& sizes,
                 size_t n,
                 const int64_t* left,
                 const int64_t* spread,
                 size_t outputs,
                 double shrinkage,
                 double* out);

}  // namespace hammemo
