// The vector vocabulary of the kernels (see simd_baseline.h) in AVX-512 (F, DQ, BW, VL): eight
// 64-bit elements. With FANIN_SIMDE the intrinsics are those of SIMD Everywhere, which run on any
// CPU: so the bits of this file are tested where there is no AVX-512.
//
// Two units take 512-bit operations, and the kernels keep both busy: what counts is the number of
// operations, less how long one takes. So one vpmullq (three operations, 15 cycles) multiplies
// draws, not the seven of AVX2 (+15 % for a uniform), and a masked shuffle puts words together.
#pragma once

#ifdef FANIN_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#include "simde_gaps.h"
#else
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

namespace {

constexpr int LANES = 8;  // 64-bit elements in a vector
constexpr const char* SIMD_NAME = "avx512";
constexpr int TILE_ROWS = 12, TILE_VECTORS = 2;  // 24 sums, 2 vectors of B, of 32 registers

struct U64 {
  __m512i v;
};
struct U32 {
  __m512i v;
};
struct F32 {
  __m512 v;
};
struct F64 {
  __m512d v;
};
struct Mask32 {
  __mmask16 v;
};
struct Mask64 {
  __mmask8 v;
};

template <class V, class T>
inline V splat(T value);
template <>
inline U64 splat<U64>(uint64_t value) {
  return {_mm512_set1_epi64(static_cast<int64_t>(value))};
}
template <>
inline U32 splat<U32>(uint32_t value) {
  return {_mm512_set1_epi32(static_cast<int>(value))};
}
template <>
inline F32 splat<F32>(float value) {
  return {_mm512_set1_ps(value)};
}
template <>
inline F64 splat<F64>(double value) {
  return {_mm512_set1_pd(value)};
}
inline U64 load(const uint64_t* p) { return {_mm512_loadu_si512(p)}; }
inline F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F64 load(const double* p) { return {_mm512_loadu_pd(p)}; }
inline void store(void* p, U64 a) { _mm512_storeu_si512(p, a.v); }
inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
inline void store(double* p, F64 a) { _mm512_storeu_pd(p, a.v); }
// Past the cache: a vector is a whole line.
constexpr bool STREAMS = true;
inline void stream(void* p, U64 a) { _mm512_stream_si512(static_cast<__m512i*>(p), a.v); }
inline void stream_fence() { _mm_sfence(); }

inline U64 operator^(U64 a, U64 b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline U64 operator&(U64 a, U64 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline U64 operator|(U64 a, U64 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline U64 operator+(U64 a, U64 b) { return {_mm512_add_epi64(a.v, b.v)}; }
inline U64 operator-(U64 a, U64 b) { return {_mm512_sub_epi64(a.v, b.v)}; }
inline U32 operator^(U32 a, U32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline U32 operator&(U32 a, U32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline U32 operator|(U32 a, U32 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline U32 operator+(U32 a, U32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline U32 operator-(U32 a, U32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F64 operator+(F64 a, F64 b) { return {_mm512_add_pd(a.v, b.v)}; }
inline F64 operator-(F64 a, F64 b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline F64 operator*(F64 a, F64 b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline F64 operator/(F64 a, F64 b) { return {_mm512_div_pd(a.v, b.v)}; }

template <int BITS>
inline U64 shift_left(U64 a) {
  return {_mm512_slli_epi64(a.v, BITS)};
}
template <int BITS>
inline U64 shift_right(U64 a) {
  return {_mm512_srli_epi64(a.v, BITS)};
}
template <int BITS>
inline U32 shift_left(U32 a) {
  return {_mm512_slli_epi32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right(U32 a) {
  return {_mm512_srli_epi32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right_signed(U32 a) {
  return {_mm512_srai_epi32(a.v, BITS)};
}
inline U32 min_unsigned(U32 a, U32 b) { return {_mm512_min_epu32(a.v, b.v)}; }

inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F64 fma(F64 a, F64 b, F64 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline F32 fnma(F32 a, F32 b, F32 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline F64 fnma(F64 a, F64 b, F64 c) { return {_mm512_fnmadd_pd(a.v, b.v, c.v)}; }
inline F32 square_root(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F64 square_root(F64 a) { return {_mm512_sqrt_pd(a.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F64 min(F64 a, F64 b) { return {_mm512_min_pd(a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F64 max(F64 a, F64 b) { return {_mm512_max_pd(a.v, b.v)}; }

inline F32 from_signed(U32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline U32 bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
inline U64 bits(F64 a) { return {_mm512_castpd_si512(a.v)}; }
inline F32 from_bits(U32 a) { return {_mm512_castsi512_ps(a.v)}; }
inline F64 from_bits(U64 a) { return {_mm512_castsi512_pd(a.v)}; }
inline U64 as_u64(U32 a) { return {a.v}; }

inline Mask32 less(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask64 less(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask32 top_bit(U32 a) { return {_mm512_movepi32_mask(a.v)}; }
inline Mask64 top_bit(U64 a) { return {_mm512_movepi64_mask(a.v)}; }
inline F32 select(Mask32 mask, F32 yes, F32 no) {
  return {_mm512_mask_blend_ps(mask.v, no.v, yes.v)};
}
inline F64 select(Mask64 mask, F64 yes, F64 no) {
  return {_mm512_mask_blend_pd(mask.v, no.v, yes.v)};
}
inline U32 select(Mask32 mask, U32 yes, U32 no) {
  return {_mm512_mask_blend_epi32(mask.v, no.v, yes.v)};
}
inline bool all(Mask32 mask) { return mask.v == 0xFFFF; }
inline bool all(Mask64 mask) { return mask.v == 0xFF; }

template <uint64_t CONSTANT>
inline U64 multiply(U64 x) {
  return {_mm512_mullo_epi64(x.v, _mm512_set1_epi64(static_cast<int64_t>(CONSTANT)))};
}

// A shuffle into the other operand is one instruction, a shift and a blend are two.
inline U32 low_words(U64 a, U64 b) {
  return {_mm512_mask_shuffle_epi32(a.v, 0xAAAA, b.v, _MM_PERM_CCAA)};
}
inline U32 high_words(U64 a, U64 b) {
  return {_mm512_mask_shuffle_epi32(b.v, 0x5555, a.v, _MM_PERM_DDBB)};
}
inline U64 high_word_below(U64 a, U64 top) {
  return {_mm512_mask_shuffle_epi32(top.v, 0x5555, a.v, _MM_PERM_DDBB)};
}
inline U32 high_halves(U32 a, U32 b) {
  return {_mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a.v, 16), b.v)};
}
template <class Software>
inline U32 float16_code(F32 a) {
  return {_mm512_cvtepu16_epi32(_mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT))};
}
inline F32 round_to_f32(F64 a, F64 b) {
  const __m512 even = _mm512_castps256_ps512(_mm512_cvtpd_ps(a.v));
  const __m512 odd = _mm512_castps256_ps512(_mm512_cvtpd_ps(b.v));
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(even, order, odd)};
}

// Blocks of 128 bits: rows[i] = blocks {a.i, b.i, c.i, d.i}.
inline void transpose_blocks(__m512i a, __m512i b, __m512i c, __m512i d, __m512i (&rows)[4]) {
  const __m512i ab_low = _mm512_shuffle_i32x4(a, b, 0x44),
                ab_high = _mm512_shuffle_i32x4(a, b, 0xEE);
  const __m512i cd_low = _mm512_shuffle_i32x4(c, d, 0x44),
                cd_high = _mm512_shuffle_i32x4(c, d, 0xEE);
  rows[0] = _mm512_shuffle_i32x4(ab_low, cd_low, 0x88);
  rows[1] = _mm512_shuffle_i32x4(ab_low, cd_low, 0xDD);
  rows[2] = _mm512_shuffle_i32x4(ab_high, cd_high, 0x88);
  rows[3] = _mm512_shuffle_i32x4(ab_high, cd_high, 0xDD);
}

inline void transpose(U64 (&rows)[LANES]) {
  // Pairs of steps, in blocks of the even lanes and of the odd lanes; then the blocks.
  __m512i even[4], odd[4];
  for (int i = 0; i < 4; ++i) {
    even[i] = _mm512_unpacklo_epi64(rows[2 * i].v, rows[2 * i + 1].v);
    odd[i] = _mm512_unpackhi_epi64(rows[2 * i].v, rows[2 * i + 1].v);
  }
  __m512i even_rows[4], odd_rows[4];
  transpose_blocks(even[0], even[1], even[2], even[3], even_rows);
  transpose_blocks(odd[0], odd[1], odd[2], odd[3], odd_rows);
  for (int i = 0; i < 4; ++i) {
    rows[2 * i].v = even_rows[i];
    rows[2 * i + 1].v = odd_rows[i];
  }
}

inline void interleave(const F32 (&even)[LANES / 2], const F32 (&odd)[LANES / 2],
                       U64 (&rows)[LANES]) {
  // A step pair's even lanes, then its odd lanes, each a 128-bit block.
  __m512i low[4], high[4];
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm512_castps_si512(_mm512_unpacklo_ps(even[i].v, odd[i].v));
    high[i] = _mm512_castps_si512(_mm512_unpackhi_ps(even[i].v, odd[i].v));
  }
  __m512i low_rows[4], high_rows[4];
  transpose_blocks(low[0], low[1], low[2], low[3], low_rows);
  transpose_blocks(high[0], high[1], high[2], high[3], high_rows);
  for (int i = 0; i < 4; ++i) {
    rows[2 * i].v = low_rows[i];
    rows[2 * i + 1].v = high_rows[i];
  }
}

}  // namespace
