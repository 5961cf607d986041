// The owners of what the views in layout.hpp point to.
#pragma once

#include <vector>

#include "loops.hpp"

namespace hammemo {

constexpr uint32_t MAX_WIDTH = 2048;  // tokens of a context, and sites
constexpr uint64_t MEMO = 1 << 16;    // integers whose look-up is done once

// A perfect hash table by displacement: groups of hashes, the largest first, each get the first displacement that
// sends all their members to free slots.
class Finder {
public:
    explicit Finder(std::vector<uint64_t> ascending);
    FinderView view() const;

private:
    bool place(size_t slots);

    std::vector<uint64_t> sorted_, words_, displacements_;
    std::vector<uint32_t> ranks_;
};

class Layout {
public:
    Layout(uint32_t h, const std::vector<std::vector<uint32_t>>& positions, const std::vector<uint64_t>& multipliers,
           const std::vector<uint64_t>& tuple_seeds, const std::vector<uint32_t>& groups,
           std::vector<std::vector<uint64_t>> reserved, const std::vector<uint32_t>& buckets, IntegerHash integer_hash);
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
    const LayoutView& view() const { return view_; }

private:
    std::vector<Finder> finders_;
    std::vector<FinderView> finder_views_;
    std::vector<Site> sites_;
    std::vector<uint32_t> positions_, block_first_rows_;
    std::vector<uint64_t> block_multipliers_, memo_;
    LayoutView view_;
};

}  // namespace hammemo
