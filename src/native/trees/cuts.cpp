#include "cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace hammemo {
namespace {

uint64_t bits_of(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

// The number above `below` and not above `upto` that the highest power of two divides.
double round_number(double below, double upto) {
    const bool is_negative = upto < 0;
    double least = below > 0 ? below : 0.0;
    double most = std::fabs(upto);
    if (is_negative) {  // the sizes run the other way: the larger one is left out
        least = std::fabs(upto);
        most = std::fabs(below);
    }
    const uint64_t low = bits_of(least) - is_negative;
    const uint64_t high = bits_of(most) - is_negative;
    uint64_t differing = low ^ high;
    for (unsigned shift = 1; shift < 64; shift *= 2) {
        differing |= differing >> shift;
    }
    const uint64_t cleared = std::min(differing >> 1, (uint64_t{1} << 52) - 1);
    const uint64_t bits = high & ~cleared;
    double size;
    std::memcpy(&size, &bits, sizeof size);
    if (is_negative) {
        return -size;
    }
    return below < 0 ? 0.0 : size;
}

struct Range {
    size_t low, high;     // values
    int64_t first, last;  // places
};

}  // namespace

void halve(const CountedValues& column, const CutRules& rules, size_t most, double* cuts) {
    const auto rows_before = [&](size_t value) { return value ? column.upto[value - 1] : 0; };
    const auto find_value = [&](int64_t rows) {
        return static_cast<size_t>(std::lower_bound(column.upto, column.upto + column.n, rows) -
                                   column.upto);
    };
    std::vector<Range> open = {{0, column.n, 0, static_cast<int64_t>(most)}};
    while (!open.empty()) {
        const Range range = open.back();
        open.pop_back();
        const int64_t base = rows_before(range.low);
        const int64_t whole = rows_before(range.high) - base;
        if (range.high - range.low < 2 || whole < rules.least || range.last <= range.first) {
            continue;
        }
        const auto rows = static_cast<double>(whole);
        size_t first = find_value(
            base + std::max<int64_t>(
                       static_cast<int64_t>((0.5 - rules.band) * rows) - rules.band_rows, 1));
        const size_t last = find_value(
            base +
            std::min(static_cast<int64_t>((0.5 + rules.band) * rows) + rules.band_rows, whole));
        const int64_t before = rows_before(first) - base;
        const int64_t behind = rows_before(range.high) - rows_before(first + 1);
        // One value fills the middle: the cut is on its side that divides the rows more evenly.
        if (first == last && first > range.low && (before >= behind || first + 1 == range.high)) {
            --first;
        }
        const double cut =
            round_number(column.values[first], column.values[std::max(last, first + 1)]);
        const auto middle = static_cast<size_t>(
            std::lower_bound(column.values, column.values + column.n, cut) - column.values);
        const int64_t of_left = range.first + static_cast<int64_t>(middle - range.low) - 1;
        const int64_t of_right = range.last - static_cast<int64_t>(range.high - middle);
        const int64_t place =
            std::min(std::max((range.first + range.last) / 2, std::min(of_left, of_right)),
                     std::max(of_left, of_right));
        cuts[place] = cut;
        open.push_back({range.low, middle, range.first, place});
        open.push_back({middle, range.high, place + 1, range.last});
    }
}

}  // namespace hammemo
