#include "dispatch.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <stdexcept>

namespace fanin {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports does not know it in older compilers.
bool f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

struct Candidate {
  const KernelTable& table;
  bool supported;
};

// From the plainest to the widest: the last one that is supported is the default.
std::vector<Candidate> candidates() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c();
#ifdef FANIN_SIMDE
  const bool avx512 = avx2;
#else
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
#endif
  return {{baseline_kernels(), true}, {avx2_kernels(), avx2}, {avx512_kernels(), avx512}};
#else  // Arm64, all of which has NEON
  return {{baseline_kernels(), true}, {neon_kernels(), true}};
#endif
}

const KernelTable& choose() {
  const char* forced = getenv("FANIN_SIMD");
  const bool any = forced == nullptr || *forced == '\0';
  const KernelTable* chosen = nullptr;
  std::string names;
  for (const Candidate& candidate : candidates()) {
    if (!candidate.supported) continue;
    if (any || candidate.table.name == std::string(forced)) chosen = &candidate.table;
    names += (names.empty() ? "" : ", ") + std::string(candidate.table.name);
  }
  if (chosen == nullptr) {
    throw std::runtime_error("FANIN_SIMD=" + std::string(forced) +
                             " is no instruction set of this build and CPU; there are: " + names);
  }
  return *chosen;
}

}  // namespace

const KernelTable& kernels() {
  static const KernelTable& chosen = choose();
  return chosen;
}

std::vector<std::string> supported_simd() {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates()) {
    if (candidate.supported) names.push_back(candidate.table.name);
  }
  return names;
}

}  // namespace fanin
