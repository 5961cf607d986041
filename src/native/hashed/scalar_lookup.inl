// Looking up rows one after the other, for instruction sets without a 64-bit multiply of vectors.

namespace hammemo {
namespace {

void locate(const FinderView& finder,
            const uint64_t* hashes,
            const uint8_t* present,
            size_t n,
            uint64_t* words) {
    if (finder.slots) {
        for (size_t i = 0; i < n; ++i) {
            words[i] = present[i] ? finder.probe(hashes[i]) : ABSENT;
        }
    } else {
        for (size_t i = 0; i < n; ++i) {
            words[i] = present[i] ? finder.locate(hashes[i]) : ABSENT;
        }
    }
}

// Masks instead of branches here too.
inline uint32_t row_of(const LayoutView& layout,
                       const Site& site,
                       uint64_t word,
                       uint64_t multiplier,
                       uint32_t first_row) {
    const uint32_t shared = 0U - static_cast<uint32_t>(word & 1);
    const uint32_t has_token = 0U - static_cast<uint32_t>(word != ABSENT);
    const uint32_t bucket = site.n_own + scale_down(word * multiplier, site.buckets);
    const uint32_t row =
        first_row + ((static_cast<uint32_t>(word >> 1) & ~shared) | (bucket & shared));
    return (row & has_token) | (layout.empty_row & ~has_token);
}

void place(const LayoutView& layout,
           const Site& site,
           const uint64_t* words,
           size_t n,
           uint32_t* rows) {
    for (size_t i = 0; i < n; ++i) {
        rows[i] = row_of(layout, site, words[i], site.multiplier, site.first_row);
    }
}

void place_block(const LayoutView& layout, const uint64_t* words, size_t n, uint32_t* rows) {
    for (size_t i = 0; i < n; ++i) {
        rows[i] = row_of(layout,
                         layout.sites[0],
                         words[i],
                         layout.block_multipliers[i],
                         layout.block_first_rows[i]);
    }
}

template <class Token>
bool recall(const LayoutView& layout, const Token* tokens, size_t n, uint64_t* words) {
    uint64_t outside = 0;
    for (size_t i = 0; i < n; ++i) {
        words[i] = static_cast<uint64_t>(int64_t{tokens[i]});
    }
    copies_are_private();
    for (size_t i = 0; i < n; ++i) {
        outside |= words[i] >= layout.memo_size;
    }
    if (outside) {
        return false;
    }
    for (size_t i = 0; i < n; ++i) {
        words[i] = layout.memo[words[i]];
    }
    return true;
}

}  // namespace
}  // namespace hammemo
