// exp, log and log1p from additions, multiplications and divisions alone, so that their bytes are
// those of any processor with IEEE 754 arithmetic: those of the C library and of NumPy depend on
// which instructions it finds. Polynomials as in fdlibm, errors below 1 ulp.
#pragma once

#include <cstdint>
#include <cstring>

namespace hammemo {

constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

inline double power_of_two(int64_t exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// Of a number that is finite; below -700 the result is that of -700, above 700 that of 700.
inline double portable_exp(double x) {
    x = x < -700.0 ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    const double k = static_cast<double>(
        static_cast<int64_t>(x * 1.44269504088896338700 + (x < 0 ? -0.5 : 0.5)));
    const double high = x - k * LN2_HIGH;
    const double low = k * LN2_LOW;
    const double r = high - low;
    const double t = r * r;
    const double c =
        r - t * (1.66666666666666019037e-01 +
                 t * (-2.77777777770155933842e-03 +
                      t * (6.61375632143793436117e-05 +
                           t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
    return (1.0 - ((low - (r * c) / (2.0 - c)) - high)) * power_of_two(static_cast<int64_t>(k));
}

// Of a normal number above zero.
inline double portable_log(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    int64_t k = static_cast<int64_t>(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffU) | 0x3ff0000000000000U;
    double m;
    std::memcpy(&m, &bits, sizeof m);
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        ++k;
    }
    const double f = m - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double w = z * z;
    const double odd = w * (3.999999999940941908e-01 +
                            w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double even = z * (6.666666666666735130e-01 +
                             w * (2.857142874366239149e-01 +
                                  w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    const double half = 0.5 * f * f;
    const double steps = static_cast<double>(k);
    return steps * LN2_HIGH - ((half - (s * (half + (odd + even)) + steps * LN2_LOW)) - f);
}

// Of a number from zero on.
inline double portable_log1p(double x) {
    const double y = 1.0 + x;
    return y == 1.0 ? x : portable_log(y) + (x - (y - 1.0)) / y;
}

}  // namespace hammemo
