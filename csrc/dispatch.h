// Which instruction set's kernels run: chosen once, when the library is loaded.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace fanin {

// Those of FANIN_SIMD, else the best that is chosen by default. Throws std::runtime_error if
// FANIN_SIMD names none that this build has and this CPU runs.
const KernelTable& kernels();

// The names that FANIN_SIMD may have on this CPU.
std::vector<std::string> supported_simd();

}  // namespace fanin
