// The loops for any processor: short fixed-length loops that a compiler turns into whatever vectors
// it has.
#include "loops.hpp"
#include "scalar_lookup.inl"

namespace hammemo {
namespace {

template <class RowType, class SumType>
struct Vector {
    using Row = RowType;
    using Sum = SumType;
    static constexpr int LANES = 32 / sizeof(SumType);
    struct Register {
        Sum lane[LANES];
    };

    template <class Number>
    static Register load(const Number* p) {
        Register a;
        for (int i = 0; i < LANES; ++i) {
            a.lane[i] = p[i];
        }
        return a;
    }
    static Register load_row(const Row* p) { return load(p); }
    static Register load_sum(const Sum* p) { return load(p); }
    static void store(Sum* p, const Register& a) {
        for (int i = 0; i < LANES; ++i) {
            p[i] = a.lane[i];
        }
    }
    static Register add(Register a, const Register& b) {
        for (int i = 0; i < LANES; ++i) {
            a.lane[i] = static_cast<Sum>(a.lane[i] + b.lane[i]);
        }
        return a;
    }
    static Register max(Register a, const Register& b) {
        for (int i = 0; i < LANES; ++i) {
            a.lane[i] = b.lane[i] > a.lane[i] ? b.lane[i] : a.lane[i];
        }
        return a;
    }
    static Sum highest(const Register& a) {
        Sum top = a.lane[0];
        for (int i = 1; i < LANES; ++i) {
            top = a.lane[i] > top ? a.lane[i] : top;
        }
        return top;
    }
    static int first_equal(const Register& a, Sum value) {
        for (int i = 0; i < LANES; ++i) {
            if (a.lane[i] == value) {
                return i;
            }
        }
        return LANES;
    }
};

}  // namespace
}  // namespace hammemo

#include "loops.inl"

namespace hammemo {
extern const Loops portable_loops{"portable", hash, locate, tokens, site_rows, rows, winners, sums};
}
