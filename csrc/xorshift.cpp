#include "xorshift.h"

namespace fanin {
namespace {

// Polynomials over GF(2) modulo the step's characteristic polynomial x^64 + CHARACTERISTIC; bit i
// is the coefficient of x^i.
using Polynomial = uint64_t;
constexpr Polynomial CHARACTERISTIC = 0x0018b73aa7cc9b71;

constexpr Polynomial times_x(Polynomial a) { return a << 1 ^ (CHARACTERISTIC & (0 - (a >> 63))); }

// h * x^64 for the h of degree below 4.
constexpr std::array<Polynomial, 16> overflows() {
  std::array<Polynomial, 16> table{};
  table[1] = CHARACTERISTIC;
  for (unsigned h = 2; h < 16; ++h) {
    table[h] = times_x(table[h / 2]) ^ (h % 2 != 0 ? CHARACTERISTIC : 0);
  }
  return table;
}

// Four coefficients of a at a time.
Polynomial times(Polynomial a, Polynomial b) {
  static constexpr std::array<Polynomial, 16> OVERFLOW = overflows();
  std::array<Polynomial, 16> multiples{0, b};
  for (unsigned h = 2; h < 16; ++h) {
    multiples[h] = times_x(multiples[h / 2]) ^ (h % 2 != 0 ? b : 0);
  }
  Polynomial product = 0;
  for (int shift = 60; shift >= 0; shift -= 4) {
    product = product << 4 ^ OVERFLOW[product >> 60] ^ multiples[(a >> shift) & 15];
  }
  return product;
}

// x^(digit * 256^place): 16 kB, a tenth of a millisecond, once.
struct Powers {
  Polynomial of[8][256];
  Powers() {
    Polynomial base = 2;  // x^(256^place)
    for (auto& row : of) {
      row[0] = 1;
      for (int digit = 1; digit < 256; ++digit) row[digit] = times(row[digit - 1], base);
      base = times(row[255], base);
    }
  }
};

// x^n, from the digits of n. Pairs of products that do not wait for each other.
Polynomial power(uint64_t n) {
  static const Powers powers;
  const auto digit = [n](int place) { return powers.of[place][n >> (8 * place) & 0xFF]; };
  const Polynomial low = times(times(digit(0), digit(1)), times(digit(2), digit(3)));
  const Polynomial high = times(times(digit(4), digit(5)), times(digit(6), digit(7)));
  return times(low, high);
}

// The polynomial of the step, applied to a state.
uint64_t apply(Polynomial p, uint64_t state) {
  uint64_t result = 0;
  for (; p != 0; p >>= 1, state = step(state)) result ^= state & (0 - (p & 1));
  return result;
}

}  // namespace

uint64_t jump(uint64_t state, uint64_t n) { return apply(power(n), state); }

Jump::Jump(uint64_t n) {
  const Polynomial steps = power(n);
  for (int byte = 0; byte < 8; ++byte) {
    auto& row = table_[byte];
    row[0] = 0;
    for (int bit = 0; bit < 8; ++bit) {
      const int size = 1 << bit;
      const uint64_t image = apply(steps, uint64_t{1} << (8 * byte + bit));
      for (int i = 0; i < size; ++i) row[size + i] = row[i] ^ image;
    }
  }
}

}  // namespace fanin
