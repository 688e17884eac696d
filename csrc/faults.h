// Faults that can be planted, for the tests of the tests: cmake -DFANIN_FAULT=<name> builds a core
// with one of them, and tests/test_faults.py sees the statistical checks fail on each. A normal
// build has none.
//
//   radius_of_24_bits      the normal's tail ends early, and u = 0 makes an infinity
//   sine_sign              the sine of the second half turn has the sign of the first
//   upper_tail_from_below  1 - p for the upper tail: coarse, and it ends early
//   lanes_overlap          a lane begins with the last draws of the one before
//   bfloat16_cut           bits are cut off instead of rounded
//   no_clamp               a narrow uniform reaches `high`
//   ln_coefficient         a polynomial is off in its first term
//   name_ignored           every matrix begins at the same draw
#pragma once

#ifndef FANIN_FAULT
#define FANIN_FAULT ""
#endif

namespace {

constexpr bool planted(const char* fault) {
  const char* name = FANIN_FAULT;
  while (*name != '\0' && *name == *fault) ++name, ++fault;
  return *name == *fault;
}

}  // namespace
