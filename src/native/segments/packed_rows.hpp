// Rows of entries packed in bits: memories/exact/segments/entries.py says how, and has the same in
// Python.
//
// What is read may be crafted, and may change while it is mapped: every byte is read once, and
// compared with its bound before it decides where something is read or written. Numbers of a stream
// are read eight bytes at a time, so up to seven bytes after a row are loaded, and masked: who
// calls sees to it that they are there (PADDING).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../shared_arrays.hpp"

namespace hammemo::segments {

constexpr size_t BLOCK = 128, PADDING = 8;
constexpr uint32_t MAX_BITS = 32;

// Read a number of seven bits a byte, the lowest first; false where it does not end or has more
// than 63 bits.
inline bool read_number(const uint8_t*& place, const uint8_t* stop, uint64_t& value) {
    value = 0;
    for (uint32_t shift = 0; shift < 63 && place != stop; shift += 7) {
        const uint8_t byte = load_once(place++);
        value |= uint64_t(byte & 127) << shift;
        if (byte < 128) {
            return true;
        }
    }
    return false;
}

// Write n times eight numbers of so many bits, up to 16: their places in the words are known when
// this is compiled.
template <uint32_t BITS>
inline void unpack_eights(const uint8_t* place, size_t n, uint64_t* out) {
    constexpr uint64_t mask = (uint64_t{1} << BITS) - 1;
    constexpr uint32_t half = BITS <= 8 ? 8 : 4;
    constexpr uint32_t shift = BITS <= 8 ? 0 : 4 * BITS % 8;
    for (size_t i = 0; i < n; ++i, place += BITS, out += 8) {
        uint64_t word;
        std::memcpy(&word, place, sizeof word);
        for (uint32_t k = 0; k < half; ++k) {
            out[k] = word >> k * BITS & mask;
        }
        if (half == 8) {
            continue;
        }
        std::memcpy(&word, place + 4 * BITS / 8, sizeof word);
        for (uint32_t k = 0; k < half; ++k) {
            out[half + k] = word >> (shift + k * BITS) & mask;
        }
    }
}

// Write the first numbers of a stream, eight at a time; return how many.
inline size_t unpack_most(uint32_t bits, const uint8_t* place, size_t m, uint64_t* out) {
    const size_t n = m / 8;
    switch (bits) {
        case 1:
            unpack_eights<1>(place, n, out);
            break;
        case 2:
            unpack_eights<2>(place, n, out);
            break;
        case 3:
            unpack_eights<3>(place, n, out);
            break;
        case 4:
            unpack_eights<4>(place, n, out);
            break;
        case 5:
            unpack_eights<5>(place, n, out);
            break;
        case 6:
            unpack_eights<6>(place, n, out);
            break;
        case 7:
            unpack_eights<7>(place, n, out);
            break;
        case 8:
            unpack_eights<8>(place, n, out);
            break;
        case 9:
            unpack_eights<9>(place, n, out);
            break;
        case 10:
            unpack_eights<10>(place, n, out);
            break;
        case 11:
            unpack_eights<11>(place, n, out);
            break;
        case 12:
            unpack_eights<12>(place, n, out);
            break;
        case 13:
            unpack_eights<13>(place, n, out);
            break;
        case 14:
            unpack_eights<14>(place, n, out);
            break;
        case 15:
            unpack_eights<15>(place, n, out);
            break;
        case 16:
            unpack_eights<16>(place, n, out);
            break;
        default:
            return 0;
    }
    return 8 * n;
}

// No more than seven bytes after those of the m numbers are loaded: a word of eight begins where
// there is one of them.
inline void unpack(uint32_t bits, const uint8_t* place, size_t m, uint64_t* out) {
    if (!bits) {
        std::memset(out, 0, m * sizeof *out);
        return;
    }
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    for (size_t i = unpack_most(bits, place, m, out), bit = i * bits; i < m; ++i, bit += bits) {
        uint64_t word;
        std::memcpy(&word, place + bit / 8, sizeof word);
        out[i] = word >> bit % 8 & mask;
    }
}

// Read m numbers of one stream, up to BLOCK, to which `out` has room; false where it cannot be one.
inline bool read_stream(const uint8_t*& place, const uint8_t* stop, size_t m, uint64_t* out) {
    if (stop - place < 2) {
        return false;
    }
    const uint32_t bits = load_once(place);
    const uint32_t n_larger = load_once(place + 1);
    place += 2;
    const size_t bytes = (m * bits + 7) / 8;
    if (bits > MAX_BITS || size_t(stop - place) < bytes) {
        return false;
    }
    unpack(bits, place, m, out);
    place += bytes;
    for (uint32_t e = 0; e < n_larger; ++e) {
        if (place == stop) {
            return false;
        }
        const size_t i = load_once(place++);
        uint64_t above;
        if (!read_number(place, stop, above) || i >= m || above >> (63 - bits)) {
            return false;
        }
        out[i] |= above << bits;
    }
    return true;
}

// One block: where it lies, how far its labels go, and its numbers when they are asked for.
struct Block {
    const uint8_t *place, *stop;
    size_t m;
    uint64_t span;  // from the last label before the block to its own last one

