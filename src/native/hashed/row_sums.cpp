#include "row_sums.hpp"

namespace hammemo {
namespace {

constexpr int FRACTION_BITS = 2;

// Counts are below 2^53, but the caller's arrays may change at any time: what is not so wraps
// around, and is not undefined.
int64_t shift_left(int64_t value, int bits) {
    return static_cast<int64_t>(static_cast<uint64_t>(value) << bits);
}
int64_t add_wrapping(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t subtract_wrapping(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// The quotient rounded down; `by` is above zero.
int64_t divide_down(int64_t value, int64_t by) {
    const int64_t quotient = value / by;
    return value % by < 0 ? quotient - 1 : quotient;
}

// A bucket's count, centred by the label's sum over all buckets, to the nearest unit of fixed
// point, halves up.
int64_t centre(int64_t count, int64_t sum, int64_t buckets) {
    if (buckets == 1) {
        return 0;
    }
    const int64_t others = buckets - 1;
    const int64_t doubled = shift_left(subtract_wrapping(count, sum), FRACTION_BITS + 1);
    return add_wrapping(shift_left(count, FRACTION_BITS),
                        divide_down(add_wrapping(doubled, others), 2 * others));
}

}  // namespace

void sum_centred(const LayoutView& layout, const RawRows& raw, double scale, double* out) {
    const size_t n_sites = layout.n_sites;
    const size_t n_labels = raw.n_labels;
    for (size_t q = 0; q < raw.m; ++q) {
        double* sums = out + q * n_labels;
        for (size_t k = 0; k < n_sites; ++k) {
            const Site& site = layout.sites[k];
            const int64_t* counts = raw.counts + (q * n_sites + k) * n_labels;
            const int64_t* shared = raw.shared_sums + k * n_labels;
            const bool is_bucket = raw.rows[q * n_sites + k] >= int64_t{site.n_own};
            const double weight = raw.weights[k];
            for (size_t c = 0; c < n_labels; ++c) {
                const int64_t value = is_bucket ? centre(counts[c], shared[c], site.buckets)
                                                : shift_left(counts[c], FRACTION_BITS);
                const double term = weight * static_cast<double>(value);
                sums[c] = k ? sums[c] + term : term;
            }
        }
        for (size_t c = 0; c < n_labels; ++c) {
            sums[c] *= scale;
        }
    }
}

}  // namespace hammemo
