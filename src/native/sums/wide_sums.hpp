// Sums of 128 bits: a low and a high word in two's complement, for sums that can pass 2^63.
//
// Compilers with __int128 multiply and add in it. Others, such as MSVC, take the portable
// functions, which every build has so that a test can compare the two; HAMMEMO_PORTABLE_SUMS
// chooses them everywhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace hammemo {

#if defined(__SIZEOF_INT128__) && !defined(HAMMEMO_PORTABLE_SUMS)
#define HAMMEMO_INT128 1
#endif

struct WideSum {
    uint64_t low;
    int64_t high;
};

inline WideSum widen(int64_t number) {
    return {static_cast<uint64_t>(number), number < 0 ? -1 : 0};
}

inline WideSum add_portably(WideSum left, WideSum right) {
    const uint64_t low = left.low + right.low;
    const uint64_t carry = low < right.low;
    const uint64_t high =
        static_cast<uint64_t>(left.high) + static_cast<uint64_t>(right.high) + carry;
    return {low, static_cast<int64_t>(high)};
}

inline WideSum negate_portably(WideSum sum) {
    const uint64_t low = ~sum.low + 1;
    const uint64_t carry = low == 0;
    return {low, static_cast<int64_t>(~static_cast<uint64_t>(sum.high) + carry)};
}

// The product of two numbers of 64 bits has at most 127: it cannot wrap.
inline WideSum multiply_portably(int64_t left, int64_t right) {
    constexpr uint64_t HALF = 0xFFFFFFFFU;
    const uint64_t a = left < 0 ? 0 - static_cast<uint64_t>(left) : static_cast<uint64_t>(left);
    const uint64_t b = right < 0 ? 0 - static_cast<uint64_t>(right) : static_cast<uint64_t>(right);
    const uint64_t lowest = (a & HALF) * (b & HALF);
    const uint64_t inner = (a >> 32) * (b & HALF);
    const uint64_t outer = (a & HALF) * (b >> 32);
    const uint64_t highest = (a >> 32) * (b >> 32);
    const uint64_t middle = (lowest >> 32) + (inner & HALF) + (outer & HALF);  // below 3 * 2^32
    const uint64_t low = (lowest & HALF) | (middle << 32);
    const uint64_t high = highest + (inner >> 32) + (outer >> 32) + (middle >> 32);
    const WideSum product = {low, static_cast<int64_t>(high)};
    return (left < 0) != (right < 0) ? negate_portably(product) : product;
}

#ifdef HAMMEMO_INT128
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Word128;

inline WideSum split(Word128 sum) {
    return {static_cast<uint64_t>(sum), static_cast<int64_t>(static_cast<uint64_t>(sum >> 64))};
}

inline Word128 join(WideSum sum) {
    return static_cast<Word128>(static_cast<uint64_t>(sum.high)) << 64 | sum.low;
}

inline WideSum add(WideSum left, WideSum right) {
    return split(join(left) + join(right));
}

inline WideSum multiply(int64_t left, int64_t right) {
    return split(static_cast<Word128>(static_cast<Int128>(left) * right));
}
#else
inline WideSum add(WideSum left, WideSum right) {
    return add_portably(left, right);
}

inline WideSum multiply(int64_t left, int64_t right) {
    return multiply_portably(left, right);
}
#endif

// The nearest double, ties to even: a conversion of the two words by themselves would round twice.
inline double as_double(WideSum sum) {
    const bool is_negative = sum.high < 0;
    const WideSum size = is_negative ? negate_portably(sum) : sum;
    auto high = static_cast<uint64_t>(size.high);
    uint64_t low = size.low;
    double nearest = 0;
    if (high == 0) {
        nearest = static_cast<double>(low);
    } else {
        // The highest 64 bits, whose last one says whether any bit below them is set.
        int shift = 64;
        while (!(high >> 63)) {
            high = high << 1 | low >> 63;
            low <<= 1;
            --shift;
        }
        nearest = std::ldexp(static_cast<double>(high | (low != 0)), shift);
    }
    return is_negative ? -nearest : nearest;
}

// Sums of 128 bits as Python holds them: all low words, then all high words.
class WideSums {
public:
    WideSums(uint64_t* low, uint64_t* high) : low_(low), high_(high) {}

    WideSum operator[](size_t place) const {
        return {low_[place], static_cast<int64_t>(high_[place])};
    }

    // Sums stay exact below 2^127. That holds for any 2^63 products of numbers of 31 and of 32
    // bits, and in Python `NumberCells.size` and `Gram.size`, the sums of absolute values, are
    // bounds below 2^104.
    void add_product(size_t place, int64_t number, int64_t times) {
        const WideSum sum = add((*this)[place], multiply(number, times));
        low_[place] = sum.low;
        high_[place] = static_cast<uint64_t>(sum.high);
    }

private:
    uint64_t* low_;
    uint64_t* high_;
};

// Sums of 64 bits with the same function, where a bound says that all of them stay below 2^63.
class NarrowSums {
public:
    explicit NarrowSums(int64_t* sums) : sums_(sums) {}

    void add_product(size_t place, int64_t number, int64_t times) {
        sums_[place] += number * times;
    }

private:
    int64_t* sums_;
};

}  // namespace hammemo
