// ln, sin and cos, and the normal quantile, on the vectors of one instruction set.
//
// Included once by each kernels_*.cpp, after its simd_*.h. Only IEEE operations and fma, in the
// order written: that is what makes the bits the same everywhere. Coefficients: polynomials.h.

namespace {

namespace poly = fanin::polynomials;

// SCALE * (c[FIRST] + c[FIRST + STEP] y + c[FIRST + 2 STEP] y^2 ...) by Horner's rule.
template <int SCALE, int FIRST, int STEP, class T, int N, class V>
inline V horner(const T (&c)[N], V y) {
  const V lowest = splat<V>(SCALE * c[FIRST]);  // exact: the scale is a power of two
  if constexpr (FIRST + STEP < N) {
    return fma(horner<SCALE, FIRST + STEP, STEP>(c, y), y, lowest);
  } else {
    return lowest;
  }
}

// SCALE * (c[0] + c[1] x + c[2] x^2 ...). The longer, the more independent chains: a pass of a
// kernel waits for its polynomials, and the vectors in flight beside it hide only part of that.
template <int SCALE = 1, class T, int N, class V>
inline V polynomial(const T (&c)[N], V x) {
  if constexpr (N <= 5) {
    return horner<SCALE, 0, 1>(c, x);
  } else if constexpr (N <= 10) {
    const V x2 = x * x;
    const V high = fma(horner<SCALE, 2, 2>(c, x2), x, horner<SCALE, 1, 2>(c, x2));
    return fma(high, x, splat<V>(SCALE * c[0]));  // the largest term last: one rounding of its size
  } else {
    const V x2 = x * x;
    const V x4 = x2 * x2;
    const V low = fma(horner<SCALE, 1, 4>(c, x4), x, horner<SCALE, 0, 4>(c, x4));
    const V high = fma(horner<SCALE, 3, 4>(c, x4), x, horner<SCALE, 2, 4>(c, x4));
    return fma(high, x2, low);
  }
}

// SCALE * ln(x / 2^EXPONENT) for normal x > 0; exactly 0 at x = 2^EXPONENT.
template <int SCALE, int EXPONENT>
inline F32 ln(F32 x) {
  constexpr uint32_t ROOT_HALF = 0x3F3504F3;  // the bits of sqrt(1/2): the mantissa is in [r, 2r)
  const U32 offset = bits(x) - splat<U32>(ROOT_HALF + (uint32_t{EXPONENT} << 23));
  const F32 exponent = from_signed(shift_right_signed<23>(offset));
  const U32 mantissa = (offset & splat<U32>(uint32_t{0x007FFFFF})) + splat<U32>(ROOT_HALF);
  const F32 f = from_bits(mantissa) - splat<F32>(1.0f);
  const F32 scaled = f * splat<F32>(static_cast<float>(SCALE));
  F32 ln_mantissa = fma(f * f, polynomial<SCALE>(poly::LN_F32, f), scaled);
  if (planted("ln_coefficient")) {
    ln_mantissa = fma(f * f, splat<F32>(SCALE * 0.05f), ln_mantissa);
  }
  return fma(exponent, splat<F32>(SCALE * 0.693147180559945309f), ln_mantissa);
}

// The same in float64.
template <int SCALE, int EXPONENT>
inline F64 ln(F64 x) {
  constexpr uint64_t ROOT_HALF = 0x3FE6A09E667F3BCD;
  constexpr uint64_t MANTISSA = (uint64_t{1} << 52) - 1;
  constexpr uint64_t BIAS = 1024;  // keeps the shifted exponent above zero
  constexpr double TWO_52 = 4503599627370496.0;
  const U64 offset = bits(x) + splat<U64>((BIAS << 52) - ROOT_HALF);
  const U64 integer = shift_right<52>(offset) | splat<U64>(uint64_t{0x433} << 52);
  const F64 exponent = from_bits(integer) - splat<F64>(TWO_52 + BIAS + EXPONENT);
  const F64 m = from_bits((offset & splat<U64>(MANTISSA)) + splat<U64>(ROOT_HALF));
  const F64 one = splat<F64>(1.0);
  const F64 s = (m - one) / (m + one);
  const F64 s2 = s * s;
  const F64 twice = s * splat<F64>(2.0 * SCALE);
  const F64 ln_mantissa = fma(s * s2, polynomial<SCALE>(poly::LN_F64, s2), twice);
  const F64 low = fma(exponent, splat<F64>(SCALE * poly::LN2_LO), ln_mantissa);
  return fma(exponent, splat<F64>(SCALE * poly::LN2_HI), low);
}

// cos and sin of 2 pi (h 2^23 + (low >> 9) + 1/2) / 2^24, h the bit 0 of `high`.
//
// With a quarter turn as unit the angle is q + t, q the nearest integer, |t| <= 1/2: low << 1 read
// as a signed number is t, and low + 2^30 carries into q, whose bit 0 swaps the two and bit 1 turns
// them round.
inline void cos_sin(U32 high, U32 low, F32& cosine, F32& sine) {
  const U32 doubled = shift_left<1>(low);
  const F32 t =
      fma(from_signed(shift_right_signed<10>(doubled)), splat<F32>(0x1p-22f), splat<F32>(0x1p-23f));
  const F32 t2 = t * t;
  const F32 sin_t = t * polynomial(poly::SIN_F32, t2);
  const F32 cos_t = polynomial(poly::COS_F32, t2);
  const U32 nearest = low + splat<U32>(uint32_t{1} << 30);
  const U32 half_turn = shift_left<31>(high) ^ (low & doubled);  // its top bit
  const U32 sign_bit = splat<U32>(uint32_t{1} << 31);
  const Mask32 swap = top_bit(nearest);
  cosine = from_bits(bits(select(swap, sin_t, cos_t)) ^ ((half_turn ^ nearest) & sign_bit));
  const U32 sine_sign = planted("sine_sign") ? low & doubled : half_turn;
  sine = from_bits(bits(select(swap, cos_t, sin_t)) ^ (sine_sign & sign_bit));
}

// cos and sin of 2 pi (x >> 11) / 2^53, by the same way.
inline void cos_sin(U64 x, F64& cosine, F64& sine) {
  constexpr double TWO_52 = 4503599627370496.0;
  const U64 sign_bit = splat<U64>(uint64_t{1} << 63);
  const U64 magic = splat<U64>(uint64_t{0x433} << 52);
  // t + 1/2 in 51 bits, at the low end of a float64 of 2^52
  const U64 shifted = shift_right<13>(shift_left<2>(x) ^ sign_bit);
  const F64 t = (from_bits(shifted | magic) - splat<F64>(TWO_52 + 0x1p50)) * splat<F64>(0x1p-51);
  const F64 t2 = t * t;
  const F64 sin_t = t * polynomial(poly::SIN_F64, t2);
  const F64 cos_t = polynomial(poly::COS_F64, t2);
  const U64 nearest = x + splat<U64>(uint64_t{1} << 61);
  const Mask64 swap = top_bit(shift_left<1>(nearest));
  cosine =
      from_bits(bits(select(swap, sin_t, cos_t)) ^ ((nearest ^ shift_left<1>(nearest)) & sign_bit));
  sine = from_bits(bits(select(swap, cos_t, sin_t)) ^ (nearest & sign_bit));
}

// The piece of the normal quantile's tails that w lies in, at v = sqrt(w).
template <class V, class T, int PIECES, int N>
inline V quantile_tail(V w, const T (&end)[PIECES], const T (&origin)[PIECES],
                       const T (&coefficients)[PIECES][N]) {
  const V v = square_root(w);
  V z = polynomial(coefficients[0], v - splat<V>(origin[0]));
  for (int i = 1; i < PIECES; ++i) {
    const V next = polynomial(coefficients[i], v - splat<V>(origin[i]));
    z = select(less(w, splat<V>(end[i - 1])), z, next);
  }
  return z;
}

// How far from the median, in probability, the distance from it is the better argument: below, its
// rounding moves z by less than one unit in the last place; above, that of the tail does.
constexpr double CENTRE = 0.425;

// The z of probability 1/2 + centre, or, towards the end that `centre` points to, of the tail
// probability `tail` (the smaller of the two).
//
// As in Giles, "Approximating the erfinv function" (GPU Computing Gems 2, 2011): z / (2 p - 1) is
// smooth in w = -ln(4 p (1 - p)) for all but the outermost 1 in 400, and z in sqrt(w) there. His 2
// p - 1 loses the upper tail; here both tails come from their own probability. Rational
// approximations (Wichura's AS 241) cost a division and two branches more.
//
// A truncated normal takes 2.5 times as long as a normal; a draw for each element and its float64
// probabilities alone, without any quantile, 1.4 times with AVX2. Faster ways have other bits: both
// arguments at once, `centre` as the factor and `tail` in w, with nothing to select, 0.9 of the
// time; a quotient of two polynomials of degree 6 in `tail` in place of w and its polynomial, right
// to 2^-25.7 within 2 sigma and for no wider interval, 0.7 of the time.
inline F32 normal_quantile(F32 centre, F32 tail) {
  if (planted("upper_tail_from_below")) {
    const F32 one = splat<F32>(1.0f);
    const U32 upper = bits(centre) & splat<U32>(uint32_t{1} << 31);
    tail = select(top_bit(upper), tail, one - (one - tail));
  }
  const F32 one = splat<F32>(1.0f);
  const U32 sign = bits(centre) & splat<U32>(uint32_t{1} << 31);
  const Mask32 near = less(from_bits(bits(centre) ^ sign), splat<F32>(static_cast<float>(CENTRE)));
  const F32 twice = centre + centre;
  const F32 far = from_bits(bits(fma(splat<F32>(-2.0f), tail, one)) ^ sign);
  const F32 x = select(near, twice, far);  // 2 p - 1
  const F32 four = tail * splat<F32>(4.0f);
  const F32 four_p_q = select(near, fnma(twice, twice, one), fnma(four, tail, four));
  const F32 w = ln<-1, 0>(four_p_q);
  const F32 z =
      x * polynomial(poly::PROBIT_CENTRE_F32, w - splat<F32>(poly::PROBIT_CENTRE_ORIGIN_F32));
  const Mask32 central = less(w, splat<F32>(poly::PROBIT_CENTRE_END_F32));
  if (all(central)) return z;
  const F32 z_tail = quantile_tail(w, poly::PROBIT_TAIL_END_F32, poly::PROBIT_TAIL_ORIGIN_F32,
                                   poly::PROBIT_TAIL_F32);
  return select(central, z, from_bits(bits(z_tail) ^ sign));
}

// The same in float64; `tail` is 2^64 times the probability, so that none is a subnormal.
inline F64 normal_quantile(F64 centre, F64 tail) {
  const F64 one = splat<F64>(1.0);
  const U64 sign = bits(centre) & splat<U64>(uint64_t{1} << 63);
  const Mask64 near = less(from_bits(bits(centre) ^ sign), splat<F64>(CENTRE));
  const F64 twice = centre + centre;
  const F64 far = from_bits(bits(fma(splat<F64>(-0x1p-63), tail, one)) ^ sign);
  const F64 x = select(near, twice, far);
  const F64 near_p_q = fnma(twice, twice, one) * splat<F64>(0x1p64);
  const F64 far_p_q = tail * splat<F64>(4.0) * fma(splat<F64>(-0x1p-64), tail, one);
  const F64 w = ln<-1, 64>(select(near, near_p_q, far_p_q));
  const F64 z =
      x * polynomial(poly::PROBIT_CENTRE_F64, w - splat<F64>(poly::PROBIT_CENTRE_ORIGIN_F64));
  const Mask64 central = less(w, splat<F64>(poly::PROBIT_CENTRE_END_F64));
  if (all(central)) return z;
  const F64 z_tail = quantile_tail(w, poly::PROBIT_TAIL_END_F64, poly::PROBIT_TAIL_ORIGIN_F64,
                                   poly::PROBIT_TAIL_F64);
  return select(central, z, from_bits(bits(z_tail) ^ sign));
}

}  // namespace
