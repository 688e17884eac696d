// The draws themselves, 64 bits each, for initializers that rank or choose elements by them.
#pragma once

#include <stdint.h>

#include "threads.h"

namespace fanin {

// Row i of `out` gets the `count` draws from number firsts[i] on, of the matrix at `position`.
void draws(uint64_t position, const uint64_t* firsts, uint64_t rows, uint64_t count, uint64_t* out,
           int threads, const Poll& poll);

}  // namespace fanin
