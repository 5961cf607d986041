// The leading labels of a mixture: a weighted sum of what the rows say that a context reads, and a prior.
//
// The twin of `MixtureRanker` in votes/mixture/vote.py: every number is made by the same operations in the same order, so
// scores are equal to the bit. Only labels that some row holds are added up. All others have nothing but their prior, which
// falls with the number of their examples: the row of the labels is read from its top until enough of them are there.
//
// Each row is read whole, not from its top: how far it is trusted depends on how many of its entries have the count one
// and two, which is not kept with the row.
#pragma once

#include "live_table.hpp"

namespace hammemo::live {

// A site without a position.
struct FreePart {
    enum class Kind : uint8_t { TABLE, COPY, RECENT };
    Kind kind;
    size_t reach;      // how many of the last tokens
    size_t component;  // of the nearest token; those up to `NEAREST` follow
    size_t table;      // TABLE: which table
};

// Loads that stay inside the array, also while another thread writes to it; -1 outside.
struct Numbers {
    const int64_t* data;
    size_t size;
    int64_t at(int64_t place) const {
        if (place < 0 || uint64_t(place) >= size) return -1;
        return *static_cast<const volatile int64_t*>(data + place);
    }
};

struct MixtureTable {
    const Handle* handle;
    Numbers labels;  // a label's number here -> its number in the table of the sites
};

struct Mixture {
    static constexpr size_t BUCKETS = 16, NEAREST = 6, COPY_BUCKETS = 8;
    const Handle* sites;
    std::vector<MixtureTable> tables;
    std::vector<FreePart> parts;    // those with a table come first
    std::vector<double> trust;      // components x BUCKETS
    std::vector<double> discounts;  // (sites + tables) x 4
    Numbers columns;                // a label's number -> its column
    size_t n_labels;                // columns; each has an example
};

// ranks: m x h, the rank of each token, -1 for none; numbers: (tables + 2) x n_ranks, by rank the number of the token in the
// table of the sites, in each other table, and the number of the label that is this token. out: m x k columns, k <= n_labels.
void mixture_leaders(const Mixture& mixture, const int64_t* ranks, size_t m, const int64_t* numbers, size_t n_ranks, size_t k,
                     int64_t* out);

}  // namespace hammemo::live
