// Scores that are sums of rows: what each site says of the labels, added to a base in the order of
// the sites.
//
// A site reads the tokens at its positions; each tuple of tokens that is stored has a row of one
// number a label. A context whose tuple is not stored reads no row there. Rows are found by
// hashing, and a hash decides nothing: the tokens are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hammemo {

constexpr int32_t NO_NUMBER = -1;  // of a token that is not stored

class ScoreTable {
public:
    // h: tokens of a context. site_starts: (sites + 1,) into positions. row_starts: (sites + 1,).
    // tuples: the tokens of all rows, those of the first site first, as wide as their site. values:
    // (rows, labels). The caller has checked all of it.
    ScoreTable(size_t h,
               std::vector<int64_t> site_starts,
               std::vector<int64_t> positions,
               std::vector<int64_t> row_starts,
               std::vector<int32_t> tuples,
               std::vector<double> values,
               std::vector<double> base,
               uint64_t seed);

    size_t h() const { return h_; }
    size_t n_labels() const { return base_.size(); }

    // Writes the scores of contexts; tokens: (n, h), scores: (n, labels).
    void write(const int32_t* tokens, size_t n, double* scores) const;

private:
    int64_t row_of(size_t site, const int32_t* context) const;  // -1 for none

    size_t h_;
    std::vector<int64_t> site_starts_, positions_, row_starts_, tuple_starts_;
    std::vector<int32_t> tuples_;
    std::vector<double> values_, base_;
    uint64_t seed_;
    std::vector<int64_t> slot_starts_;  // (sites + 1,): each site has a power of two of slots
    std::vector<uint32_t> slots_;       // a row plus one; 0 is free
};

// The column of the highest score, the first one among equals.
size_t winning_column(const double* scores, size_t n_labels);

}  // namespace hammemo
