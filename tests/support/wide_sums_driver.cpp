// Compares the portable functions for sums of 128 bits, which MSVC takes, with the compiler's own
// __int128. Prints how many were compared.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sums/wide_sums.hpp"

using namespace hammemo;

namespace {

bool equal(WideSum left, WideSum right) {
    return left.low == right.low && left.high == right.high;
}

int64_t draw(std::mt19937_64& words) {
    const int64_t ends[] = {0,
                            1,
                            -1,
                            INT64_MAX,
                            INT64_MIN,
                            INT64_MIN + 1,
                            int64_t{1} << 32,
                            -(int64_t{1} << 32),
                            0xFFFFFFFF};
    const uint64_t word = words();
    if (word % 4 == 0) {
        return ends[words() % 9];
    }
    const auto number = static_cast<int64_t>(words() >> (1 + word / 4 % 63));
    return word % 4 == 1 ? -number : number;
}

}  // namespace

int main(int, char** arguments) {
    std::mt19937_64 words(7);
    const int tries = std::atoi(arguments[1]);
    WideSum sum = {0, 0};
    for (int i = 0; i < tries; ++i) {
        const int64_t left = draw(words);
        const int64_t right = draw(words);
        const WideSum product = multiply_portably(left, right);
        const bool same_product = equal(multiply(left, right), product);
        const bool same_sum = equal(add(sum, product), add_portably(sum, product));
        const bool same_double =
            as_double(product) == static_cast<double>(static_cast<Int128>(join(product)));
        if (!same_product || !same_sum || !same_double) {
            std::printf("try %d differs\n", i);
            return 1;
        }
        sum = add_portably(widen(left), product);
    }
    std::printf("%d\n", tries);
}
