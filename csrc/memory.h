// Huge pages for memory that a fill is about to touch first.
#pragma once

#include <stddef.h>

namespace fanin {

// True for a large range that nobody has touched yet, by a look at both of its ends.
bool untouched(const char* begin, size_t bytes);

// Asks for huge pages for an untouched range. Touching it 4 kB at a time is several times slower
// than sampling into it. NumPy asks for its own arrays; malloc, and so torch, does not. Where huge
// pages prove slower than that, no more are asked for during the next moments.
void advise_huge_pages(char* begin, size_t bytes);

}  // namespace fanin
