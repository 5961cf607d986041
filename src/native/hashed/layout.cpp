#include "layout_owner.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace hammemo {
namespace {

void require(bool condition, const char* message) {
    if (!condition) {
        throw std::invalid_argument(message);
    }
}

void require_ascending(const std::vector<uint64_t>& hashes) {
    for (size_t i = 1; i < hashes.size(); ++i) {
        require(hashes[i - 1] < hashes[i], "reserved hashes must be ascending and distinct");
    }
    require(hashes.size() < (size_t{1} << 30), "too many reserved hashes");
}

}  // namespace

Finder::Finder(std::vector<uint64_t> ascending, std::vector<uint32_t> numbers)
    : sorted_(std::move(ascending)), sorted_numbers_(std::move(numbers)) {
    require_ascending(sorted_);
    const size_t n = sorted_.size();
    if (sorted_numbers_.empty()) {
        sorted_numbers_.resize(n);
        std::iota(sorted_numbers_.begin(), sorted_numbers_.end(), 0U);
    }
    require(sorted_numbers_.size() == n, "one number for each hash");
    // More room makes displacements easier to find; words chosen to defeat them are searched by
    // halving instead.
    for (size_t room = n + n / 4 + 1; n > 0 && room <= 16 * n + 16; room *= 2) {
        if (place(room)) {
            return;
        }
    }
    words_.clear();
}

bool Finder::place(size_t slots) {
    const size_t n = sorted_.size();
    size_t groups = 1;
    while (groups < n / 2) {
        groups *= 2;
    }
    std::vector<uint32_t> starts(groups + 1, 0);
    std::vector<uint32_t> members(n);
    std::vector<uint32_t> order(groups);  // the members of each group, one after another
    for (const uint64_t hash : sorted_) {
        ++starts[(hash & (groups - 1)) + 1];
    }
    if (*std::max_element(starts.begin(), starts.end()) > 64) {
        return false;  // no accident: a random group has two members
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < n; ++i) {
        members[next[sorted_[i] & (groups - 1)]++] = static_cast<uint32_t>(i);
    }
    const auto size_of = [&](uint32_t group) { return starts[group + 1] - starts[group]; };
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return size_of(a) > size_of(b);
    });

    words_.assign(slots, sorted_[0]);
    numbers_.assign(slots, sorted_numbers_[0]);
    displacements_.assign(groups, 0);
    std::vector<bool> is_taken(slots, false);
    std::vector<uint32_t> slots_of_group;
    for (const uint32_t group : order) {
        const uint32_t* first = members.data() + starts[group];
        const uint32_t* last = members.data() + starts[group + 1];
        bool is_placed = first == last;
        for (uint64_t attempt = 0; !is_placed && attempt < 65536; ++attempt) {
            const uint64_t displacement = attempt * GOLDEN_STEP;
            slots_of_group.clear();
            is_placed = true;
            for (const uint32_t* i = first; i < last; ++i) {
                const uint32_t slot =
                    FinderView::slot_of(sorted_[*i], displacement, static_cast<uint32_t>(slots));
                if (is_taken[slot] ||
                    std::find(slots_of_group.begin(), slots_of_group.end(), slot) !=
                        slots_of_group.end()) {
                    is_placed = false;
                    break;
                }
                slots_of_group.push_back(slot);
            }
            if (!is_placed) {
                continue;
            }
            displacements_[group] = displacement;
            for (size_t j = 0; j < slots_of_group.size(); ++j) {
                is_taken[slots_of_group[j]] = true;
                words_[slots_of_group[j]] = sorted_[first[j]];
                numbers_[slots_of_group[j]] = sorted_numbers_[first[j]];
            }
        }
        if (!is_placed) {
            return false;
        }
    }
    // An empty slot holds the smallest word, whose own slot is another one: nothing is found there
    // by mistake. Where the smallest word belongs in that slot it is not empty.
    return true;
}

FinderView Finder::view() const {
    FinderView view{};
    view.sorted = sorted_.data();
    view.sorted_numbers = sorted_numbers_.data();
    view.size = static_cast<uint32_t>(sorted_.size());
    if (!words_.empty()) {
        view.words = words_.data();
        view.numbers = numbers_.data();
        view.displacements = displacements_.data();
        view.slots = static_cast<uint32_t>(words_.size());
        view.group_mask = static_cast<uint32_t>(displacements_.size() - 1);
    }
    return view;
}

