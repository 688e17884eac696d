// Blocks of work on threads that are started for the call and joined: no pool, so nothing is left
// over to hang after a fork, and no OpenMP to quarrel with other libraries'.
#pragma once

#include <stdint.h>

#include <functional>

namespace fanin {

// Called on the caller's thread about every 50 ms; throws to stop the work.
using Poll = std::function<void()>;

// Calls work(block) once for each block in [0, blocks), on up to `threads` threads of which the
// caller's is one, in the IEEE floating-point environment. The first exception, of work or poll,
// stops all threads and is thrown on.
void for_each_block(uint64_t blocks, int threads, const std::function<void(uint64_t)>& work,
                    const Poll& poll);

}  // namespace fanin
