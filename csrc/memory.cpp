#include "memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>

namespace fanin {

void advise_huge_pages(char* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t HUGE_PAGE = uintptr_t{1} << 21;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) & ~(HUGE_PAGE - 1);
  if (first + HUGE_PAGE > last) return;
  // Two samples tell a fresh mapping from one in use; a wrong guess costs nothing but the advice.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const uintptr_t sample : {first, last - page}) {
    unsigned char resident = 0;
    if (mincore(reinterpret_cast<void*>(sample), page, &resident) != 0 || (resident & 1)) return;
  }
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  (void)begin;
  (void)bytes;
#endif
}

}  // namespace fanin
