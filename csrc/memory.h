// Memory: what a fill touches first gets huge pages, what is large and in use is written past the
// cache.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fanin {

// True for a large range that nobody has touched yet, by a look at both of its ends.
bool untouched(const char* begin, size_t bytes);

// Asks for huge pages for an untouched range. Touching it 4 kB at a time is several times slower
// than sampling into it. NumPy asks for its own arrays; malloc, and so torch, does not. Touches a
// byte of every 64 MB, which keeps its value: where that is slow, no more are asked for during the
// next moments.
void advise_huge_pages(char* begin, size_t bytes);

// Stores the line `lines` times from `out` on, which begins a cache line, past the cache where the
// machine can.
void stream_lines(char* out, uint64_t lines, const char* line);

}  // namespace fanin
