#include "xorshift.h"

namespace fanin {
namespace {

// A matrix over GF(2) by its columns: column i is the image of bit i.
using Matrix = std::array<uint64_t, 64>;

uint64_t apply(const Matrix& matrix, uint64_t state) {
  uint64_t result = 0;
  for (int i = 0; i < 64; ++i) result ^= matrix[i] & (0 - ((state >> i) & 1));
  return result;
}

// A^(2^k) for k = 0..63: 32 kB, a tenth of a millisecond, once.
const std::array<Matrix, 64>& powers() {
  static const std::array<Matrix, 64> table = [] {
    std::array<Matrix, 64> power;
    for (int i = 0; i < 64; ++i) power[0][i] = step(uint64_t{1} << i);
    for (int k = 1; k < 64; ++k) {
      for (int i = 0; i < 64; ++i) power[k][i] = apply(power[k - 1], power[k - 1][i]);
    }
    return power;
  }();
  return table;
}

}  // namespace

uint64_t jump(uint64_t state, uint64_t n) {
  const auto& power = powers();
  for (int k = 0; n != 0; ++k, n >>= 1) {
    if (n & 1) state = apply(power[k], state);
  }
  return state;
}

Jump::Jump(uint64_t n) {
  for (int byte = 0; byte < 8; ++byte) {
    auto& row = table_[byte];
    row[0] = 0;
    for (int bit = 0; bit < 8; ++bit) {
      const int size = 1 << bit;
      const uint64_t image = jump(uint64_t{1} << (8 * byte + bit), n);
      for (int i = 0; i < size; ++i) row[size + i] = row[i] ^ image;
    }
  }
}

}  // namespace fanin
