// The vector vocabulary of the kernels (see simd_baseline.h) in AVX2, FMA and F16C: four 64-bit
// elements.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

namespace {

constexpr int LANES = 4;  // 64-bit elements in a vector
constexpr const char* SIMD_NAME = "avx2";
constexpr int TILE_ROWS = 6, TILE_VECTORS = 2;  // 12 sums, 2 vectors of B, of 16 registers

struct U64 {
  __m256i v;
};
struct U32 {
  __m256i v;
};
struct F32 {
  __m256 v;
};
struct F64 {
  __m256d v;
};
struct Mask32 {
  __m256 v;
};
struct Mask64 {
  __m256d v;
};

template <class V, class T>
inline V splat(T value);
template <>
inline U64 splat<U64>(uint64_t value) {
  return {_mm256_set1_epi64x(static_cast<int64_t>(value))};
}
template <>
inline U32 splat<U32>(uint32_t value) {
  return {_mm256_set1_epi32(static_cast<int>(value))};
}
template <>
inline F32 splat<F32>(float value) {
  return {_mm256_set1_ps(value)};
}
template <>
inline F64 splat<F64>(double value) {
  return {_mm256_set1_pd(value)};
}
inline U64 load(const uint64_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline F64 load(const double* p) { return {_mm256_loadu_pd(p)}; }
inline void store(void* p, U64 a) { _mm256_storeu_si256(static_cast<__m256i*>(p), a.v); }
inline void store(float* p, F32 a) { _mm256_storeu_ps(p, a.v); }
inline void store(double* p, F64 a) { _mm256_storeu_pd(p, a.v); }
constexpr bool STREAMS = false;  // see kernels.inl
inline void stream(void* p, U64 a) { store(p, a); }
inline void stream_fence() {}

inline U64 operator^(U64 a, U64 b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline U64 operator&(U64 a, U64 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline U64 operator|(U64 a, U64 b) { return {_mm256_or_si256(a.v, b.v)}; }
inline U64 operator+(U64 a, U64 b) { return {_mm256_add_epi64(a.v, b.v)}; }
inline U64 operator-(U64 a, U64 b) { return {_mm256_sub_epi64(a.v, b.v)}; }
inline U32 operator^(U32 a, U32 b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline U32 operator&(U32 a, U32 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline U32 operator|(U32 a, U32 b) { return {_mm256_or_si256(a.v, b.v)}; }
inline U32 operator+(U32 a, U32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline U32 operator-(U32 a, U32 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F64 operator+(F64 a, F64 b) { return {_mm256_add_pd(a.v, b.v)}; }
inline F64 operator-(F64 a, F64 b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline F64 operator*(F64 a, F64 b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline F64 operator/(F64 a, F64 b) { return {_mm256_div_pd(a.v, b.v)}; }

template <int BITS>
inline U64 shift_left(U64 a) {
  return {_mm256_slli_epi64(a.v, BITS)};
}
template <int BITS>
inline U64 shift_right(U64 a) {
  return {_mm256_srli_epi64(a.v, BITS)};
}
template <int BITS>
inline U32 shift_left(U32 a) {
  return {_mm256_slli_epi32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right(U32 a) {
  return {_mm256_srli_epi32(a.v, BITS)};
}
template <int BITS>
inline U32 shift_right_signed(U32 a) {
  return {_mm256_srai_epi32(a.v, BITS)};
}
inline U32 min_unsigned(U32 a, U32 b) { return {_mm256_min_epu32(a.v, b.v)}; }

inline F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F64 fma(F64 a, F64 b, F64 c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline F32 fnma(F32 a, F32 b, F32 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
inline F64 fnma(F64 a, F64 b, F64 c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }
inline F32 square_root(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
inline F64 square_root(F64 a) { return {_mm256_sqrt_pd(a.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline F64 min(F64 a, F64 b) { return {_mm256_min_pd(a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F64 max(F64 a, F64 b) { return {_mm256_max_pd(a.v, b.v)}; }

inline F32 from_signed(U32 a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline U32 bits(F32 a) { return {_mm256_castps_si256(a.v)}; }
inline U64 bits(F64 a) { return {_mm256_castpd_si256(a.v)}; }
inline F32 from_bits(U32 a) { return {_mm256_castsi256_ps(a.v)}; }
inline F64 from_bits(U64 a) { return {_mm256_castsi256_pd(a.v)}; }
inline U64 as_u64(U32 a) { return {a.v}; }

inline Mask32 less(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask64 less(F64 a, F64 b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask32 top_bit(U32 a) { return {_mm256_castsi256_ps(a.v)}; }  // all that a blend looks at
inline Mask64 top_bit(U64 a) { return {_mm256_castsi256_pd(a.v)}; }
inline F32 select(Mask32 mask, F32 yes, F32 no) { return {_mm256_blendv_ps(no.v, yes.v, mask.v)}; }
inline F64 select(Mask64 mask, F64 yes, F64 no) { return {_mm256_blendv_pd(no.v, yes.v, mask.v)}; }
inline U32 select(Mask32 mask, U32 yes, U32 no) {
  return bits(select(mask, from_bits(yes), from_bits(no)));
}
inline bool all(Mask32 mask) { return _mm256_movemask_ps(mask.v) == 0xFF; }
inline bool all(Mask64 mask) { return _mm256_movemask_pd(mask.v) == 0xF; }

// AVX2 has no 64-bit product: low * low, and the two crossed products moved up.
template <uint64_t CONSTANT>
inline U64 multiply(U64 x) {
  const __m256i low = _mm256_set1_epi64x(static_cast<int64_t>(CONSTANT & 0xFFFFFFFF));
  const __m256i high = _mm256_set1_epi64x(static_cast<int64_t>(CONSTANT >> 32));
  const __m256i crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x.v, 32), low),
                                           _mm256_mul_epu32(x.v, high));
  return {_mm256_add_epi64(_mm256_mul_epu32(x.v, low), _mm256_slli_epi64(crossed, 32))};
}

// Shifts and blends rather than shuffles, of which a core has fewer units.
inline U32 low_words(U64 a, U64 b) {
  return {_mm256_blend_epi32(a.v, _mm256_slli_epi64(b.v, 32), 0b10101010)};
}
inline U32 high_words(U64 a, U64 b) {
  return {_mm256_blend_epi32(_mm256_srli_epi64(a.v, 32), b.v, 0b10101010)};
}
inline U64 high_word_below(U64 a, U64 top) { return shift_right<32>(a) | top; }
inline U32 high_halves(U32 a, U32 b) {
  return {_mm256_blend_epi16(_mm256_srli_epi32(a.v, 16), b.v, 0b10101010)};
}
template <class Software>
inline U32 float16_code(F32 a) {
  return {_mm256_cvtepu16_epi32(_mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT))};
}
inline F32 round_to_f32(F64 a, F64 b) {
  const __m128 even = _mm256_cvtpd_ps(a.v), odd = _mm256_cvtpd_ps(b.v);
  return {_mm256_set_m128(_mm_unpackhi_ps(even, odd), _mm_unpacklo_ps(even, odd))};
}

inline void transpose(U64 (&rows)[LANES]) {
  const __m256i a = _mm256_unpacklo_epi64(rows[0].v, rows[1].v);
  const __m256i b = _mm256_unpackhi_epi64(rows[0].v, rows[1].v);
  const __m256i c = _mm256_unpacklo_epi64(rows[2].v, rows[3].v);
  const __m256i d = _mm256_unpackhi_epi64(rows[2].v, rows[3].v);
  rows[0].v = _mm256_permute2x128_si256(a, c, 0x20);
  rows[1].v = _mm256_permute2x128_si256(b, d, 0x20);
  rows[2].v = _mm256_permute2x128_si256(a, c, 0x31);
  rows[3].v = _mm256_permute2x128_si256(b, d, 0x31);
}

inline void interleave(const F32 (&even)[LANES / 2], const F32 (&odd)[LANES / 2],
                       U64 (&rows)[LANES]) {
  // Lanes 0 and 2 of a step pair, then lanes 1 and 3, each a 128-bit block.
  const __m256i a = _mm256_castps_si256(_mm256_unpacklo_ps(even[0].v, odd[0].v));
  const __m256i b = _mm256_castps_si256(_mm256_unpackhi_ps(even[0].v, odd[0].v));
  const __m256i c = _mm256_castps_si256(_mm256_unpacklo_ps(even[1].v, odd[1].v));
  const __m256i d = _mm256_castps_si256(_mm256_unpackhi_ps(even[1].v, odd[1].v));
  rows[0].v = _mm256_permute2x128_si256(a, c, 0x20);
  rows[1].v = _mm256_permute2x128_si256(b, d, 0x20);
  rows[2].v = _mm256_permute2x128_si256(a, c, 0x31);
  rows[3].v = _mm256_permute2x128_si256(b, d, 0x31);
}

}  // namespace
