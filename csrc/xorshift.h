// xorshift64*: the generator, and how to reach any place of its cycle.
//
// Marsaglia's xorshift with the shifts (12, 25, 27), its output multiplied by a constant (Vigna,
// "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016). A step is
// linear over GF(2), with a primitive characteristic polynomial: all nonzero states form one cycle
// of 2^64 - 1, and n steps are x^n modulo that polynomial, applied to the step (Haramoto et al.,
// "Efficient jump ahead for F2-linear random number generators", 2008). Bit matrices, the powers
// A^(2^k), did the same four times slower.
#pragma once

#include <array>
#include <cstdint>

namespace fanin {

inline constexpr int STREAM_VERSION = 1;  // of the bits; any change to them raises it
inline constexpr uint64_t MULTIPLIER = 0x2545F4914F6CDD1D;
inline constexpr uint64_t START = 0x9E3779B97F4A7C15;  // the state before draw 0
inline constexpr uint64_t PERIOD = UINT64_MAX;

inline uint64_t step(uint64_t state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state;
}

inline uint64_t output(uint64_t state) { return state * MULTIPLIER; }

// (a + b) mod PERIOD, for a < PERIOD and any b.
inline uint64_t add_mod_period(uint64_t a, uint64_t b) {
  uint64_t sum = a + b;
  sum += sum < a;  // 2^64 is 1 more than the period
  return sum == PERIOD ? 0 : sum;
}

// The state after n steps; a fraction of a microsecond.
uint64_t jump(uint64_t state, uint64_t n);

// The state before draw `draw` of the cycle: one step and the product give the draw.
inline uint64_t state_before(uint64_t draw) { return jump(START, draw); }

// n steps for a fixed n: eight table look-ups, a few nanoseconds, after ten microseconds of set-up.
class Jump {
 public:
  explicit Jump(uint64_t n);

  uint64_t operator()(uint64_t state) const {
    uint64_t result = 0;
    for (int byte = 0; byte < 8; ++byte) result ^= table_[byte][(state >> (8 * byte)) & 0xFF];
    return result;
  }

 private:
  std::array<std::array<uint64_t, 256>, 8> table_;
};

}  // namespace fanin
