// The loops themselves, written over what the including file defines for its instruction set: for each pair (Row, Sum)
// of number types a struct `Vector<Row, Sum>` with LANES, `load_row`, `load_sum`, `store`, `add`, `max`, `highest` (of all
// lanes) and `first_equal` (the first lane that holds a value, or a number of at least LANES); and the functions `locate`,
// `place`, `place_block` and `recall` (the words of tokens that all are in the memo, or false).

namespace hammemo {
namespace {

void hash_in_place(const IntegerHash& hash, uint64_t* words, size_t n) {
    if (hash.keyed) {
        for (size_t i = 0; i < n; ++i) words[i] = siphash(words[i], hash.first, hash.second);
    } else {
        const uint64_t first = hash.first, second = hash.second;
        for (size_t i = 0; i < n; ++i) words[i] = mix(words[i] ^ first) ^ second;
    }
}

// Hash every stride-th token from `first` on, n of them.
template <class Token>
void hash_integers(const IntegerHash& hash, const Token* first, size_t stride, size_t n, uint64_t* hashes,
                   uint8_t* present) {
    for (size_t i = 0; i < n; ++i) hashes[i] = static_cast<uint64_t>(int64_t{load_once(first + i * stride)});
    for (size_t i = 0; i < n; ++i) present[i] = hashes[i] != static_cast<uint64_t>(NO_TOKEN);
    hash_in_place(hash, hashes, n);
}

void hash_strided(const IntegerHash& integer_hash, const Source& source, size_t first, size_t stride, size_t n, uint64_t* hashes,
                  uint8_t* present) {
    if (source.kind == Source::INT64) {
        hash_integers(integer_hash, static_cast<const int64_t*>(source.data) + first, stride, n, hashes, present);
    } else if (source.kind == Source::INT32) {
        hash_integers(integer_hash, static_cast<const int32_t*>(source.data) + first, stride, n, hashes, present);
    } else {
        const int64_t* ranks = static_cast<const int64_t*>(source.data) + first;
        for (size_t i = 0; i < n; ++i) {
            const auto rank = static_cast<uint64_t>(load_once(ranks + i * stride));  // -1 is above every bound
            present[i] = rank < source.n_hashes;
            hashes[i] = rank < source.n_hashes ? load_once(source.hashes + rank) : 0;
        }
    }
}

void hash(const IntegerHash& integer_hash, const Source& source, size_t begin, size_t end, uint64_t* hashes,
          uint8_t* present) {
    hash_strided(integer_hash, source, begin, 1, end - begin, hashes, present);
}

// What a site of several positions holds: the hashes of its tokens, folded.
void fold(const LayoutView& layout, const Site& site, const Scratch& scratch, uint64_t* hashes, uint8_t* present) {
    for (size_t i = 0; i < BLOCK; ++i) hashes[i] = site.tuple_seed, present[i] = 1;
    for (uint32_t j = 0; j < site.n_positions; ++j) {
        const size_t at = layout.positions[site.first_position + j] * BLOCK;
        for (size_t i = 0; i < BLOCK; ++i) hashes[i] = mix(hashes[i] ^ scratch.hashes[at + i]);
        for (size_t i = 0; i < BLOCK; ++i) present[i] &= scratch.present[at + i];
    }
}

// The words of the integer tokens [first, first + n), if the memo has them all.
bool recalled(const LayoutView& layout, const Source& source, size_t first, size_t n, uint64_t* words) {
    if (!layout.memo || source.kind == Source::RANKS) return false;
    if (source.kind == Source::INT64) return recall(layout, static_cast<const int64_t*>(source.data) + first, n, words);
    return recall(layout, static_cast<const int32_t*>(source.data) + first, n, words);
}

BlockRows rows(const LayoutView& layout, const Source& source, size_t begin, size_t end, const Scratch& scratch) {
    if (layout.block_multipliers) {
        const size_t first = begin * layout.h, n = (end - begin) * layout.h;
        if (!recalled(layout, source, first, n, scratch.words)) {
            hash_strided(layout.integer_hash, source, first, 1, n, scratch.hashes, scratch.present);
            locate(layout.finders[0], scratch.hashes, scratch.present, n, scratch.words);
        }
        place_block(layout, scratch.words, n, scratch.rows);
        return {scratch.rows, layout.h, 1};
    }
    const size_t n = end - begin;
    for (uint32_t r = 0; r < layout.h; ++r)
        hash_strided(layout.integer_hash, source, begin * layout.h + r, layout.h, n, scratch.hashes + r * BLOCK,
                     scratch.present + r * BLOCK);
    uint64_t folded[BLOCK];
    uint8_t complete[BLOCK];
    uint64_t words[BLOCK];
    for (uint32_t k = 0; k < layout.n_sites; ++k) {
        const Site& site = layout.sites[k];
        const size_t at = layout.positions[site.first_position] * BLOCK;
        const uint64_t* hashes = scratch.hashes + at;
        const uint8_t* present = scratch.present + at;
        if (site.n_positions > 1) {
            fold(layout, site, scratch, folded, complete);
            hashes = folded, present = complete;
        }
        locate(layout.finders[site.finder], hashes, present, n, words);
        place(layout, site, words, n, scratch.rows + k * BLOCK);
    }
    return {scratch.rows, 1, BLOCK};
}

// Sum U vectors of columns over the rows of one context. Where the number of sites is known when this is compiled (SITES,
// zero if not) the loop is unrolled.
template <class V, int U, uint32_t SITES>
inline void gather(const TableView& table, const BlockRows& rows, uint32_t n_sites, uint32_t column,
                   typename V::Register (&sums)[U]) {
    const auto* values = static_cast<const typename V::Row*>(table.values) + column;
    const auto* base = static_cast<const typename V::Sum*>(table.base) + column;
    for (int u = 0; u < U; ++u) sums[u] = V::load_sum(base + u * V::LANES);
    const uint32_t last = SITES ? SITES : n_sites;
    for (uint32_t k = 0; k < last; ++k) {
        const auto* row = values + size_t{rows.rows[k * rows.site_step]} * table.stride;
        for (int u = 0; u < U; ++u) sums[u] = V::add(sums[u], V::load_row(row + u * V::LANES));
    }
}

template <class V>
struct Best {
    typename V::Sum value;
    int32_t column;
};

template <class V, int U, uint32_t SITES>
inline void update(const TableView& table, const BlockRows& rows, uint32_t n_sites, uint32_t column, Best<V>& best) {
    typename V::Register sums[U];
    gather<V, U, SITES>(table, rows, n_sites, column, sums);
    typename V::Register top = sums[0];
    for (int u = 1; u < U; ++u) top = V::max(top, sums[u]);
    const typename V::Sum highest = V::highest(top);
    if (best.column >= 0 && !(highest > best.value)) return;
    best.value = highest;
    for (int u = U - 1; u >= 0; --u) {  // the first one comes last and stays; nobody can guess where it is: no branch
        const int lane = V::first_equal(sums[u], highest);
        best.column = lane < V::LANES ? static_cast<int32_t>(column) + u * V::LANES + lane : best.column;
    }
}

template <class V, uint32_t SITES>
inline int32_t winner(const TableView& table, const BlockRows& rows, uint32_t n_sites) {
    Best<V> best{0, -1};
    uint32_t column = 0;
    for (; column + 4 * V::LANES <= table.stride; column += 4 * V::LANES)
        update<V, 4, SITES>(table, rows, n_sites, column, best);
    switch ((table.stride - column) / V::LANES) {
        case 3: update<V, 3, SITES>(table, rows, n_sites, column, best); break;
        case 2: update<V, 2, SITES>(table, rows, n_sites, column, best); break;
        case 1: update<V, 1, SITES>(table, rows, n_sites, column, best); break;
        default: break;
    }
    return best.column;
}

template <class V>
void sums_of(const TableView& table, const BlockRows& rows, uint32_t n_sites, void* out) {
    auto* target = static_cast<typename V::Sum*>(out);
    for (uint32_t column = 0; column < table.stride; column += V::LANES) {
        typename V::Register sums[1];
        gather<V, 1, 0>(table, rows, n_sites, column, sums);
        V::store(target + column, sums[0]);
    }
}

// Where each label has a divisor, the quotients are compared, as the vote defines them.
template <class V>
int32_t divided_winner(const TableView& table, const BlockRows& rows, uint32_t n_sites) {
    double best = 0;
    int32_t column = -1;
    for (uint32_t start = 0; start < table.stride; start += V::LANES) {
        typename V::Sum lanes[V::LANES];
        typename V::Register sums[1];
        gather<V, 1, 0>(table, rows, n_sites, start, sums);
        V::store(lanes, sums[0]);
        for (int lane = 0; lane < V::LANES && start + lane < table.n_labels; ++lane) {
            const double score = static_cast<double>(lanes[lane]) * table.scale / table.divisor[start + lane];
            if (column < 0 || score > best) best = score, column = static_cast<int32_t>(start) + lane;
        }
    }
    return column;
}

template <class V, uint32_t SITES>
void winners_of_block(const TableView& table, BlockRows found, size_t n, uint32_t n_sites, int32_t* out) {
    for (size_t q = 0; q < n; ++q, found.rows += found.context_step) out[q] = winner<V, SITES>(table, found, n_sites);
}

template <class V>
void winners_of(const LayoutView& layout, const TableView& table, const Source& source, size_t begin, size_t end,
                const Scratch& scratch, int32_t* out) {
    const uint32_t n_sites = layout.n_sites;
    for (size_t i = begin; i < end; i += BLOCK) {
        const size_t n = i + BLOCK < end ? BLOCK : end - i;
        BlockRows found = rows(layout, source, i, i + n, scratch);
        if (table.divisor) {
            for (size_t q = 0; q < n; ++q, found.rows += found.context_step)
                out[i + q] = divided_winner<V>(table, found, n_sites);
        } else if (n_sites == 4) {
            winners_of_block<V, 4>(table, found, n, n_sites, out + i);
        } else if (n_sites == 8) {
            winners_of_block<V, 8>(table, found, n, n_sites, out + i);
        } else {
            winners_of_block<V, 0>(table, found, n, n_sites, out + i);
        }
    }
}

void winners(const LayoutView& layout, const TableView& table, const Source& source, size_t begin, size_t end,
             const Scratch& scratch, int32_t* out) {
    if (table.row == Number::FLOAT64) winners_of<Vector<double, double>>(layout, table, source, begin, end, scratch, out);
    else if (table.row == Number::INT32) winners_of<Vector<int32_t, int32_t>>(layout, table, source, begin, end, scratch, out);
    else if (table.sum == Number::INT32) winners_of<Vector<int16_t, int32_t>>(layout, table, source, begin, end, scratch, out);
    else winners_of<Vector<int16_t, int16_t>>(layout, table, source, begin, end, scratch, out);
}

void sums(const TableView& table, const BlockRows& block, uint32_t n_sites, size_t i, void* out) {
    const BlockRows rows{block.rows + i * block.context_step, 0, block.site_step};
    if (table.row == Number::FLOAT64) sums_of<Vector<double, double>>(table, rows, n_sites, out);
    else if (table.row == Number::INT32) sums_of<Vector<int32_t, int32_t>>(table, rows, n_sites, out);
    else if (table.sum == Number::INT32) sums_of<Vector<int16_t, int32_t>>(table, rows, n_sites, out);
    else sums_of<Vector<int16_t, int16_t>>(table, rows, n_sites, out);
}

}  // namespace
}  // namespace hammemo
