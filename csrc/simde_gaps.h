// The AVX-512 intrinsics that the kernels use and SIMD Everywhere 0.7.4 lacks, from their halves.
#pragma once

namespace {

inline __m512 gap_cvtepi32_ps(__m512i a) {
  const __m256 low = _mm256_cvtepi32_ps(_mm512_castsi512_si256(a));
  const __m256 high = _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(a, 1));
  return _mm512_castpd_ps(
      _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

inline __m256 gap_cvtpd_ps(__m512d a) {
  const __m128 low = _mm256_cvtpd_ps(_mm512_castpd512_pd256(a));
  const __m128 high = _mm256_cvtpd_ps(_mm512_extractf64x4_pd(a, 1));
  return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

inline __m512i gap_srai_epi32(__m512i a, int bits) {
  const __m256i low = _mm256_srai_epi32(_mm512_castsi512_si256(a), bits);
  const __m256i high = _mm256_srai_epi32(_mm512_extracti64x4_epi64(a, 1), bits);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

inline __m256i gap_cvtps_ph(__m512 a, int rounding) {
  const __m256i upper = _mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1);
  const __m128i low = _mm256_cvtps_ph(_mm512_castps512_ps256(a), _MM_FROUND_TO_NEAREST_INT);
  const __m128i high = _mm256_cvtps_ph(_mm256_castsi256_ps(upper), _MM_FROUND_TO_NEAREST_INT);
  (void)rounding;
  return _mm256_set_m128i(high, low);
}

inline __m512i gap_cvtepu16_epi32(__m256i a) {
  const __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(a));
  const __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// The 32-bit words of a in the order of two-bit numbers, where the mask says so.
inline __m512i gap_mask_shuffle_epi32(__m512i no, __mmask16 mask, __m512i a, int order) {
  int words[16], shuffled[16];
  _mm512_storeu_si512(words, a);
  for (int i = 0; i < 16; ++i) shuffled[i] = words[i / 4 * 4 + ((order >> i % 4 * 2) & 3)];
  return _mm512_mask_blend_epi32(mask, no, _mm512_loadu_si512(shuffled));
}

inline void gap_stream_si512(__m512i* p, __m512i a) {
  __m256i* const halves = reinterpret_cast<__m256i*>(p);
  _mm256_stream_si256(halves, _mm512_castsi512_si256(a));
  _mm256_stream_si256(halves + 1, _mm512_extracti64x4_epi64(a, 1));
}

}  // namespace

#define _mm512_mask_shuffle_epi32 gap_mask_shuffle_epi32
#define _MM_PERM_CCAA 0xA0
#define _MM_PERM_DDBB 0xF5
#define _mm512_stream_si512 gap_stream_si512
#define _mm512_cvtps_ph gap_cvtps_ph
#define _mm512_cvtepu16_epi32 gap_cvtepu16_epi32
#define _mm512_srai_epi32 gap_srai_epi32
#define _mm512_cvtepi32_ps gap_cvtepi32_ps
#define _mm512_cvtpd_ps gap_cvtpd_ps
