// a * b + c, rounded once (IEEE 754 fusedMultiplyAdd): the instruction where the file is compiled
// for one, else exact arithmetic. Never the C library's: its speed and bits are its own affair.
//
// The software way is Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
// algorithms using rounding to odd", IEEE Trans. Computers 57 (2008): add exactly, round the tail
// to odd, round once to nearest.
#pragma once

#include <stdint.h>
#include <string.h>

namespace fanin {
namespace {

#if defined(__FMA__) || defined(__aarch64__)

inline float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused_multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

#else

struct Sum {
  double value, error;  // value + error is exact
};

// Knuth's TwoSum: exact for any order of magnitudes.
inline Sum two_sum(double a, double b) {
  const double value = a + b;
  const double shadow = value - a;
  return {value, (a - (value - shadow)) + (b - shadow)};
}

// Dekker's product by Veltkamp's splitting: exact unless the splitting or the error term leave the
// range.
inline Sum two_product(double a, double b) {
  constexpr double SPLITTER = 134217729.0;  // 2^27 + 1
  const double wide_a = SPLITTER * a, wide_b = SPLITTER * b;
  const double high_a = wide_a - (wide_a - a), high_b = wide_b - (wide_b - b);
  const double low_a = a - high_a, low_b = b - high_b;
  const double value = a * b;
  return {value, low_a * low_b - (((value - high_a * high_b) - low_a * high_b) - high_a * low_b)};
}

// The sum rounded to odd: truncated, with the last bit set when anything was lost.
inline double round_to_odd(Sum sum) {
  int64_t bits;
  memcpy(&bits, &sum.value, sizeof bits);
  if (sum.error != 0 && (bits & 1) == 0) {
    const bool outward = (sum.error > 0) == (sum.value > 0);
    bits += outward ? 1 : -1;
  }
  memcpy(&sum.value, &bits, sizeof bits);
  return sum.value;
}

inline float fused_multiply_add(float a, float b, float c) {
  // The product of two float32 is exact in float64, and 53 bits are more than 24 + 2.
  return static_cast<float>(round_to_odd(two_sum(static_cast<double>(a) * b, c)));
}

using Wide = unsigned __int128;

inline bool is_negative(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 != 0;
}

struct Scaled {
  Wide mantissa;
  int exponent;  // the value is mantissa * 2^exponent
};

// |x| for x finite and not zero, with 2^52 <= mantissa < 2^53.
inline Scaled decompose(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  int exponent = static_cast<int>((bits >> 52) & 0x7FF);
  if (exponent != 0) {
    mantissa |= uint64_t{1} << 52;
  } else {
    for (exponent = 1; (mantissa >> 52) == 0; --exponent) mantissa <<= 1;
  }
  return {mantissa, exponent - 1075};
}

// A right shift that keeps, in the last bit, whether anything was lost.
inline Wide shift_right_sticky(Wide value, int count) {
  if (count <= 0) return value;
  if (count >= 128) return value != 0;
  const Wide kept = value >> count;
  return kept | ((kept << count) != value);
}

inline double power_of_two(int exponent) {  // -1022 <= exponent <= 1023
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

// The nearest double, ties to even, subnormal and infinite results included.
inline double round_to_double(Wide mantissa, int exponent) {
  int width = 128;
  while ((mantissa >> (width - 1)) == 0) --width;
  int drop = width - 53;
  if (exponent + drop < -1074) drop = -1074 - exponent;
  if (drop > 1) {  // keep a bit to round by, and one for the rest
    mantissa = shift_right_sticky(mantissa, drop - 2);
    exponent += drop - 2;
    drop = 2;
  }
  if (drop > 0) {
    const Wide half = Wide{1} << (drop - 1);
    const Wide rest = mantissa & ((half << 1) - 1);
    mantissa >>= drop;
    exponent += drop;
    if (rest > half || (rest == half && (mantissa & 1))) ++mantissa;
  }
  double result = static_cast<double>(static_cast<uint64_t>(mantissa));
  // An exact scaling: the mantissa is in place already, or the result is infinite.
  for (; exponent > 1000; exponent -= 1000) result *= power_of_two(1000);
  if (exponent < -1000) {
    result *= power_of_two(-1000 + 60);
    exponent += 1000 - 60;
  }
  return result * power_of_two(exponent);
}

// Exact integer arithmetic, for arguments near the ends of float64's range, where the error terms
// of the short way would underflow or the splitting overflow. All arguments are finite.
__attribute__((noinline)) inline double fused_multiply_add_exact(double a, double b, double c) {
  if (a == 0 || b == 0) return a * b + c;
  if (c == 0) return a * b;
  const Scaled factor = decompose(a), other = decompose(b);
  Scaled addend = decompose(c);
  Scaled product{(factor.mantissa * other.mantissa) << 20, factor.exponent + other.exponent - 20};
  addend = {addend.mantissa << 73, addend.exponent - 73};  // both now below 2^126
  const int exponent = product.exponent > addend.exponent ? product.exponent : addend.exponent;
  const Wide x = shift_right_sticky(product.mantissa, exponent - product.exponent);
  const Wide y = shift_right_sticky(addend.mantissa, exponent - addend.exponent);
  const bool negative_product = is_negative(a) != is_negative(b);
  if (negative_product == is_negative(c)) {
    const double sum = round_to_double(x + y, exponent);
    return negative_product ? -sum : sum;
  }
  if (x == y) return 0;
  const double difference = round_to_double(x > y ? x - y : y - x, exponent);
  return (x > y) == negative_product ? -difference : difference;
}

inline bool is_moderate(double x) {  // 2^-400 <= |x| < 2^400
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t exponent = (bits >> 52) & 0x7FF;
  return exponent - (1023 - 400) < 800;
}

inline double fused_multiply_add(double a, double b, double c) {
  // A product of zero is left to the exact way, which keeps its sign.
  if (!(is_moderate(a) && is_moderate(b) && (is_moderate(c) || c == 0))) {
    return fused_multiply_add_exact(a, b, c);
  }
  const Sum product = two_product(a, b);
  const Sum low = two_sum(c, product.error);
  const Sum high = two_sum(product.value, low.value);
  return high.value + round_to_odd(two_sum(high.error, low.error));
}

#endif

}  // namespace
}  // namespace fanin
