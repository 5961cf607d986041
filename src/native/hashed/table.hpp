// A compiled memory: rows of scores in the narrowest type whose sums cannot overflow, and the loops
// that read them.
#pragma once

#include <memory>
#include <vector>

#include "layout_owner.hpp"
#include "loops.hpp"

namespace hammemo {

// The loops that this processor can run, the fastest first; the last one is "portable".
const std::vector<const Loops*>& available_loops();

class Table {
public:
    // Exactly one of integers and floats is given: layout.empty_row x n_labels numbers. The divisor
    // may be empty.
    Table(std::shared_ptr<const LayoutOwner> layout,
          const int64_t* integers,
          const double* floats,
          uint32_t n_labels,
          std::vector<double> divisor,
          double scale,
          const Loops& loops);
    // The table `before` with other numbers in some rows, n_rows of them, below layout.empty_row
    // and distinct, of the kind that it was made of; and with another divisor, if it has one. It is
    // to the byte what all numbers together would give: where they would take other types, an
    // overflow_error is thrown.
    Table(const Table& before,
          const int64_t* rows,
          size_t n_rows,
          const int64_t* integers,
          const double* floats,
          std::vector<double> divisor);
    Table(Table&&) = default;  // what the view points to is not moved
    Table& operator=(Table&&) = delete;

    void winners(const Source& source, size_t m, unsigned threads, int32_t* out) const;
    void leaders(const Source& source, size_t m, uint32_t k, unsigned threads, int32_t* out) const;
    void scores(const Source& source, size_t m, unsigned threads, double* out) const;
    // Whether each answer is proven, this table holding lower bounds of the scores and `upper`, of
    // the same layout and divisor, upper bounds: the answer's lower bound exceeds every rival's
    // upper bound, or equals it and comes first.
    void prove(const Table& upper,
               const Source& source,
               size_t m,
               unsigned threads,
               const int32_t* answers,
               uint8_t* out) const;
    // The winner of the first context of a source.
    int32_t winner_of(const Source& source) const;

    bool shares_layout_with(const Table& other) const { return layout_ == other.layout_; }
    const LayoutView& layout() const { return layout_->view(); }
    const TableView& view() const { return view_; }
    const Loops& loops() const { return loops_; }
    size_t nbytes() const { return bytes_.size(); }

private:
    template <class Row, class Input>
    bool fill(const Input* numbers);
    template <class Row>
    Row* copy_from(const Table& before);
    template <class Row>
    void replace(const Table& before, const int64_t* rows, size_t n_rows, const int64_t* numbers);
    template <class MakeUse>
    void each(const Source& source, size_t m, unsigned threads, const MakeUse& make_use) const;
    double context_score(const BlockRows& rows, size_t i, uint32_t column) const;
    void context_scores(const BlockRows& rows, size_t i, void* sums, double* out) const;

    std::shared_ptr<const LayoutOwner> layout_;
    std::vector<double> divisor_;
    std::vector<int64_t> offsets_;  // what was subtracted from each row
    std::vector<std::byte> bytes_, base_;
    TableView view_;
    const Loops& loops_;
};

}  // namespace hammemo
