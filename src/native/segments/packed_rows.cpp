#include "packed_rows.hpp"

#include <algorithm>

namespace hammemo::segments {
namespace {

void write_number(uint64_t value, std::vector<uint8_t>& out) {
    for (; value >= 128; value >>= 7) {
        out.push_back(uint8_t(value | 128));
    }
    out.push_back(uint8_t(value));
}

size_t bytes_of(uint64_t value) {
    size_t bytes = 1;
    while (value >>= 7) {
        ++bytes;
    }
    return bytes;
}

// The number of bits with which a stream takes least room, the smallest among equals.
uint32_t best_bits(const uint64_t* values, size_t m) {
    uint64_t all = 0;
    for (size_t i = 0; i < m; ++i) {
        all |= values[i];
    }
    uint32_t best = 0;
    size_t least = SIZE_MAX;
    for (uint32_t bits = 0; bits <= MAX_BITS; ++bits) {
        size_t bytes = (m * bits + 7) / 8;
        for (size_t i = 0; i < m && bytes < least; ++i) {
            if (const uint64_t above = values[i] >> bits) {
                bytes += 1 + bytes_of(above);
            }
        }
        if (bytes < least) {
            least = bytes;
            best = bits;
        }
        if (!(all >> bits)) {
            break;
        }
    }
    return best;
}

void write_stream(const uint64_t* values, size_t m, std::vector<uint8_t>& out) {
    const uint32_t bits = best_bits(values, m);
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    out.push_back(uint8_t(bits));
    out.push_back(
        uint8_t(std::count_if(values, values + m, [&](uint64_t value) { return value >> bits; })));
    uint64_t word = 0;
    uint32_t n_bits = 0;
    for (size_t i = 0; i < m; ++i) {
        word |= (values[i] & mask) << n_bits;
        for (n_bits += bits; n_bits >= 8; n_bits -= 8, word >>= 8) {
            out.push_back(uint8_t(word));
        }
    }
    if (n_bits) {
        out.push_back(uint8_t(word));
    }
    for (size_t i = 0; i < m; ++i) {
        if (const uint64_t above = values[i] >> bits) {
            out.push_back(uint8_t(i));
            write_number(above, out);
        }
    }
}

}  // namespace

void pack_row(const int64_t* labels, const int64_t* counts, size_t n, std::vector<uint8_t>& out) {
    write_number(n, out);
    uint64_t before = UINT64_MAX;
    uint64_t gaps[BLOCK];
    uint64_t others[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t m = std::min(BLOCK, n - first);
        const size_t place = out.size();
        out.insert(out.end(), 2, 0);
        const uint64_t last = uint64_t(labels[first + m - 1]);
        write_number(last - before, out);
        for (size_t i = 0; i < m; ++i) {
            const uint64_t label = uint64_t(labels[first + i]);
            gaps[i] = label - before - 1;
            before = label;
            others[i] = uint64_t(counts[first + i]) - 1;
        }
        write_stream(gaps, m, out);
        write_stream(others, m, out);
        const size_t bytes = out.size() - place - 2;
        out[place] = uint8_t(bytes);
        out[place + 1] = uint8_t(bytes >> 8);
    }
}

}  // namespace hammemo::segments
