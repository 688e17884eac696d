// Huge pages for memory that a fill is about to touch first.
#pragma once

#include <stddef.h>

namespace fanin {

// Asks for huge pages for [begin, begin + bytes) where that is worth it and harmless: a large range
// that nobody has touched yet. Touching it 4 kB at a time is several times slower than sampling
// into it. NumPy asks for its own arrays; malloc, and so torch, does not.
void advise_huge_pages(char* begin, size_t bytes);

}  // namespace fanin
