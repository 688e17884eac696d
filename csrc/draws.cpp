#include "draws.h"

#include <algorithm>

#include "integers.h"
#include "xorshift.h"

namespace fanin {

namespace {

constexpr uint64_t BLOCK_DRAWS = uint64_t{1} << 16;

}  // namespace

void draws(uint64_t position, const uint64_t* firsts, uint64_t rows, uint64_t count, uint64_t* out,
           int threads, const Poll& poll) {
  if (count == 0) return;
  const uint64_t rows_a_block = std::max<uint64_t>(1, BLOCK_DRAWS / count);
  const uint64_t blocks = ceil_div(rows, rows_a_block);
  for_each_block(
      blocks, threads,
      [&](uint64_t block) {
        const uint64_t begin = block * rows_a_block;
        const uint64_t end = std::min(rows, begin + rows_a_block);
        uint64_t state = 0;
        uint64_t* to = out + begin * count;
        for (uint64_t row = begin; row < end; ++row) {
          const bool goes_on = row > begin && firsts[row] == firsts[row - 1] + count;
          if (!goes_on) state = state_before(add_mod_period(position, firsts[row]));
          for (uint64_t i = 0; i < count; ++i) {
            state = step(state);
            *to++ = output(state);
          }
        }
      },
      poll);
}

}  // namespace fanin
