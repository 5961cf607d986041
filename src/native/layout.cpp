#include "layout_owner.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace hammemo {

Finder::Finder(std::vector<uint64_t> ascending) : sorted_(std::move(ascending)) {
    for (size_t i = 1; i < sorted_.size(); ++i)
        if (sorted_[i - 1] >= sorted_[i]) throw std::invalid_argument("reserved hashes must be ascending and distinct");
    if (sorted_.size() >= (size_t{1} << 30)) throw std::invalid_argument("too many reserved hashes");
    const size_t n = sorted_.size();
    // More room makes displacements easier to find; words chosen to defeat them are searched by halving instead.
    for (size_t room = n + n / 4 + 1; n > 0 && room <= 16 * n + 16; room *= 2)
        if (place(room)) return;
    words_.clear();
}

bool Finder::place(size_t slots) {
    const size_t n = sorted_.size();
    size_t groups = 1;
    while (groups < n / 2) groups *= 2;
    std::vector<std::vector<uint32_t>> members(groups);
    for (size_t i = 0; i < n; ++i) members[sorted_[i] & (groups - 1)].push_back(static_cast<uint32_t>(i));
    std::vector<uint32_t> order(groups);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return members[a].size() > members[b].size(); });
    if (members[order[0]].size() > 64) return false;  // no accident: a random group has two members

    words_.assign(slots, sorted_[0]);
    ranks_.assign(slots, 0);
    displacements_.assign(groups, 0);
    std::vector<bool> taken(slots, false);
    std::vector<uint32_t> chosen;
    for (const uint32_t group : order) {
        bool placed = members[group].empty();
        for (uint64_t attempt = 0; !placed && attempt < 65536; ++attempt) {
            const uint64_t displacement = attempt * 0x9E3779B97F4A7C15ull;
            chosen.clear();
            placed = true;
            for (const uint32_t i : members[group]) {
                const uint32_t slot = FinderView::slot_of(sorted_[i], displacement, static_cast<uint32_t>(slots));
                if (taken[slot] || std::find(chosen.begin(), chosen.end(), slot) != chosen.end()) {
                    placed = false;
                    break;
                }
                chosen.push_back(slot);
            }
            if (!placed) continue;
            displacements_[group] = displacement;
            for (size_t j = 0; j < chosen.size(); ++j) {
                taken[chosen[j]] = true;
                words_[chosen[j]] = sorted_[members[group][j]];
                ranks_[chosen[j]] = members[group][j];
            }
        }
        if (!placed) return false;
    }
    // An empty slot holds the smallest word, whose own slot is another one: nothing is found there by mistake. Where
    // the smallest word belongs in that slot it is not empty.
    return true;
}

FinderView Finder::view() const {
    FinderView view{};
    view.sorted = sorted_.data();
    view.size = static_cast<uint32_t>(sorted_.size());
    if (!words_.empty()) {
        view.words = words_.data();
        view.ranks = ranks_.data();
        view.displacements = displacements_.data();
        view.slots = static_cast<uint32_t>(words_.size());
        view.group_mask = static_cast<uint32_t>(displacements_.size() - 1);
    }
    return view;
}

Layout::Layout(uint32_t h, const std::vector<std::vector<uint32_t>>& positions, const std::vector<uint64_t>& multipliers,
               const std::vector<uint64_t>& tuple_seeds, const std::vector<uint32_t>& groups,
               std::vector<std::vector<uint64_t>> reserved, const std::vector<uint32_t>& buckets,
               IntegerHash integer_hash) {
    const size_t n_sites = positions.size();
    if (h == 0 || n_sites == 0 || h > MAX_WIDTH || n_sites > MAX_WIDTH) throw std::invalid_argument("h or sites out of range");
    if (multipliers.size() != n_sites || tuple_seeds.size() != n_sites || groups.size() != n_sites || buckets.size() != n_sites)
        throw std::invalid_argument("one multiplier, tuple seed, group and number of buckets is needed for each site");
    for (const uint32_t number : buckets)
        if (number == 0) throw std::invalid_argument("at least one bucket is needed");
    for (auto& words : reserved) finders_.emplace_back(std::move(words));
    for (const Finder& finder : finders_) finder_views_.push_back(finder.view());

    uint64_t next_row = 0;
    for (size_t k = 0; k < n_sites; ++k) {
        if (positions[k].empty() || groups[k] >= finders_.size()) throw std::invalid_argument("a site is empty");
        for (const uint32_t position : positions[k])
            if (position >= h) throw std::invalid_argument("a site names a position outside the context");
        const uint32_t n_own = finder_views_[groups[k]].size;
        sites_.push_back({static_cast<uint32_t>(positions_.size()), static_cast<uint32_t>(positions[k].size()),
                          static_cast<uint32_t>(next_row), n_own, buckets[k], groups[k], multipliers[k] | 1,
                          tuple_seeds[k]});
        positions_.insert(positions_.end(), positions[k].begin(), positions[k].end());
        next_row += uint64_t{n_own} + buckets[k];
        if (next_row >= UINT32_MAX) throw std::invalid_argument("the tables have too many rows");
    }
    view_ = {h, static_cast<uint32_t>(n_sites), static_cast<uint32_t>(next_row), sites_.data(),
             positions_.data(), finder_views_.data(), integer_hash, nullptr, nullptr, nullptr, 0};
    for (uint32_t k = 0; k < n_sites; ++k)
        if (n_sites != h || positions[k].size() != 1 || positions[k][0] != k || groups[k] != 0 || buckets[k] != buckets[0])
            return;
    for (size_t i = 0; i < BLOCK * h; ++i) {
        block_multipliers_.push_back(sites_[i % h].multiplier);
        block_first_rows_.push_back(sites_[i % h].first_row);
    }
    for (uint64_t token = 0; token < MEMO; ++token) memo_.push_back(finder_views_[0].locate(integer_hash(token)));
    view_.memo = memo_.data();
    view_.memo_size = memo_.size();
    view_.block_multipliers = block_multipliers_.data();
    view_.block_first_rows = block_first_rows_.data();
}

}  // namespace hammemo