LayoutOwner::LayoutOwner(uint32_t h,
                         const std::vector<std::vector<uint32_t>>& positions,
                         const std::vector<uint64_t>& multipliers,
                         const std::vector<uint64_t>& tuple_seeds,
                         const std::vector<uint32_t>& groups,
                         Reserved reserved,
                         const std::vector<uint32_t>& buckets,
                         IntegerHash integer_hash)
    : reserved_(std::move(reserved)) {
    const size_t n_sites = positions.size();
    require(h > 0 && n_sites > 0 && h <= MAX_WIDTH && n_sites <= MAX_WIDTH,
            "h or sites out of range");
    require(multipliers.size() == n_sites && tuple_seeds.size() == n_sites &&
                groups.size() == n_sites && buckets.size() == n_sites,
            "one multiplier, tuple seed, group and number of buckets is needed for each site");
    require(reserved_.entries.size() == reserved_.hashes.size(),
            "one list of entries is needed for each group");
    view_.h = h;
    view_.n_sites = static_cast<uint32_t>(n_sites);
    view_.integer_hash = integer_hash;
    add_sites(positions, multipliers, tuple_seeds, groups, buckets);
    add_tokens();
    if (!view_.checks) {
        add_integers();
    }
    for (const Finder& finder : finders_) {
        finder_views_.push_back(finder.view());
    }
    const size_t n_groups = reserved_.hashes.size();
    view_.finders = finder_views_.data();
    view_.tokens = finder_views_[n_groups];
    if (!view_.checks) {
        view_.single_integers = finder_views_[n_groups + 1];
    }
    add_blocks();
}

void LayoutOwner::add_sites(const std::vector<std::vector<uint32_t>>& positions,
                            const std::vector<uint64_t>& multipliers,
                            const std::vector<uint64_t>& tuple_seeds,
                            const std::vector<uint32_t>& groups,
                            const std::vector<uint32_t>& buckets) {
    std::vector<bool> has_tuples(reserved_.hashes.size(), false);
    std::vector<bool> is_compared(view_.h, false);
    used_alone_.assign(view_.h, 0);
    uint64_t next_row = 0;
    for (size_t k = 0; k < positions.size(); ++k) {
        require(!positions[k].empty() && groups[k] < reserved_.hashes.size(), "a site is empty");
        require(buckets[k] > 0, "at least one bucket is needed");
        for (const uint32_t position : positions[k]) {
            require(position < view_.h, "a site names a position outside the context");
            is_compared[position] = true;
        }
        const auto& entries = reserved_.entries[groups[k]];
        const size_t n_own = reserved_.hashes[groups[k]].size();
        const size_t length = positions[k].size();
        require(length == 1 || entries.size() == n_own * length,
                "a reserved tuple has one entry for each position");
        if (length > 1) {
            has_tuples[groups[k]] = true;
        } else {
            used_alone_[positions[k][0]] = 1;
            view_.any_alone = true;
        }
        sites_.push_back({static_cast<uint32_t>(positions_.size()),
                          static_cast<uint32_t>(length),
                          static_cast<uint32_t>(next_row),
                          static_cast<uint32_t>(n_own),
                          buckets[k],
                          groups[k],
                          multipliers[k] | 1,
                          tuple_seeds[k],
                          length > 1 && n_own ? entries.data() : nullptr,
                          0,
                          nullptr});
        positions_.insert(positions_.end(), positions[k].begin(), positions[k].end());
        next_row += n_own + buckets[k];
        require(next_row < UINT32_MAX, "the tables have too many rows");
    }
    for (uint32_t r = 0; r < view_.h; ++r) {
        if (is_compared[r]) {
            used_.push_back(r);
        }
    }
    for (size_t group = 0; group < reserved_.hashes.size(); ++group) {
        require_ascending(reserved_.hashes[group]);
        finders_.emplace_back(has_tuples[group] ? reserved_.hashes[group]
                                                : std::vector<uint64_t>{});
    }
    view_.empty_row = static_cast<uint32_t>(next_row);
    view_.sites = sites_.data();
    view_.positions = positions_.data();
    view_.used = used_.data();
    view_.used_alone = used_alone_.data();
    view_.n_used = static_cast<uint32_t>(used_.size());
}

