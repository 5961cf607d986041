// The log-ratios of rows at sites, as tables by cell: weighted sums over sites, and the sums over
// rows that a fit of weights needs.
//
// The log-ratio of label c in a row, x_c = log(1 + n_c / (a p_c)) - log(1 + n / a), one for each
// amount of smoothing a, depends on the cell that the row lies in and, where the row is left out of
// its own counts, on its own label. So a weighted sum is made once a cell, and a row adds up one
// entry a site. With two labels a row needs one number, that of label 1 less that of label 0.
//
// Weights are (features, 1), shared by all labels, or (features, labels); feature s J + j is amount
// j at site s. The second logarithm is one number a row, which no softmax sees as long as labels
// share their weights: it is left out then. Scores have one column with two labels, else one a
// label. Sums are in double precision, and their order depends on the rows alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ratio_table.hpp"
#include "symmetric.hpp"

namespace hammemo {

class LogRatios {
public:
    // labels: of each row; table: with counts as large as they come.
    LogRatios(std::vector<int32_t> labels,
              size_t n_labels,
              std::shared_ptr<const RatioTable> table,
              bool leave_one_out)
        : labels_(std::move(labels)),
          n_labels_(n_labels),
          table_(std::move(table)),
          leave_one_out_(leave_one_out) {}

    size_t n() const { return labels_.size(); }
    size_t n_labels() const { return n_labels_; }
    size_t n_sites() const { return sites_.size(); }
    size_t n_columns() const { return n_labels_ == 2 ? 1 : n_labels_; }
    const std::vector<int32_t>& labels() const { return labels_; }
    const std::shared_ptr<const RatioTable>& table() const { return table_; }
    bool leaves_one_out() const { return leave_one_out_; }

    // A site: the cell of each row, -1 where it has none, and the labels and counts of each cell,
    // from starts[cell] to starts[cell + 1]. The caller has checked that they lie inside, and that
    // a row that is left out of its cell is counted there.
    void add(const int32_t* cells,
             const std::vector<int64_t>& starts,
             const int32_t* labels,
             const int64_t* counts);

    // out: (rows, columns).
    void scores(size_t n_sites, const double* weights, bool by_label, double* out) const;
    // The sum over rows from first to last of residuals times log-ratios; residuals: (rows,
    // columns), out: like weights.
    void gradient(size_t n_sites,
                  const double* residuals,
                  size_t first,
                  size_t last,
                  bool by_label,
                  double* out) const;
    // The sum over rows of the covariance of the features under the probabilities of the row;
    // labels that are less likely than `least` are left out, and rows whose other labels are
    // together less likely. probabilities: (rows, columns), out: (features, features).
    void curvature(size_t n_sites,
                   const double* probabilities,
                   size_t first,
                   size_t last,
                   double least,
                   double* out) const;

private:
    struct Entry {  // a label with examples in a cell
        int32_t label;
        int32_t place;  // of its count, in the table
    };
    struct Site {
        std::vector<int32_t> cells, own;  // of each row: its cell, -1 where nothing but itself is
                                          // counted there; the entry of its label
        std::vector<int32_t> starts;      // of the entries of each cell
        std::vector<Entry> entries;
        std::vector<int32_t> totals;  // of each cell, a row itself left out
        // With two labels, for each cell and own label with rows: the log-ratios of label 0, then
        // those of label 1. `cells` says which.
        std::vector<float> pairs;
        size_t n_cells() const { return totals.size(); }
        size_t n_pairs() const { return pairs.size() / (2 * AMOUNTS); }
    };
    void pair_up(Site& site) const;
    void add_scores_of_two(const Site& site,
                           const double* weights,
                           bool by_label,
                           double* out) const;
    void add_scores_of_many(const Site& site,
                            const double* weights,
                            bool by_label,
                            double* out) const;
    static void gradient_of_two(const Site& site,
                                const double* residuals,
                                size_t first,
                                size_t last,
                                bool by_label,
                                double* out);
    void gradient_of_many(const Site& site,
                          const double* residuals,
                          size_t first,
                          size_t last,
                          bool by_label,
                          double* out) const;
    void add_rows_of_two(size_t n_sites,
                         const double* probabilities,
                         size_t first,
                         size_t last,
                         double least,
                         Products& products) const;
    void add_rows_of_many(size_t n_sites,
                          const double* probabilities,
                          size_t first,
                          size_t last,
                          double least,
                          Products& products) const;

    std::vector<int32_t> labels_;
    size_t n_labels_;
    std::shared_ptr<const RatioTable> table_;
    bool leave_one_out_;
    std::vector<Site> sites_;
};

// Probabilities and losses of scores, row by row; base: the scores of labels before any site.
// scores, probabilities: (rows, columns).
void softmax_rows(const double* scores,
                  size_t n,
                  size_t n_labels,
                  const double* base,
                  const int32_t* labels,
                  double* probabilities,
                  double* losses);

}  // namespace hammemo