    // Write the gaps between labels, and the counts less one. False where it cannot be: then
    // nothing may be used. Else, after the label `before` (-1 as UINT64_MAX), all labels are below
    // n_labels.
    bool read(uint64_t before, uint64_t n_labels, uint64_t* gaps, uint64_t* counts) const {
        const uint8_t* at = place;
        if (!read_stream(at, stop, m, gaps) || !read_stream(at, stop, m, counts) || at != stop) {
            return false;
        }
        uint64_t sum = m;
        uint64_t all = 0;
        for (size_t i = 0; i < m; ++i) {
            sum += gaps[i];
            all |= gaps[i] | counts[i];
        }
        // No sum passes over the end of numbers and comes back: 128 gaps below 2^55 are below 2^62.
        return all < (uint64_t{1} << 55) && sum == span && before + sum < n_labels;
    }
};

// The blocks of a row, one after the other.
class PackedRow {
public:
    PackedRow(const uint8_t* first, const uint8_t* stop, uint64_t n_labels)
        : place_(first), stop_(stop) {
        right_ = read_number(place_, stop_, left_) && left_ >= 1 && left_ <= n_labels;
        n_ = right_ ? left_ : 0;
    }
    bool right() const { return right_; }  // false once something cannot be
    uint64_t n() const { return n_; }

    bool next(Block& block) {
        if (!right_ || (!left_ && place_ == stop_)) {
            return false;
        }
        block.m = size_t(left_ < BLOCK ? left_ : BLOCK);
        right_ = left_ && stop_ - place_ >= 2;
        if (!right_) {
            return false;
        }
        const size_t bytes = size_t(load_once(place_)) | size_t(load_once(place_ + 1)) << 8;
        place_ += 2;
        right_ = bytes <= size_t(stop_ - place_);
        if (!right_) {
            return false;
        }
        block.stop = place_ + bytes;
        block.place = place_;
        right_ = read_number(block.place, block.stop, block.span);
        place_ = block.stop;
        left_ -= block.m;
        return right_;
    }
    void refuse() { right_ = false; }

private:
    const uint8_t *place_, *stop_;
    uint64_t left_ = 0, n_ = 0;
    bool right_;
};

// Call each(label, count) for all entries of a row; false where one cannot be.
template <class Each>
bool each_packed(const uint8_t* first, const uint8_t* stop, uint64_t n_labels, const Each& each) {
    PackedRow row(first, stop, n_labels);
    uint64_t gaps[BLOCK];
    uint64_t counts[BLOCK];
    uint64_t label = UINT64_MAX;
    for (Block block; row.next(block);) {
        if (!block.read(label, n_labels, gaps, counts)) {
            return false;
        }
        for (size_t i = 0; i < block.m; ++i) {
            each(label += gaps[i] + 1, counts[i] + 1);
        }
    }
    return row.right();
}

// Append a row of at least one entry, labels ascending, counts from 1, all below 2^55.
void pack_row(const int64_t* labels, const int64_t* counts, size_t n, std::vector<uint8_t>& out);

}  // namespace hammemo::segments
