#include "counts.hpp"

#include <algorithm>

#include "scratch.hpp"

namespace hammemo {
namespace {

constexpr size_t CHUNK = 4096;  // tokens looked up at a time: what is known of them stays in the nearest cache

// What is known of a chunk of a stream's tokens.
struct Chunk {
    std::vector<uint64_t> hashes, words, folded;
    std::vector<uint8_t> present, complete;
    std::vector<uint32_t> rows;
    uint32_t finder = MISSING;  // the set in which `words` were located

    explicit Chunk(size_t room) : hashes(room), words(room), folded(room), present(room), complete(room), rows(room) {}
};

// The rows of one site for the windows of a chunk: window i starts at token i. Sites of one position look for a token in
// the same set, so each token is looked for once, however many windows hold it.
void site_rows(const Loops& loops, const LayoutView& layout, const Site& site, size_t n_windows, Chunk& chunk) {
    const uint32_t* at = layout.positions + site.first_position;
    const FinderView& finder = layout.finders[site.finder];
    if (site.n_positions == 1) {
        if (chunk.finder != site.finder)
            loops.locate(finder, chunk.hashes.data(), chunk.present.data(), n_windows + layout.h - 1, chunk.words.data());
        chunk.finder = site.finder;
        loops.place(layout, site, chunk.words.data() + at[0], n_windows, chunk.rows.data());
        return;
    }
    std::fill_n(chunk.folded.begin(), n_windows, site.tuple_seed);
    std::fill_n(chunk.complete.begin(), n_windows, uint8_t{1});
    for (uint32_t j = 0; j < site.n_positions; ++j)
        for (size_t i = 0; i < n_windows; ++i) {
            chunk.folded[i] = mix(chunk.folded[i] ^ chunk.hashes[i + at[j]]);
            chunk.complete[i] &= chunk.present[i + at[j]];
        }
    loops.locate(finder, chunk.folded.data(), chunk.complete.data(), n_windows, chunk.words.data());
    chunk.finder = MISSING;  // `words` are about tuples now
    loops.place(layout, site, chunk.words.data(), n_windows, chunk.rows.data());
}

}  // namespace

void count_contexts(const Loops& loops, const LayoutView& layout, const Source& source, size_t m, const int32_t* columns,
                    const uint32_t* multiplicity, uint32_t n_labels, uint32_t* cells) {
    ScratchOwner scratch(layout);
    for (size_t begin = 0; begin < m; begin += BLOCK) {
        const size_t end = std::min(m, begin + BLOCK);
        const BlockRows found = loops.rows(layout, source, begin, end, scratch.view());
        for (size_t i = begin; i < end; ++i) {
            const uint32_t* rows = found.rows + (i - begin) * found.context_step;
            const auto column = static_cast<uint32_t>(load_once(columns + i));
            const uint32_t times = multiplicity ? load_once(multiplicity + i) : 1;
            if (column >= n_labels) continue;  // it was checked, but another thread may have changed it since
            for (uint32_t k = 0; k < layout.n_sites; ++k) cells[size_t{rows[k * found.site_step]} * n_labels + column] += times;
        }
    }
}

void count_stream(const Loops& loops, const LayoutView& layout, const Source& source, size_t n, const int32_t* columns,
                  uint32_t n_labels, uint32_t* cells) {
    const size_t h = layout.h;
    Chunk chunk(CHUNK + h);
    std::vector<uint32_t> chosen(CHUNK + 1), targets(CHUNK + 1);
    for (size_t begin = 0; begin + h < n; begin += CHUNK) {
        const size_t n_windows = std::min(n - h - begin, CHUNK);
        loops.hash(layout.integer_hash, source, begin, begin + n_windows + h - 1, chunk.hashes.data(), chunk.present.data());
        chunk.finder = MISSING;
        size_t n_chosen = 0;  // collected once, without a branch: whether a window counts cannot be guessed
        for (size_t i = 0; i < n_windows; ++i) {
            chosen[n_chosen] = static_cast<uint32_t>(i);
            targets[n_chosen] = static_cast<uint32_t>(load_once(columns + begin + h + i));  // -1 is above every column
            n_chosen += targets[n_chosen] < n_labels;
        }
        for (uint32_t k = 0; k < layout.n_sites; ++k) {
            site_rows(loops, layout, layout.sites[k], n_windows, chunk);
            for (size_t j = 0; j < n_chosen; ++j)
                ++cells[size_t{chunk.rows[chosen[j]]} * n_labels + targets[j]];
        }
    }
}

void find_integers(const Loops& loops, const IntegerHash& hash, const FinderView& finder, const Source& source, size_t n,
                   int32_t* out) {
    Chunk chunk(CHUNK);
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        const size_t end = std::min(n, begin + CHUNK);
        loops.hash(hash, source, begin, end, chunk.hashes.data(), chunk.present.data());
        loops.locate(finder, chunk.hashes.data(), chunk.present.data(), end - begin, chunk.words.data());
        for (size_t i = 0; i < end - begin; ++i) {
            const bool member = !(chunk.words[i] & 1) && chunk.words[i] != ABSENT;
            out[begin + i] = member ? static_cast<int32_t>(chunk.words[i] >> 1) : -1;
        }
    }
}

}  // namespace hammemo
