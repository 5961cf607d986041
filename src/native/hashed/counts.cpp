#include "counts.hpp"

#include <algorithm>
#include <vector>

#include "scratch.hpp"

namespace hammemo {
namespace {

// Tokens looked up at a time: what is known of them stays in the nearest cache.
constexpr size_t CHUNK = 4096;

}  // namespace

void count_contexts(const Loops& loops,
                    const LayoutView& layout,
                    const Source& source,
                    size_t m,
                    const int32_t* columns,
                    const uint32_t* multiplicity,
                    uint32_t n_labels,
                    uint32_t* cells) {
    ScratchOwner scratch(layout);
    for (size_t begin = 0; begin < m; begin += BLOCK) {
        const size_t end = std::min(m, begin + BLOCK);
        const BlockRows block = loops.rows(layout, source, begin, end, scratch.view());
        for (size_t i = begin; i < end; ++i) {
            const uint32_t* rows = block.rows + (i - begin) * block.context_step;
            const auto column = static_cast<uint32_t>(load_once(columns + i));
            const uint32_t times = multiplicity ? load_once(multiplicity + i) : 1;
            if (column >= n_labels) {
                continue;  // it was checked, but another thread may have changed it since
            }
            // Below 2^32: `HashedMemory._deltas` counts batches of fewer examples here, others in
            // NumPy.
            for (uint32_t k = 0; k < layout.n_sites; ++k) {
                cells[size_t{rows[k * block.site_step]} * n_labels + column] += times;
            }
        }
    }
}

void count_stream(const Loops& loops,
                  const LayoutView& layout,
                  const Source& source,
                  size_t n,
                  const int32_t* columns,
                  uint32_t n_labels,
                  uint32_t* cells) {
    const size_t h = layout.h;
    const bool hashed = by_hash(layout, source);
    TokensOwner window_tokens(CHUNK + h);
    FeaturesOwner features(CHUNK);
    std::vector<uint32_t> rows(CHUNK);
    std::vector<uint32_t> counted(CHUNK + 1);
    std::vector<uint32_t> targets(CHUNK + 1);
    for (size_t begin = 0; begin + h < n; begin += CHUNK) {
        const size_t n_windows = std::min(n - h - begin, CHUNK);
        // Window i starts at token i, so each token is looked up once, however many windows hold
        // it.
        loops.tokens(
            layout, source, begin, 1, n_windows + h - 1, layout.any_alone, window_tokens.view());
        // Collected once, without a branch: whether a window counts cannot be guessed.
        size_t n_counted = 0;
        for (size_t i = 0; i < n_windows; ++i) {
            counted[n_counted] = static_cast<uint32_t>(i);
            targets[n_counted] = static_cast<uint32_t>(
                load_once(columns + begin + h + i));  // -1 is above every column
            n_counted += targets[n_counted] < n_labels;
        }
        for (uint32_t k = 0; k < layout.n_sites; ++k) {
            loops.site_rows(layout,
                            layout.sites[k],
                            hashed,
                            window_tokens.view(),
                            1,
                            n_windows,
                            features.view(),
                            rows.data());
            // Below 2^32: `StreamCounter.is_full` ends a count at 2^31, and one block more is
            // shorter than that.
            for (size_t j = 0; j < n_counted; ++j) {
                ++cells[size_t{rows[counted[j]]} * n_labels + targets[j]];
            }
        }
    }
}

void find_integers(const Loops& loops,
                   const IntegerHash& hash,
                   const FinderView& finder,
                   const Source& source,
                   size_t n,
                   int32_t* out) {
    FeaturesOwner owner(CHUNK);
    const Features features = owner.view();
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        const size_t end = std::min(n, begin + CHUNK);
        loops.hash(hash, source, begin, end, features.hashes, features.present);
        loops.locate(finder, features.hashes, features.present, end - begin, features.words);
        for (size_t i = 0; i < end - begin; ++i) {
            out[begin + i] =
                is_found(features.words[i]) ? static_cast<int32_t>(features.words[i] >> 1) : -1;
        }
    }
}

}  // namespace hammemo
