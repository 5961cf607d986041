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

// Load every stride-th integer from `first` on, n of them, as 64-bit words.
template <class Token>
void load_integers(const Token* first, size_t stride, size_t n, uint64_t* values, uint8_t* present) {
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<uint64_t>(int64_t{load_once(first + i * stride)});
    for (size_t i = 0; i < n; ++i) present[i] = values[i] != static_cast<uint64_t>(NO_TOKEN);
}

void load_integers(const Source& source, size_t first, size_t stride, size_t n, uint64_t* values, uint8_t* present) {
    if (source.kind == Source::INT64)
        load_integers(static_cast<const int64_t*>(source.data) + first, stride, n, values, present);
    else
        load_integers(static_cast<const int32_t*>(source.data) + first, stride, n, values, present);
}

void hash(const IntegerHash& integer_hash, const Source& source, size_t begin, size_t end, uint64_t* hashes,
          uint8_t* present) {
    load_integers(source, begin, 1, end - begin, hashes, present);
    hash_in_place(integer_hash, hashes, end - begin);
}

void known_tokens(const LayoutView& layout, const Source& source, size_t first, size_t stride, size_t n, const Tokens& out) {
    const int64_t* ranks = static_cast<const int64_t*>(source.data) + first;
    for (size_t i = 0; i < n; ++i) {
        const auto rank = static_cast<uint64_t>(load_once(ranks + i * stride));  // -1 is above every bound
        const bool present = rank < source.n_hashes;
        const uint64_t hash = present ? load_once(source.hashes + rank) : 0;
        const auto place = static_cast<uint32_t>(present ? load_once(source.places + rank) : -1);
        out.present[i] = present;
        out.hashes[i] = hash;
        out.words[i] = !present ? ABSENT : place < layout.n_places ? uint64_t{place} << 1 : hash | 1;
    }
}

void tokens(const LayoutView& layout, const Source& source, size_t first, size_t stride, size_t n, const Tokens& out) {
    if (source.kind == Source::RANKS) return known_tokens(layout, source, first, stride, n, out);
    load_integers(source, first, stride, n, out.hashes, out.present);
    if (layout.checks)
        for (size_t i = 0; i < n; ++i) out.values[i] = out.hashes[i];
    hash_in_place(layout.integer_hash, out.hashes, n);
    locate(layout.tokens, out.hashes, out.present, n, out.words);
    if (layout.checks)
        for (size_t i = 0; i < n; ++i) out.words[i] = layout.confirmed(out.words[i], out.hashes[i], out.values[i]);
}

// What a site of several positions holds: the hashes of its tokens, folded.
void fold(const LayoutView& layout, const Site& site, const Tokens& tokens, size_t step, size_t n, const Features& out) {
    for (size_t i = 0; i < n; ++i) out.hashes[i] = site.tuple_seed, out.present[i] = 1;
    for (uint32_t j = 0; j < site.n_positions; ++j) {
        const size_t at = layout.positions[site.first_position + j] * step;
        for (size_t i = 0; i < n; ++i) out.hashes[i] = mix(out.hashes[i] ^ tokens.hashes[at + i]);
        for (size_t i = 0; i < n; ++i) out.present[i] &= tokens.present[at + i];
    }
}

// Of up to BLOCK tuples that were found by their hashes, compare the places of the tokens; those that differ are not
// reserved. Without a branch: what was not found is compared with the first tuple, in vain.
void confirm(const LayoutView& layout, const Site& site, const uint64_t* words, size_t step, size_t n, const Features& found) {
    uint64_t index[BLOCK], differs[BLOCK];
    for (size_t i = 0; i < n; ++i) {
        const uint64_t word = found.words[i];
        index[i] = is_found(word) ? (word >> 1) * site.n_positions : 0;
        differs[i] = 0;
    }
    for (uint32_t j = 0; j < site.n_positions; ++j) {
        const uint64_t* held = words + layout.positions[site.first_position + j] * step;
        for (size_t i = 0; i < n; ++i) differs[i] |= site.entries[index[i] + j] ^ held[i];
    }
    for (size_t i = 0; i < n; ++i)
        found.words[i] = is_found(found.words[i]) && differs[i] ? found.hashes[i] | 1 : found.words[i];
}

// From places in the list of tokens to rows at sites of one position.
void single_words(const LayoutView& layout, const uint64_t* words, const uint64_t* hashes, size_t n, uint64_t* out) {
    for (size_t i = 0; i < n; ++i) {
        const uint64_t single = is_found(words[i]) ? layout.single_words[words[i] >> 1] : words[i];
        out[i] = single == MISSING_WORD ? hashes[i] | 1 : single;
    }
}

void site_rows(const LayoutView& layout, const Site& site, const Tokens& tokens, size_t step, size_t n,
               const Features& features, uint32_t* rows) {
    if (site.n_positions == 1) {
        const size_t at = layout.positions[site.first_position] * step;
        if (!layout.single_words) return place(layout, site, tokens.words + at, n, rows);
        single_words(layout, tokens.words + at, tokens.hashes + at, n, features.words);
    } else {
        fold(layout, site, tokens, step, n, features);
        locate(layout.finders[site.finder], features.hashes, features.present, n, features.words);
        for (size_t i = 0; site.entries && i < n; i += BLOCK)
            confirm(layout, site, tokens.words + i, step, n - i < BLOCK ? n - i : BLOCK,
                    {features.hashes + i, features.words + i, features.present + i});
    }
    place(layout, site, features.words, n, rows);
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
        if (!recalled(layout, source, first, n, scratch.tokens.words)) tokens(layout, source, first, 1, n, scratch.tokens);
        place_block(layout, scratch.tokens.words, n, scratch.rows);
        return {scratch.rows, layout.h, 1};
    }
    const size_t n = end - begin;
    for (uint32_t u = 0; u < layout.n_used; ++u) {
        const uint32_t r = layout.used[u];
        tokens(layout, source, begin * layout.h + r, layout.h, n, scratch.tokens.from(r * BLOCK));
    }
    for (uint32_t k = 0; k < layout.n_sites; ++k)
        site_rows(layout, layout.sites[k], scratch.tokens, BLOCK, n, scratch.features, scratch.rows + k * BLOCK);
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
