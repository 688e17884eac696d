// Faults that can be planted, for the tests of the tests: in a core built with -DFANIN_FAULTS=ON
// the environment variable FANIN_FAULT names one, and tests/test_faults.py sees the tests fail on
// each. A normal build has none.
//
//   radius_of_24_bits      the normal's tail ends early
//   radius_without_half    u may be 0, whose logarithm is infinite
//   sine_sign              the sine of the second half turn has the sign of the first
//   upper_tail_from_below  1 - p for the upper tail: coarse, and it ends early
//   lanes_overlap          a lane begins with the last draws of the one before
//   bfloat16_cut           bits are cut off instead of rounded
//   no_clamp               a narrow uniform reaches `high`
//   ln_coefficient         a polynomial is off in its first term
//   multiplier_bit         the draws are others, as random as the right ones
//   name_ignored           every matrix begins at the same draw
//   missing_last_sign      the last vector of an orthogonal matrix lacks its random sign
//   ascending_reflectors   a vector meets its own panel's reflectors in ascending order
//   stale_panel            a panel has the reflectors of the one that was applied before it
#pragma once

#ifdef FANIN_FAULTS
#include <stdlib.h>
#include <string.h>
#endif

namespace {

#ifdef FANIN_FAULTS
inline bool planted(const char* fault) {
  static const char* const name = getenv("FANIN_FAULT");
  return name != nullptr && strcmp(name, fault) == 0;
}
#else
constexpr bool planted(const char*) { return false; }
#endif

}  // namespace
