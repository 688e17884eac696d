#include "memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>

namespace fanin {
namespace {

constexpr uintptr_t HUGE_PAGE = uintptr_t{1} << 21;

struct HugePages {
  uintptr_t first, last;  // whole huge pages of a range: [first, last)
  HugePages(const char* begin, size_t bytes)
      : first((reinterpret_cast<uintptr_t>(begin) + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)),
        last((reinterpret_cast<uintptr_t>(begin) + bytes) & ~(HUGE_PAGE - 1)) {}
};

}  // namespace

bool untouched(const char* begin, size_t bytes) {
  const HugePages pages(begin, bytes);
  if (pages.first >= pages.last) return false;
  // Two samples tell a fresh mapping from one in use; a wrong guess costs time only.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const uintptr_t sample : {pages.first, pages.last - page}) {
    unsigned char resident = 0;
    if (mincore(reinterpret_cast<void*>(sample), page, &resident) != 0 || (resident & 1)) {
      return false;
    }
  }
  return true;
}

void advise_huge_pages(char* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  const HugePages pages(begin, bytes);
  madvise(reinterpret_cast<void*>(pages.first), pages.last - pages.first, MADV_HUGEPAGE);
#else
  (void)begin;
  (void)bytes;
#endif
}

}  // namespace fanin
