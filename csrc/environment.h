// IEEE defaults in the floating-point environment of this thread, put back at the end: round to
// nearest, subnormals kept, no traps. A caller may have changed any of them.
#pragma once

#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fanin {

class IeeeEnvironment {
 public:
  IeeeEnvironment() : saved_(get()) { set(DEFAULT); }
  ~IeeeEnvironment() { set(saved_); }
  IeeeEnvironment(const IeeeEnvironment&) = delete;
  IeeeEnvironment& operator=(const IeeeEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Register = unsigned int;
  static constexpr Register DEFAULT = 0x1F80;  // MXCSR: all exceptions masked, nothing else
  static Register get() { return _mm_getcsr(); }
  static void set(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = uint64_t;
  static constexpr Register DEFAULT = 0;  // FPCR
  static Register get() {
    Register value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(Register value) { __asm__ volatile("msr fpcr, %0" : : "r"(value)); }
#else
#error "fanin's core knows the floating-point environment of x86-64 and Arm64 only"
#endif

  Register saved_;
};

}  // namespace fanin
