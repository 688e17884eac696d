// Divisions of sizes that round up.
#pragma once

#include <stdint.h>

namespace fanin {

inline uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

inline uint64_t round_up(uint64_t value, uint64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

}  // namespace fanin
