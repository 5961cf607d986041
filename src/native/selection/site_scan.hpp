// The examples that sites are chosen from, by column: which cell each lies in at a site, and its
// counts by label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "log_ratios.hpp"
#include "ratio_table.hpp"

namespace hammemo {

class SiteScan {
public:
    // codes: one row a column of the table, -1 where it holds nothing; sizes: how many values each
    // column has. The first n examples are counted. The caller has checked that codes are below
    // their size and labels below the number of labels.
    SiteScan(std::vector<int32_t> codes,
             std::vector<int32_t> sizes,
             std::vector<int32_t> labels,
             const std::vector<double>& prior,
             const double* amounts,
             size_t n);

    size_t n() const { return n_; }
    size_t n_all() const { return labels_.size(); }
    size_t n_columns() const { return sizes_.size(); }
    size_t n_labels() const { return n_labels_; }
    const std::vector<int32_t>& labels() const { return labels_; }
    const std::shared_ptr<const RatioTable>& table() const { return table_; }

    const int32_t* codes(int32_t column) const {
        return codes_.data() + static_cast<size_t>(column) * n_all();
    }
    int32_t size(int32_t column) const { return sizes_[static_cast<size_t>(column)]; }

    // Puts the counted examples that have a cell at a site behind one another, those of cell c from
    // starts[c] to starts[c + 1].
    void sort_by(const std::vector<int32_t>& site,
                 std::vector<int32_t>& members,
                 std::vector<int32_t>& starts) const;
    // The cell of each example at a site, -1 where it has none, numbered in the order in which they
    // come; returns how many there are.
    size_t cells(const std::vector<int32_t>& site, int32_t* out) const;
    // Adds a site to the log-ratios of some examples, counted or not.
    void add_to(LogRatios& ratios,
                const std::vector<int32_t>& site,
                const std::vector<int32_t>& rows) const;

private:
    struct Scratch;
    size_t join(const std::vector<int32_t>& site, size_t n, Scratch& scratch) const;
    void sort_members(size_t cells, Scratch& scratch) const;
    void count_labels(const int32_t* first, const int32_t* last, Scratch& scratch) const;

    std::vector<int32_t> codes_, sizes_, labels_;
    size_t n_, n_labels_;
    std::shared_ptr<const RatioTable> table_;
};

}  // namespace hammemo
