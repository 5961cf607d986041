#include "site_scan.hpp"

#include <cmath>
#include <utility>

#include "../hashes.hpp"

namespace hammemo {
namespace {

constexpr int32_t NOWHERE = -1;  // the cell of a row with an empty position, which says nothing

// Numbers the keys from 0 in the order in which they come; returns how many there are.
class Renumbering {
public:
    size_t apply(std::vector<int64_t>& keys, int64_t size) {
        const bool direct = size <= static_cast<int64_t>(8 * keys.size() + 1024);
        return direct ? by_table(keys, size) : by_hash(keys);
    }

private:
    size_t by_table(std::vector<int64_t>& keys, int64_t size) {
        numbers_.assign(static_cast<size_t>(size), NOWHERE);
        int32_t next = 0;
        for (int64_t& key : keys) {
            if (key < 0) {
                continue;
            }
            int32_t& number = numbers_[static_cast<size_t>(key)];
            if (number < 0) {
                number = next++;
            }
            key = number;
        }
        return static_cast<size_t>(next);
    }

    size_t by_hash(std::vector<int64_t>& keys) {
        size_t bits = 4;
        while ((size_t{1} << bits) < 2 * keys.size()) {
            ++bits;
        }
        const size_t mask = (size_t{1} << bits) - 1;
        numbers_.assign(mask + 1, NOWHERE);
        held_.resize(mask + 1);
        int32_t next = 0;
        for (int64_t& key : keys) {
            if (key < 0) {
                continue;
            }
            size_t slot = (static_cast<uint64_t>(key) * GOLDEN_STEP) >> (64 - bits);
            while (numbers_[slot] >= 0 && held_[slot] != key) {
                slot = (slot + 1) & mask;
            }
            if (numbers_[slot] < 0) {
                numbers_[slot] = next++;
                held_[slot] = key;
            }
            key = numbers_[slot];
        }
        return static_cast<size_t>(next);
    }

