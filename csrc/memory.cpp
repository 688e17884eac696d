#include "memory.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <initializer_list>

#include "kernels.h"

namespace fanin {
namespace {

constexpr uintptr_t HUGE_PAGE = uintptr_t{1} << 21;

struct HugePages {
  uintptr_t first, last;  // whole huge pages of a range: [first, last)
  HugePages(const char* begin, size_t bytes)
      : first((reinterpret_cast<uintptr_t>(begin) + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)),
        last((reinterpret_cast<uintptr_t>(begin) + bytes) & ~(HUGE_PAGE - 1)) {}
};

// The host of a virtual machine may take free memory back, and then gives a huge page 4 kB at a
// time: measured at 5 ms, when the small pages of the same range take 1 ms, as those come from
// memory that was in use lately, and a huge page at hand 0.2 ms. So a page of each stretch is
// touched first. Where that is slow, small pages it is, for a while.
constexpr uintptr_t STRETCH = uintptr_t{1} << 26;  // bytes
constexpr double SLOW_SECONDS = 1.5e-3;

using Clock = std::chrono::steady_clock;
constexpr auto PATIENCE = std::chrono::milliseconds(200);
std::atomic<Clock::duration> slow_until{Clock::duration::min()};

bool huge_pages_are_slow() { return Clock::now().time_since_epoch() < slow_until.load(); }

// Time of this thread, not of the clock on the wall: waiting for a CPU does not count.
double touch_seconds(volatile char* byte) {
  const auto now = [] {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = now();
  *byte = *byte;
  return now() - before;
}

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
  for (uintptr_t at = pages.first; at < pages.last && !huge_pages_are_slow(); at += STRETCH) {
    const uintptr_t end = std::min(at + STRETCH, pages.last);
    if (madvise(reinterpret_cast<void*>(at), end - at, MADV_HUGEPAGE) != 0) return;
    if (touch_seconds(reinterpret_cast<volatile char*>(at)) > SLOW_SECONDS) {
      madvise(reinterpret_cast<void*>(at), end - at, MADV_NOHUGEPAGE);
      slow_until = Clock::now().time_since_epoch() + PATIENCE;
    }
  }
#else
  (void)begin;
  (void)bytes;
#endif
}

#if defined(__x86_64__)
void stream_lines(char* out, uint64_t lines, const char* line) {
  const __m128i* const parts = reinterpret_cast<const __m128i*>(line);
  const __m128i a = _mm_loadu_si128(parts), b = _mm_loadu_si128(parts + 1),
                c = _mm_loadu_si128(parts + 2), d = _mm_loadu_si128(parts + 3);
  __m128i* to = reinterpret_cast<__m128i*>(out);
  for (uint64_t i = 0; i < lines; ++i, to += 4) {
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();
}
#else  // no intrinsic for such stores
void stream_lines(char* out, uint64_t lines, const char* line) {
  for (uint64_t i = 0; i < lines; ++i) memcpy(out + i * CACHE_LINE, line, CACHE_LINE);
}
#endif

}  // namespace fanin
