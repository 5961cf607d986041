#include "bare.hpp"

#include <nanobind/ndarray.h>

#include <stdexcept>

#include "layout_owner.hpp"
#include "table.hpp"

#ifdef HAMMEMO_X86
#include <immintrin.h>
#endif

namespace nb = nanobind;
using namespace hammemo;

namespace {

constexpr int H = 8, LABELS = 64;

// Look-up, sum and argmax for eight positions, 64 labels and 16-bit sums, with everything fixed at compile time; false
// where a token is not in the memo.
#ifdef HAMMEMO_X86
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) bool predict(const LayoutView& layout, const int16_t* table,
                                                                           const int64_t* tokens, size_t m, int32_t* out) {
    alignas(64) uint64_t multipliers[H], first_rows[H], offsets[BLOCK * H];
    for (int k = 0; k < H; ++k) multipliers[k] = layout.sites[k].multiplier, first_rows[k] = layout.sites[k].first_row;
    const __m512i multiplier = _mm512_load_si512(multipliers), first_row = _mm512_load_si512(first_rows);
    const __m512i n_own = _mm512_set1_epi64(layout.sites[0].n_own), buckets = _mm512_set1_epi64(layout.sites[0].buckets);
    const __m512i memo_size = _mm512_set1_epi64(static_cast<int64_t>(layout.memo_size));
    for (size_t q = 0; q < m; ++q) {
        if (q % BLOCK == 0)  // looked up some way ahead of the sums, which would otherwise wait for each other
            for (size_t i = q; i < q + BLOCK && i < m; ++i) {
                __m512i token = _mm512_loadu_si512(tokens + i * H);
                __asm__("" : "+v"(token));  // not to be loaded again after it was compared
                if (_mm512_cmpge_epu64_mask(token, memo_size)) return false;
                const __m512i word = _mm512_i64gather_epi64(token, layout.memo, 8);
                const __m512i product = _mm512_srli_epi64(_mm512_mullo_epi64(word, multiplier), 32);
                const __m512i bucket = _mm512_srli_epi64(_mm512_mul_epu32(product, buckets), 32);
                const __mmask8 shared = _mm512_test_epi64_mask(word, _mm512_set1_epi64(1));
                const __m512i row = _mm512_mask_add_epi64(_mm512_srli_epi64(word, 1), shared, bucket, n_own);
                _mm512_store_si512(offsets + (i - q) * H, _mm512_slli_epi64(_mm512_add_epi64(row, first_row), 6));
            }
        __m512i low = _mm512_setzero_si512(), high = low;
        for (int k = 0; k < H; ++k) {
            const int16_t* values = table + offsets[q % BLOCK * H + k];
            low = _mm512_add_epi16(low, _mm512_loadu_si512(values));
            high = _mm512_add_epi16(high, _mm512_loadu_si512(values + 32));
        }
        const __m512i both = _mm512_max_epi16(low, high);
        const __m256i half = _mm256_max_epi16(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64(both, 1));
        const __m128i quarter = _mm_max_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
        const __m128i flipped = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(0x7FFF)));
        const __m512i top = _mm512_broadcastw_epi16(_mm_xor_si128(flipped, _mm_set1_epi16(0x7FFF)));
        const uint64_t equal = uint64_t{_mm512_cmpeq_epi16_mask(low, top)} | uint64_t{_mm512_cmpeq_epi16_mask(high, top)} << 32;
        out[q] = static_cast<int32_t>(__builtin_ctzll(equal));
    }
    return true;
}
#endif

using Tokens = nb::ndarray<const int64_t, nb::shape<-1, H>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const uint32_t, nb::shape<-1, H>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

bool bare_predict(const Table& table, Tokens tokens, nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
    const LayoutView& layout = table.layout();
    const TableView& view = table.view();
    if (layout.h != H || layout.n_sites != H || view.n_labels != LABELS || view.sum != Number::INT16 || view.divisor ||
        !layout.memo || out.shape(0) != tokens.shape(0))
        throw std::invalid_argument("the bare loop knows 8 positions, 64 labels and 16-bit sums only");
#ifdef HAMMEMO_X86
    if (std::string(available_loops()[0]->name) != "avx512") return false;
    if (!predict(layout, static_cast<const int16_t*>(view.values), tokens.data(), tokens.shape(0), out.data()))
        throw std::invalid_argument("a token is too large");
    return true;
#else
    return false;
#endif
}

// Add one to a cell for each example and position, the rows being known already.
void bare_scatter(Rows rows, Columns columns, nb::ndarray<uint32_t, nb::shape<-1, LABELS>, nb::c_contig, nb::device::cpu> cells) {
    if (rows.shape(0) != columns.shape(0)) throw std::invalid_argument("one column a row");
    uint32_t* out = cells.data();
    for (size_t i = 0; i < rows.shape(0); ++i) {
        const auto column = static_cast<uint32_t>(load_once(columns.data() + i));
        if (column >= LABELS) throw std::invalid_argument("a column is outside the table");
        for (int k = 0; k < H; ++k) {
            const uint32_t row = load_once(rows.data() + i * H + k);
            if (row >= cells.shape(0)) throw std::invalid_argument("a row is outside the table");
            ++out[size_t{row} * LABELS + column];
        }
    }
}

}  // namespace

void bind_bare(nb::module_& m) {
    m.def("bare_predict", &bare_predict, nb::arg("table"), nb::arg("tokens").noconvert(), nb::arg("out").noconvert());
    m.def("bare_scatter", &bare_scatter, nb::arg("rows").noconvert(), nb::arg("columns").noconvert(), nb::arg("cells").noconvert());
}
