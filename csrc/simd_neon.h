// The vector vocabulary of the kernels (see simd_baseline.h) in NEON of Arm64: two 64-bit elements.
#pragma once

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

namespace {

constexpr int LANES = 2;  // 64-bit elements in a vector
constexpr const char* SIMD_NAME = "neon";
constexpr int TILE_ROWS = 8, TILE_VECTORS = 3;  // 24 sums, 3 vectors of B, of 32 registers

struct U64 {
  uint64x2_t v;
};
struct U32 {
  uint32x4_t v;
};
struct F32 {
  float32x4_t v;
};
struct F64 {
  float64x2_t v;
};
struct Mask32 {
  uint32x4_t v;  // all ones or all zeros an element
};
struct Mask64 {
  uint64x2_t v;
};

template <class V, class T>
inline V splat(T value);
template <>
inline U64 splat<U64>(uint64_t value) {
  return {vdupq_n_u64(value)};
}
template <>
inline U32 splat<U32>(uint32_t value) {
  return {vdupq_n_u32(value)};
}
template <>
inline F32 splat<F32>(float value) {
  return {vdupq_n_f32(value)};
}
template <>
inline F64 splat<F64>(double value) {
  return {vdupq_n_f64(value)};
}
inline U64 load(const uint64_t* p) { return {vld1q_u64(p)}; }
inline F32 load(const float* p) { return {vld1q_f32(p)}; }
inline F64 load(const double* p) { return {vld1q_f64(p)}; }
inline void store(void* p, U64 a) { vst1q_u8(static_cast<uint8_t*>(p), vreinterpretq_u8_u64(a.v)); }
inline void store(float* p, F32 a) { vst1q_f32(p, a.v); }
inline void store(double* p, F64 a) { vst1q_f64(p, a.v); }
// There is no intrinsic for Arm's stores past the cache.
constexpr bool STREAMS = false;
inline void stream(void* p, U64 a) { store(p, a); }
inline void stream_fence() {}

inline U64 operator^(U64 a, U64 b) { return {veorq_u64(a.v, b.v)}; }
inline U64 operator&(U64 a, U64 b) { return {vandq_u64(a.v, b.v)}; }
inline U64 operator|(U64 a, U64 b) { return {vorrq_u64(a.v, b.v)}; }
inline U64 operator+(U64 a, U64 b) { return {vaddq_u64(a.v, b.v)}; }
inline U64 operator-(U64 a, U64 b) { return {vsubq_u64(a.v, b.v)}; }
inline U32 operator^(U32 a, U32 b) { return {veorq_u32(a.v, b.v)}; }
inline U32 operator&(U32 a, U32 b) { return {vandq_u32(a.v, b.v)}; }
inline U32 operator|(U32 a, U32 b) { return {vorrq_u32(a.v, b.v)}; }
inline U32 operator+(U32 a, U32 b) { return {vaddq_u32(a.v, b.v)}; }
inline U32 operator-(U32 a, U32 b) { return {vsubq_u32(a.v, b.v)}; }
inline F32 operator+(F32 a, F32 b) { return {vaddq_f32(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {vsubq_f32(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {vmulq_f32(a.v, b.v)}; }
inline F64 operator+(F64 a, F64 b) { return {vaddq_f64(a.v, b.v)}; }
inline F64 operator-(F64 a, F64 b) { return {vsubq_f64(a.v, b.v)}; }
inline F64 operator*(F64 a, F64 b) { return {vmulq_f64(a.v, b.v)}; }
inline F64 operator/(F64 a, F64 b) { return {vdivq_f64(a.v, b.v)}; }

template <int BITS>
inline U64 shift_left(U64 a) {
  return {vshlq_n_u64(a.v, BITS)};
}
template <int BITS>
inline U64 shift_right(U64 a) {
  return {vshrq_n_u64(a.v, BITS)};
}
template <int BITS>
inline U32 shift_left(U32 a) {
  return {vshlq_n_u32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right(U32 a) {
  return {vshrq_n_u32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right_signed(U32 a) {
  return {vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a.v), BITS))};
}
inline U32 min_unsigned(U32 a, U32 b) { return {vminq_u32(a.v, b.v)}; }

inline F32 fma(F32 a, F32 b, F32 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
inline F64 fma(F64 a, F64 b, F64 c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
inline F32 fnma(F32 a, F32 b, F32 c) { return {vfmsq_f32(c.v, a.v, b.v)}; }
inline F64 fnma(F64 a, F64 b, F64 c) { return {vfmsq_f64(c.v, a.v, b.v)}; }
inline F32 square_root(F32 a) { return {vsqrtq_f32(a.v)}; }
inline F64 square_root(F64 a) { return {vsqrtq_f64(a.v)}; }
// By comparison, as on the other instruction sets: of two zeros the second, whatever its sign.
inline F32 min(F32 a, F32 b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
inline F64 min(F64 a, F64 b) { return {vbslq_f64(vcltq_f64(a.v, b.v), a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
inline F64 max(F64 a, F64 b) { return {vbslq_f64(vcgtq_f64(a.v, b.v), a.v, b.v)}; }

inline F32 from_signed(U32 a) { return {vcvtq_f32_s32(vreinterpretq_s32_u32(a.v))}; }
inline U32 bits(F32 a) { return {vreinterpretq_u32_f32(a.v)}; }
inline U64 bits(F64 a) { return {vreinterpretq_u64_f64(a.v)}; }
inline F32 from_bits(U32 a) { return {vreinterpretq_f32_u32(a.v)}; }
inline F64 from_bits(U64 a) { return {vreinterpretq_f64_u64(a.v)}; }
inline U64 as_u64(U32 a) { return {vreinterpretq_u64_u32(a.v)}; }

inline Mask32 less(F32 a, F32 b) { return {vcltq_f32(a.v, b.v)}; }
inline Mask64 less(F64 a, F64 b) { return {vcltq_f64(a.v, b.v)}; }
inline Mask32 top_bit(U32 a) { return {vcltzq_s32(vreinterpretq_s32_u32(a.v))}; }
inline Mask64 top_bit(U64 a) { return {vcltzq_s64(vreinterpretq_s64_u64(a.v))}; }
inline F32 select(Mask32 mask, F32 yes, F32 no) { return {vbslq_f32(mask.v, yes.v, no.v)}; }
inline F64 select(Mask64 mask, F64 yes, F64 no) { return {vbslq_f64(mask.v, yes.v, no.v)}; }
inline U32 select(Mask32 mask, U32 yes, U32 no) { return {vbslq_u32(mask.v, yes.v, no.v)}; }
inline bool all(Mask32 mask) { return vminvq_u32(mask.v) != 0; }
inline bool all(Mask64 mask) { return vminvq_u32(vreinterpretq_u32_u64(mask.v)) != 0; }

// low * low in 64 bits, and the two crossed products, of which the low halves count, moved up.
template <uint64_t CONSTANT>
inline U64 multiply(U64 x) {
  const uint32x2_t low = vdup_n_u32(static_cast<uint32_t>(CONSTANT));
  const uint32x2_t high = vdup_n_u32(static_cast<uint32_t>(CONSTANT >> 32));
  const uint32x2_t x_low = vmovn_u64(x.v), x_high = vshrn_n_u64(x.v, 32);
  const uint32x2_t crossed = vmla_u32(vmul_u32(x_high, low), x_low, high);
  return {vmlal_u32(vshlq_n_u64(vmovl_u32(crossed), 32), x_low, low)};
}

inline U32 low_words(U64 a, U64 b) {
  return {vtrn1q_u32(vreinterpretq_u32_u64(a.v), vreinterpretq_u32_u64(b.v))};
}
inline U32 high_words(U64 a, U64 b) {
  return {vtrn2q_u32(vreinterpretq_u32_u64(a.v), vreinterpretq_u32_u64(b.v))};
}
inline U64 high_word_below(U64 a, U64 top) { return shift_right<32>(a) | top; }
inline U32 high_halves(U32 a, U32 b) { return {vsriq_n_u32(b.v, a.v, 16)}; }  // inserts a >> 16
template <class Software>
inline U32 float16_code(F32 a) {
  return {vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(a.v)))};
}
inline F32 round_to_f32(F64 a, F64 b) {
  const float32x2_t even = vcvt_f32_f64(a.v), odd = vcvt_f32_f64(b.v);
  return {vcombine_f32(vzip1_f32(even, odd), vzip2_f32(even, odd))};
}

inline void transpose(U64 (&rows)[LANES]) {
  const uint64x2_t first = rows[0].v;
  rows[0].v = vzip1q_u64(first, rows[1].v);
  rows[1].v = vzip2q_u64(first, rows[1].v);
}

inline void interleave(const F32 (&even)[LANES / 2], const F32 (&odd)[LANES / 2],
                       U64 (&rows)[LANES]) {
  rows[0].v = vreinterpretq_u64_f32(vzip1q_f32(even[0].v, odd[0].v));
  rows[1].v = vreinterpretq_u64_f32(vzip2q_f32(even[0].v, odd[0].v));
}

}  // namespace
