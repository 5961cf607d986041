// The owners of what the views in layout.hpp point to.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "loops.hpp"

namespace hammemo {

constexpr uint32_t MAX_WIDTH = 2048;  // tokens of a context, and sites
constexpr uint64_t MEMO = 1 << 16;    // integers whose look-up is done once

// A perfect hash table by displacement: groups of hashes, the largest first, each get the first
// displacement that sends all their members to free slots. Numbers are ranks unless they are given.
class Finder {
public:
    explicit Finder(std::vector<uint64_t> ascending, std::vector<uint32_t> numbers = {});
    FinderView view() const;

private:
    bool place(size_t slots);

    std::vector<uint64_t> sorted_, words_, displacements_;
    std::vector<uint32_t> sorted_numbers_, numbers_;
};

// The features with rows of their own, copied: nothing of it can change.
struct Reserved {
    std::vector<std::vector<uint64_t>> hashes;  // of the features of each group, ascending
    // Of each group, see Site::entries; none of single tokens.
    std::vector<std::vector<uint64_t>> entries;
    std::vector<uint64_t> token_hashes;  // of the tokens that an integer can be, ascending
    std::vector<uint32_t> token_places;  // of the same
    std::vector<uint64_t> token_checks;  // two a token, or none
    // For each place the row at sites of one position, or MISSING.
    std::vector<uint32_t> single_rows;
};

// All that a layout consists of; it stays where it is, because its view points into it.
class LayoutOwner {
public:
    LayoutOwner(uint32_t h,
                const std::vector<std::vector<uint32_t>>& positions,
                const std::vector<uint64_t>& multipliers,
                const std::vector<uint64_t>& tuple_seeds,
                const std::vector<uint32_t>& groups,
                Reserved reserved,
                const std::vector<uint32_t>& buckets,
                IntegerHash integer_hash);
    LayoutOwner(const LayoutOwner&) = delete;
    LayoutOwner& operator=(const LayoutOwner&) = delete;
    const LayoutView& view() const { return view_; }

private:
    void add_sites(const std::vector<std::vector<uint32_t>>& positions,
                   const std::vector<uint64_t>& multipliers,
                   const std::vector<uint64_t>& tuple_seeds,
                   const std::vector<uint32_t>& groups,
                   const std::vector<uint32_t>& buckets);
    void add_tokens();
    void add_integers();
    void add_blocks();

    Reserved reserved_;
    // Of each group, empty where no site of several positions uses it; of integers alone in each
    // group; and of tokens.
    std::vector<Finder> finders_;
    std::vector<FinderView> finder_views_;
    std::vector<Site> sites_;
    std::vector<uint32_t> positions_, used_, block_first_rows_;
    std::vector<std::vector<uint64_t>> integer_entries_;
    std::vector<uint8_t> used_alone_;
    std::vector<uint64_t> checks_, single_words_, block_multipliers_, memo_;
    LayoutView view_{};
};

// A layout that Python and tables share.
class Layout {
public:
    explicit Layout(std::shared_ptr<const LayoutOwner> owner) : owner_(std::move(owner)) {}
    const LayoutView& view() const { return owner_->view(); }
    const std::shared_ptr<const LayoutOwner>& owner() const { return owner_; }

private:
    std::shared_ptr<const LayoutOwner> owner_;
};

}  // namespace hammemo