void LayoutOwner::add_tokens() {
    const auto& rows = reserved_.single_rows;
    require(rows.size() < (size_t{1} << 30), "too many reserved tokens");
    require(reserved_.token_places.size() == reserved_.token_hashes.size(),
            "one place for each token");
    for (const uint32_t place : reserved_.token_places) {
        require(place < rows.size(), "a place is not in the list");
    }
    for (const Site& site : sites_) {
        for (const uint32_t row : rows) {
            require(site.n_positions > 1 || row == MISSING || row < site.n_own,
                    "a token has no row at a site");
        }
    }
    view_.n_places = static_cast<uint32_t>(rows.size());
    bool is_mapped = false;
    for (size_t place = 0; place < rows.size(); ++place) {
        is_mapped |= rows[place] != place;
        single_words_.push_back(rows[place] == MISSING ? MISSING_WORD : uint64_t{rows[place]} << 1);
    }
    view_.single_words = is_mapped ? single_words_.data() : nullptr;
    const auto& checks = reserved_.token_checks;
    require(checks.empty() || checks.size() == 2 * reserved_.token_places.size(),
            "two words confirm a token");
    checks_.assign(checks.empty() ? 0 : 2 * rows.size(), 0);
    for (size_t i = 0; i < checks.size(); ++i) {
        checks_[2 * size_t{reserved_.token_places[i / 2]} + i % 2] = checks[i];
    }
    view_.checks = checks_.empty() ? nullptr : checks_.data();
    finders_.emplace_back(reserved_.token_hashes, reserved_.token_places);
}

// What integers are looked up in where their hashes identify them.
void LayoutOwner::add_integers() {
    std::vector<uint64_t> hashes;
    std::vector<uint64_t> hash_of(view_.n_places, 0);
    std::vector<uint32_t> rows;
    std::vector<bool> is_integer(view_.n_places, false);
    for (size_t i = 0; i < reserved_.token_hashes.size(); ++i) {
        const uint32_t place = reserved_.token_places[i];
        hash_of[place] = reserved_.token_hashes[i];
        is_integer[place] = true;
        if (reserved_.single_rows[place] == MISSING) {
            continue;
        }
        hashes.push_back(reserved_.token_hashes[i]);
        rows.push_back(reserved_.single_rows[place]);
    }
    finders_.emplace_back(std::move(hashes), std::move(rows));
    integer_entries_.resize(sites_.size());
    for (size_t k = 0; k < sites_.size(); ++k) {
        Site& site = sites_[k];
        site.integer_finder = site.finder;
        if (!site.entries) {
            continue;
        }
        std::vector<uint64_t> tuples;
        std::vector<uint32_t> numbers;
        auto& entries = integer_entries_[k];
        for (uint32_t row = 0; row < site.n_own; ++row) {
            bool integers = true;
            for (uint32_t j = 0; j < site.n_positions; ++j) {
                const uint64_t place = site.entries[size_t{row} * site.n_positions + j] / 2;
                const bool integer = place < view_.n_places && is_integer[place];
                entries.push_back(integer ? hash_of[place] : 0);
                integers &= integer;
            }
            if (integers) {
                tuples.push_back(reserved_.hashes[site.finder][row]);
                numbers.push_back(row);
            }
        }
        site.integer_entries = entries.data();
        if (tuples.size() == site.n_own) {
            continue;  // the same set
        }
        site.integer_finder = static_cast<uint32_t>(finders_.size());
        finders_.emplace_back(std::move(tuples), std::move(numbers));
    }
}

void LayoutOwner::add_blocks() {
    for (uint32_t k = 0; k < view_.n_sites; ++k) {
        if (view_.single_words || view_.n_sites != view_.h || sites_[k].n_positions != 1 ||
            positions_[k] != k || sites_[k].n_own != sites_[0].n_own ||
            sites_[k].buckets != sites_[0].buckets) {
            return;
        }
    }
    for (size_t i = 0; i < BLOCK * view_.h; ++i) {
        block_multipliers_.push_back(sites_[i % view_.h].multiplier);
        block_first_rows_.push_back(sites_[i % view_.h].first_row);
    }
    for (uint64_t token = 0; token < MEMO; ++token) {
        const uint64_t hash = view_.integer_hash(token);
        memo_.push_back(view_.confirm_token(view_.tokens.locate(hash), hash, token));
    }
    view_.memo = memo_.data();
    view_.memo_size = memo_.size();
    view_.block_multipliers = block_multipliers_.data();
    view_.block_first_rows = block_first_rows_.data();
}

}  // namespace hammemo