    std::vector<int32_t> numbers_;
    std::vector<int64_t> held_;
};

struct Entry {  // a label with examples in a cell
    int32_t label;
    int32_t count;
};

}  // namespace

struct SiteScan::Scratch {
    std::vector<int64_t> keys;  // the cell of each example
    Renumbering renumbering;
    std::vector<int32_t> starts, members, entry_of;
    std::vector<Entry> entries;
};

SiteScan::SiteScan(std::vector<int32_t> codes,
                   std::vector<int32_t> sizes,
                   std::vector<int32_t> labels,
                   const std::vector<double>& prior,
                   const double* amounts,
                   size_t n)
    : codes_(std::move(codes)),
      sizes_(std::move(sizes)),
      labels_(std::move(labels)),
      n_(n),
      n_labels_(prior.size()) {
    std::vector<int64_t> examples(n_labels_, 0);
    for (size_t i = 0; i < n_; ++i) {
        ++examples[static_cast<size_t>(labels_[i])];
    }
    table_ = std::make_shared<const RatioTable>(prior, amounts, examples);
}

// Fills the cell of each of the first n examples, and returns how many cells there are.
size_t SiteScan::join(const std::vector<int32_t>& site, size_t n, Scratch& scratch) const {
    std::vector<int64_t>& keys = scratch.keys;
    keys.assign(n, 0);
    int64_t size = 1;
    for (int32_t column : site) {
        const int64_t width = sizes_[static_cast<size_t>(column)];
        if (size > static_cast<int64_t>(n)) {
            size = static_cast<int64_t>(scratch.renumbering.apply(keys, size));
        }
        const int32_t* codes = codes_.data() + static_cast<size_t>(column) * n_all();
        for (size_t i = 0; i < n; ++i) {
            keys[i] = keys[i] < 0 || codes[i] < 0 ? NOWHERE : keys[i] * width + codes[i];
        }
        size *= width;  // at most examples times values: below 2^62
    }
    return size > static_cast<int64_t>(n) ? scratch.renumbering.apply(keys, size)
                                          : static_cast<size_t>(size);
}

// Puts the counted examples of each cell behind one another: those of a cell from starts[cell] to
// starts[cell + 1].
void SiteScan::sort_members(size_t cells, Scratch& scratch) const {
    std::vector<int32_t>& starts = scratch.starts;
    std::vector<int32_t>& members = scratch.members;
    starts.assign(cells + 1, 0);
    for (size_t i = 0; i < n(); ++i) {
        if (scratch.keys[i] >= 0) {
            ++starts[static_cast<size_t>(scratch.keys[i]) + 1];
        }
    }
    for (size_t cell = 0; cell < cells; ++cell) {
        starts[cell + 1] += starts[cell];
    }
    members.resize(static_cast<size_t>(starts[cells]));
    for (size_t i = n(); i-- > 0;) {
        if (scratch.keys[i] >= 0) {
            members[static_cast<size_t>(--starts[static_cast<size_t>(scratch.keys[i]) + 1])] =
                static_cast<int32_t>(i);
        }
    }
    starts.erase(starts.begin());
    starts.push_back(static_cast<int32_t>(members.size()));
}

// Fills the labels of a cell, in the order in which they come, and how many examples each has;
// entry_of: where each label is.
void SiteScan::count_labels(const int32_t* first, const int32_t* last, Scratch& scratch) const {
    for (const Entry& entry : scratch.entries) {
        scratch.entry_of[static_cast<size_t>(entry.label)] = NOWHERE;  // of the cell before
    }
    scratch.entries.clear();
    for (const int32_t* i = first; i < last; ++i) {
        const int32_t label = labels_[static_cast<size_t>(*i)];
        int32_t& entry = scratch.entry_of[static_cast<size_t>(label)];
        if (entry < 0) {
            entry = static_cast<int32_t>(scratch.entries.size());
            scratch.entries.push_back({label, 0});
        }
        ++scratch.entries[static_cast<size_t>(entry)].count;
    }
}

void SiteScan::sort_by(const std::vector<int32_t>& site,
                       std::vector<int32_t>& members,
                       std::vector<int32_t>& starts) const {
    Scratch scratch;
    const size_t cells = join(site, n(), scratch);
    sort_members(cells, scratch);
    members.swap(scratch.members);
    starts.swap(scratch.starts);
}

size_t SiteScan::cells(const std::vector<int32_t>& site, int32_t* out) const {
    Scratch scratch;
    const size_t cells = join(site, n_all(), scratch);
    const size_t n_cells = scratch.renumbering.apply(scratch.keys, static_cast<int64_t>(cells));
    for (size_t i = 0; i < n_all(); ++i) {
        out[i] = static_cast<int32_t>(scratch.keys[i]);
    }
    return n_cells;
}

void SiteScan::add_to(LogRatios& ratios,
                      const std::vector<int32_t>& site,
                      const std::vector<int32_t>& rows) const {
    Scratch scratch;
    const size_t cells = join(site, n_all(), scratch);
    sort_members(cells, scratch);
    scratch.entry_of.assign(n_labels(), NOWHERE);
    std::vector<int64_t> starts{0};
    std::vector<int64_t> counts;
    std::vector<int32_t> labels;
    std::vector<int32_t> cell_of(rows.size());
    for (size_t cell = 0; cell < cells; ++cell) {
        count_labels(scratch.members.data() + scratch.starts[cell],
                     scratch.members.data() + scratch.starts[cell + 1],
                     scratch);
        for (const Entry& entry : scratch.entries) {
            labels.push_back(entry.label);
            counts.push_back(entry.count);
        }
        starts.push_back(static_cast<int64_t>(labels.size()));
    }
    for (size_t r = 0; r < rows.size(); ++r) {
        cell_of[r] = static_cast<int32_t>(scratch.keys[static_cast<size_t>(rows[r])]);
    }
    ratios.add(cell_of.data(), starts, labels.data(), counts.data());
}

}  // namespace hammemo
