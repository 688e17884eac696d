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

}  // namespace

#define _mm512_srai_epi32 gap_srai_epi32
#define _mm512_cvtepi32_ps gap_cvtepi32_ps
#define _mm512_cvtpd_ps gap_cvtpd_ps
