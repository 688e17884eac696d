// The software fused multiply-add against the C library's, which uses the CPU's instruction where
// there is one. Prints the mismatches and exits with 1 if there are any.
//
//   software_fma TRIPLES
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

// The software way, also on a CPU whose compiler always has the instruction.
#undef __FMA__
#undef __aarch64__
#include "software_fma.h"
#include "xorshift.h"

namespace {

uint64_t state = 1;
uint64_t random_bits() { return fanin::output(state = fanin::step(state)); }
int random_below(int n) { return static_cast<int>((random_bits() >> 32) % n); }

template <class T>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int MANTISSA = 23, EXPONENTS = 255;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int MANTISSA = 52, EXPONENTS = 2047;
};

template <class T>
typename Format<T>::Bits bits_of(T x) {
  typename Format<T>::Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

template <class T>
T from_bits(typename Format<T>::Bits bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// A finite number with a biased exponent in [low, high]; its mantissa random, or with few bits set,
// or all ones but few: what ties and carries are made of.
template <class T>
T random_number(int low, int high) {
  using Bits = typename Format<T>::Bits;
  constexpr Bits MASK = (Bits{1} << Format<T>::MANTISSA) - 1;
  Bits mantissa = static_cast<Bits>(random_bits() >> 8) & MASK;
  if (const int kind = random_below(4); kind >= 2) {
    mantissa = (Bits{1} << random_below(Format<T>::MANTISSA)) |
               (Bits{1} << random_below(Format<T>::MANTISSA));
    if (kind == 3) mantissa ^= MASK;
  }
  const auto exponent = static_cast<Bits>(low + random_below(high - low + 1));
  const auto sign = static_cast<Bits>(random_bits() >> 63);
  return from_bits<T>((sign << (8 * sizeof(T) - 1)) | (exponent << Format<T>::MANTISSA) | mantissa);
}

template <class T>
class Comparison {
 public:
  void operator()(T a, T b, T c) {
    const T expected = std::fma(a, b, c), got = fanin::fused_multiply_add(a, b, c);
    ++triples_;
    if (bits_of(expected) == bits_of(got)) return;
    if (mismatches_++ < 5) {
      std::printf("fma(%a, %a, %a) = %a, not %a\n", a, b, c, expected, got);
    }
  }
  long mismatches() const { return mismatches_; }
  long triples() const { return triples_; }

 private:
  long mismatches_ = 0, triples_ = 0;
};

// An addend near -a*b: exactly its rounded value, or some units in the last place or bits away.
template <class T>
T cancelling(T a, T b) {
  const T product = -(a * b);
  if (!std::isfinite(product)) return product > 0 ? std::numeric_limits<T>::max() : -1;
  using Bits = typename Format<T>::Bits;
  const Bits changed = bits_of(product) ^ (Bits{1} << random_below(Format<T>::MANTISSA));
  const T candidates[] = {product, from_bits<T>(changed), std::nextafter(product, T{0}),
                          product / 2, product * T{1.5}};
  const T c = candidates[random_below(5)];
  return std::isfinite(c) ? c : product;
}

template <class T>
long compare(const char* type, long triples) {
  constexpr int LAST = Format<T>::EXPONENTS - 1, ONE = Format<T>::EXPONENTS / 2;
  constexpr int DIGITS = Format<T>::MANTISSA + 1;
  Comparison<T> check;
  for (const T a : {T{0}, -T{0}, T{1}, -T{3}}) {
    for (const T b : {T{0}, -T{0}, T{2}}) {
      for (const T c : {T{0}, -T{0}, T{6}, -T{2}, std::numeric_limits<T>::denorm_min()}) {
        check(a, b, c);
      }
    }
  }
  while (check.triples() < triples) {
    const T a = random_number<T>(0, LAST), b = random_number<T>(0, LAST);  // the whole range
    check(a, b, random_number<T>(0, LAST));
    check(a, b, cancelling(a, b));
    // What polynomials do: similar magnitudes, with the addend a little above and below.
    const T x = random_number<T>(ONE - 30, ONE + 2), y = random_number<T>(ONE - 30, ONE + 2);
    check(x, y, random_number<T>(ONE - 2 * DIGITS - 60, ONE + DIGITS));
    check(x, y, cancelling(x, y));
    // Subnormal products, addends and sums.
    const T tiny = random_number<T>(0, 2 * DIGITS);
    check(tiny, x, random_number<T>(0, DIGITS));
    check(tiny, random_number<T>(ONE, LAST), cancelling(tiny, x));
    check(random_number<T>(ONE / 2 - DIGITS, ONE / 2 + DIGITS),
          random_number<T>(ONE / 2 - DIGITS, ONE / 2 + DIGITS), random_number<T>(0, DIGITS));
    // Sums at the end of the range.
    const T huge = random_number<T>(LAST - 2, LAST);
    check(huge, random_number<T>(ONE - 2, ONE + 1), random_number<T>(LAST - DIGITS - 2, LAST));
  }
  if (check.mismatches() > 0) {
    std::printf("%s: %ld of %ld\n", type, check.mismatches(), check.triples());
  }
  return check.mismatches();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: software_fma TRIPLES\n");
    return 2;
  }
  // A double rounding, by way of float64, would lose the last bit.
  const float factor = 1 + 0x1p-12f, result = 1 + 0x1p-11f + 0x1p-23f;
  if (fanin::fused_multiply_add(factor, factor, 0x1p-70f) != result) {
    std::printf("fma(1+2^-12, 1+2^-12, 2^-70) is not 1+2^-11+2^-23\n");
    return 1;
  }
  const long triples = std::atol(argv[1]);
  const long mismatches = compare<float>("float32", triples) + compare<double>("float64", triples);
  return mismatches == 0 ? 0 : 1;
}
