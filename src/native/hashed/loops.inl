// The loops themselves, written over what the including file defines for its instruction set: for
// each pair (Row, Sum) of number types a struct `Vector<Row, Sum>` with LANES, `load_row`,
// `load_sum`, `store`, `add`, `max`, `highest` (of all lanes) and `first_equal` (the first lane
// that holds a value, or a number of at least LANES); and the functions `locate`, `place`,
// `place_block` and `recall` (the words of tokens that all are in the memo, or false).

namespace hammemo {
namespace {

void hash_in_place(const IntegerHash& hash, uint64_t* words, size_t n) {
    if (hash.keyed) {
        for (size_t i = 0; i < n; ++i) {
            words[i] = siphash(words[i], hash.first, hash.second);
        }
    } else {
        const uint64_t first = hash.first;
        const uint64_t second = hash.second;
        for (size_t i = 0; i < n; ++i) {
            words[i] = mix(words[i] ^ first) ^ second;
        }
    }
}

// Load every stride-th integer from `first` on, n of them, as 64-bit words.
template <class Token>
void load_integers(const Token* first,
                   size_t stride,
                   size_t n,
                   uint64_t* values,
                   uint8_t* present) {
    for (size_t i = 0; i < n; ++i) {
        values[i] = static_cast<uint64_t>(int64_t{first[i * stride]});
    }
    copies_are_private();
    for (size_t i = 0; i < n; ++i) {
        present[i] = values[i] != static_cast<uint64_t>(NO_TOKEN);
    }
}

void load_integers(const Source& source,
                   size_t first,
                   size_t stride,
                   size_t n,
                   uint64_t* values,
                   uint8_t* present) {
    if (source.kind == Source::INT64) {
        load_integers(static_cast<const int64_t*>(source.data) + first, stride, n, values, present);
    } else {
        load_integers(static_cast<const int32_t*>(source.data) + first, stride, n, values, present);
    }
}

void hash(const IntegerHash& integer_hash,
          const Source& source,
          size_t begin,
          size_t end,
          uint64_t* hashes,
          uint8_t* present) {
    load_integers(source, begin, 1, end - begin, hashes, present);
    hash_in_place(integer_hash, hashes, end - begin);
}

void look_up_ranks(const LayoutView& layout,
                   const Source& source,
                   size_t first,
                   size_t stride,
                   size_t n,
                   const Tokens& out) {
    const int64_t* ranks = static_cast<const int64_t*>(source.data) + first;
    for (size_t i = 0; i < n; ++i) {
        // -1 is above every bound.
        const auto rank = static_cast<uint64_t>(load_once(ranks + i * stride));
        const bool present = rank < source.n_hashes;
        const uint64_t hash = present ? load_once(source.hashes + rank) : 0;
        const auto place = static_cast<uint32_t>(present ? load_once(source.places + rank) : -1);
        out.present[i] = present;
        out.hashes[i] = hash;
        const uint64_t word = place < layout.n_places ? uint64_t{place} << 1 : hash | 1;
        out.words[i] = present ? word : ABSENT;
    }
}

void tokens(const LayoutView& layout,
            const Source& source,
            size_t first,
            size_t stride,
            size_t n,
            bool alone,
            const Tokens& out) {
    if (source.kind == Source::RANKS) {
        look_up_ranks(layout, source, first, stride, n, out);
        return;
    }
    load_integers(source, first, stride, n, out.hashes, out.present);
    if (layout.checks) {
        for (size_t i = 0; i < n; ++i) {
            out.values[i] = out.hashes[i];
        }
    }
    hash_in_place(layout.integer_hash, out.hashes, n);
    if (!layout.checks) {
        if (alone) {
            locate(layout.single_integers, out.hashes, out.present, n, out.words);
        }
        return;
    }
    locate(layout.tokens, out.hashes, out.present, n, out.words);
    for (size_t i = 0; i < n; ++i) {
        out.words[i] = layout.confirm_token(out.words[i], out.hashes[i], out.values[i]);
    }
}

// Call f(i) for all i below n, which is BLOCK most of the time: then the compiler knows how often.
template <class F>
inline void for_each(size_t n, const F& f) {
    if (n == BLOCK) {
        for (size_t i = 0; i < BLOCK; ++i) {
            f(i);
        }
    } else {
        for (size_t i = 0; i < n; ++i) {
            f(i);
        }
    }
}

// What a site of several positions holds: the hashes of its tokens, folded.
void fold(const LayoutView& layout,
          const Site& site,
          const Tokens& tokens,
          size_t step,
          size_t n,
          const Features& out) {
    uint64_t* hashes = out.hashes;
    uint8_t* present = out.present;
    for_each(n, [=, &site](size_t i) { hashes[i] = site.tuple_seed; });
    for_each(n, [=](size_t i) { present[i] = 1; });
    for (uint32_t j = 0; j < site.n_positions; ++j) {
        const size_t at = layout.positions[site.first_position + j] * step;
        const uint64_t* token_hashes = tokens.hashes + at;
        const uint8_t* token_present = tokens.present + at;
        for_each(n, [=](size_t i) { hashes[i] = mix(hashes[i] ^ token_hashes[i]); });
        for_each(n, [=](size_t i) { present[i] &= token_present[i]; });
    }
}

// Of up to BLOCK tuples that were found by their hashes, compare what is held at the first
// positions, `compared` of them, with the entries of the tuple; those that differ are not reserved.
// Without a branch: what was not found is compared with the first tuple, in vain.
void confirm(const LayoutView& layout,
             const Site& site,
             const uint64_t* entries,
             uint32_t compared,
             const uint64_t* identities,
             size_t step,
             size_t n,
             const Features& features) {
    uint64_t index[BLOCK];
    uint64_t differs[BLOCK];
    uint64_t* words = features.words;
    const uint64_t* hashes = features.hashes;
    const uint64_t length = site.n_positions;
    for_each(n, [&](size_t i) {
        index[i] = is_found(words[i]) ? (words[i] >> 1) * length : 0;
        differs[i] = 0;
    });
    for (uint32_t j = 0; j < compared; ++j) {
        const uint64_t* at = identities + layout.positions[site.first_position + j] * step;
        for_each(n, [&](size_t i) { differs[i] |= entries[index[i] + j] ^ at[i]; });
    }
    for_each(n, [&](size_t i) {
        words[i] = is_found(words[i]) && differs[i] ? hashes[i] | 1 : words[i];
    });
}

// From places in the list of tokens to rows at sites of one position.
void single_words(const LayoutView& layout,
                  const uint64_t* words,
                  const uint64_t* hashes,
                  size_t n,
                  uint64_t* out) {
    for (size_t i = 0; i < n; ++i) {
        const uint64_t single = is_found(words[i]) ? layout.single_words[words[i] >> 1] : words[i];
        out[i] = single == MISSING_WORD ? hashes[i] | 1 : single;
    }
}

// The words of what a site of several positions holds.
void tuple_words(const LayoutView& layout,
                 const Site& site,
                 bool by_hash,
                 const Tokens& tokens,
                 size_t step,
                 size_t n,
                 const Features& features) {
    fold(layout, site, tokens, step, n, features);
    const FinderView& finder = layout.finders[by_hash ? site.integer_finder : site.finder];
    locate(finder, features.hashes, features.present, n, features.words);
    const uint64_t* entries = by_hash ? site.integer_entries : site.entries;
    const uint64_t* identities = by_hash ? tokens.hashes : tokens.words;
    if (!entries || !finder.size) {
        return;
    }
    for (size_t i = 0; i < n; i += BLOCK) {
        confirm(layout,
                site,
                entries,
                by_hash ? site.n_positions - 1 : site.n_positions,
                identities + i,
                step,
                n - i < BLOCK ? n - i : BLOCK,
                {features.hashes + i, features.words + i, features.present + i});
    }
}

void site_rows(const LayoutView& layout,
               const Site& site,
               bool by_hash,
               const Tokens& tokens,
               size_t step,
               size_t n,
               const Features& features,
               uint32_t* rows) {
    if (site.n_positions > 1) {
        tuple_words(layout, site, by_hash, tokens, step, n, features);
        place(layout, site, features.words, n, rows);
        return;
    }
    const size_t at = layout.positions[site.first_position] * step;
    if (by_hash || !layout.single_words) {
        place(layout, site, tokens.words + at, n, rows);
        return;
    }
    single_words(layout, tokens.words + at, tokens.hashes + at, n, features.words);
    place(layout, site, features.words, n, rows);
}

// The words of the integer tokens [first, first + n), if the memo has them all.
bool recall_all(const LayoutView& layout,
                const Source& source,
                size_t first,
                size_t n,
                uint64_t* words) {
    if (!layout.memo || source.kind == Source::RANKS) {
        return false;
    }
    if (source.kind == Source::INT64) {
        return recall(layout, static_cast<const int64_t*>(source.data) + first, n, words);
    }
    return recall(layout, static_cast<const int32_t*>(source.data) + first, n, words);
}

BlockRows rows(const LayoutView& layout,
               const Source& source,
               size_t begin,
               size_t end,
               const Scratch& scratch) {
    if (layout.block_multipliers) {
        const size_t first = begin * layout.h;
        const size_t n = (end - begin) * layout.h;
        if (!recall_all(layout, source, first, n, scratch.tokens.words)) {
            tokens(layout, source, first, 1, n, true, scratch.tokens);
        }
        place_block(layout, scratch.tokens.words, n, scratch.rows);
        return {scratch.rows, layout.h, 1};
    }
    const size_t n = end - begin;
    for (uint32_t u = 0; u < layout.n_used; ++u) {
        const uint32_t r = layout.used[u];
        tokens(layout,
               source,
               begin * layout.h + r,
               layout.h,
               n,
               layout.used_alone[r],
               scratch.tokens.from(r * BLOCK));
    }
    const bool hashed = by_hash(layout, source);
    for (uint32_t k = 0; k < layout.n_sites; ++k) {
        site_rows(layout,
                  layout.sites[k],
                  hashed,
                  scratch.tokens,
                  BLOCK,
                  n,
                  scratch.features,
                  scratch.rows + k * BLOCK);
    }
    return {scratch.rows, 1, BLOCK};
}

// Sum U vectors of columns over the rows of one context. Where the number of sites is known when
// this is compiled (SITES, zero if not) the loop is unrolled.
template <class V, int U, uint32_t SITES>
inline void gather(const TableView& table,
                   const BlockRows& rows,
                   uint32_t n_sites,
                   uint32_t column,
                   typename V::Register (&sums)[U]) {
    const auto* values = static_cast<const typename V::Row*>(table.values) + column;
    const auto* base = static_cast<const typename V::Sum*>(table.base) + column;
    for (int u = 0; u < U; ++u) {
        sums[u] = V::load_sum(base + u * V::LANES);
    }
    const uint32_t last = SITES ? SITES : n_sites;
    for (uint32_t k = 0; k < last; ++k) {
        const auto* row = values + size_t{rows.rows[k * rows.site_step]} * table.stride;
        for (int u = 0; u < U; ++u) {
            sums[u] = V::add(sums[u], V::load_row(row + u * V::LANES));
        }
    }
}

template <class V>
struct Best {
    typename V::Sum value;
    int32_t column;
};

template <class V, int U, uint32_t SITES>
inline void update(const TableView& table,
                   const BlockRows& rows,
                   uint32_t n_sites,
                   uint32_t column,
                   Best<V>& best) {
    typename V::Register sums[U];
    gather<V, U, SITES>(table, rows, n_sites, column, sums);
    typename V::Register top = sums[0];
    for (int u = 1; u < U; ++u) {
        top = V::max(top, sums[u]);
    }
    const typename V::Sum highest = V::highest(top);
    if (best.column >= 0 && !(highest > best.value)) {
        return;
    }
    best.value = highest;
    // The first one comes last and stays; nobody can guess where it is: no branch.
    for (int u = U - 1; u >= 0; --u) {
        const int lane = V::first_equal(sums[u], highest);
        best.column =
            lane < V::LANES ? static_cast<int32_t>(column) + u * V::LANES + lane : best.column;
    }
}

template <class V, uint32_t SITES>
inline int32_t winner(const TableView& table, const BlockRows& rows, uint32_t n_sites) {
    Best<V> best{0, -1};
    uint32_t column = 0;
    for (; column + 4 * V::LANES <= table.stride; column += 4 * V::LANES) {
        update<V, 4, SITES>(table, rows, n_sites, column, best);
    }
    switch ((table.stride - column) / V::LANES) {
        case 3:
            update<V, 3, SITES>(table, rows, n_sites, column, best);
            break;
        case 2:
            update<V, 2, SITES>(table, rows, n_sites, column, best);
            break;
        case 1:
            update<V, 1, SITES>(table, rows, n_sites, column, best);
            break;
        default:
            break;
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
            const double score =
                static_cast<double>(lanes[lane]) * table.scale / table.divisor[start + lane];
            if (column < 0 || score > best) {
                best = score;
                column = static_cast<int32_t>(start) + lane;
            }
        }
    }
    return column;
}

template <class V, uint32_t SITES>
void winners_of_block(const TableView& table,
                      BlockRows block,
                      size_t n,
                      uint32_t n_sites,
                      int32_t* out) {
    for (size_t q = 0; q < n; ++q, block.rows += block.context_step) {
        out[q] = winner<V, SITES>(table, block, n_sites);
    }
}

template <class V>
void winners_of(const LayoutView& layout,
                const TableView& table,
                const Source& source,
                size_t begin,
                size_t end,
                const Scratch& scratch,
                int32_t* out) {
    const uint32_t n_sites = layout.n_sites;
    for (size_t i = begin; i < end; i += BLOCK) {
        const size_t n = i + BLOCK < end ? BLOCK : end - i;
        BlockRows block = rows(layout, source, i, i + n, scratch);
        if (table.divisor) {
            for (size_t q = 0; q < n; ++q, block.rows += block.context_step) {
                out[i + q] = divided_winner<V>(table, block, n_sites);
            }
        } else if (n_sites == 4) {
            winners_of_block<V, 4>(table, block, n, n_sites, out + i);
        } else if (n_sites == 8) {
            winners_of_block<V, 8>(table, block, n, n_sites, out + i);
        } else {
            winners_of_block<V, 0>(table, block, n, n_sites, out + i);
        }
    }
}

void winners(const LayoutView& layout,
             const TableView& table,
             const Source& source,
             size_t begin,
             size_t end,
             const Scratch& scratch,
             int32_t* out) {
    if (table.row == Number::FLOAT64) {
        winners_of<Vector<double, double>>(layout, table, source, begin, end, scratch, out);
    } else if (table.row == Number::INT32) {
        winners_of<Vector<int32_t, int32_t>>(layout, table, source, begin, end, scratch, out);
    } else if (table.sum == Number::INT32) {
        winners_of<Vector<int16_t, int32_t>>(layout, table, source, begin, end, scratch, out);
    } else {
        winners_of<Vector<int16_t, int16_t>>(layout, table, source, begin, end, scratch, out);
    }
}

void sums(const TableView& table, const BlockRows& block, uint32_t n_sites, size_t i, void* out) {
    const BlockRows rows{block.rows + i * block.context_step, 0, block.site_step};
    if (table.row == Number::FLOAT64) {
        sums_of<Vector<double, double>>(table, rows, n_sites, out);
    } else if (table.row == Number::INT32) {
        sums_of<Vector<int32_t, int32_t>>(table, rows, n_sites, out);
    } else if (table.sum == Number::INT32) {
        sums_of<Vector<int16_t, int32_t>>(table, rows, n_sites, out);
    } else {
        sums_of<Vector<int16_t, int16_t>>(table, rows, n_sites, out);
    }
}

}  // namespace
}  // namespace hammemo
