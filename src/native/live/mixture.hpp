// The leading labels of a mixture: a weighted sum of what the rows say that a context reads, and a
// prior.
//
// The twin of `MixtureRanker` in votes/mixture/ranker.py: every number is made by the same
// operations in the same order, so scores are equal to the bit. Only labels that some row holds are
// added up. All others have nothing but their prior, which falls with the number of their examples:
// the row of the labels is read from its top until enough of them are there.
//
// Rows of up to `most_whole` entries are read whole. Contexts that read longer ones are answered by
// the threshold algorithm (mixture_threshold.hpp). How far a row is trusted depends on how many of
// its entries have the count one and two: this is kept with long rows. Tokens that never were a
// label count there too.
#pragma once

#include <cmath>

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
        if (place < 0 || uint64_t(place) >= size) {
            return -1;
        }
        return load_once(data + place);
    }
};

struct MixtureTable {
    const Handle* handle;
    Numbers labels;   // a label's number here -> its number in the table of the sites
    Numbers numbers;  // and back
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
    size_t most_whole = 512;        // entries up to which a row is read whole
    // The threshold algorithm may take so many eighths of the reads of whole rows.
    size_t patience = 4;
};

// Which labels contexts may be answered with. All arrays may be written to by others: loads stay
// inside them.
struct LabelMask {
    // By column, for all contexts: whether it is allowed; null: all are.
    const uint8_t* open = nullptr;
    // Where the list of each context begins in `listed`, and the end; null: no lists.
    const int64_t* starts = nullptr;
    Numbers listed{nullptr, 0};
    bool lists_allow = false;  // only what is listed is allowed, or all else
};

// What probabilities are divided by where labels are ranked: (examples + 1/2) to the power of so
// many 64ths. It is made of square roots, which every machine rounds alike; it does not fall as
// examples grow.
inline double popularity(uint64_t examples, uint32_t power) {
    double root = double(examples) + 0.5;
    double product = 1;
    for (uint32_t bit = 32; bit && power; bit /= 2) {
        root = std::sqrt(root);
        if (power & bit) {
            product *= root;
        }
    }
    return product;
}

// ranks: m x h, the rank of each token, -1 for none; numbers: (tables + 2) x n_ranks, by rank the
// number of the token in the table of the sites, in each other table, and the number of the label
// that is this token. out: m x k columns, k <= n_labels, -1 where too few are allowed; scores: the
// same, or null. power: of `popularity`, below 64.
void mixture_leaders(const Mixture& mixture,
                     const int64_t* ranks,
                     size_t m,
                     const int64_t* numbers,
                     size_t n_ranks,
                     const LabelMask& mask,
                     uint32_t power,
                     size_t k,
                     int64_t* out,
                     double* scores);

}  // namespace hammemo::live
