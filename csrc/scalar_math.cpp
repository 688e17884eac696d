#include "scalar_math.h"

#include <math.h>

#include "polynomials.h"

namespace fanin {
namespace {

using polynomials::LN2_HI;
using polynomials::LN2_LO;

constexpr double HALF_LN2 = 0.34657359027997264;

// exp(r) - 1 for |r| <= ln(2) / 2.
double small_expm1(double r) {
  return fused_multiply_add(r * r, polynomial(polynomials::EXP_F64, r), r);
}

}  // namespace

double exponential(double x) {
  if (x < -746) return 0;
  if (x > 709) return INFINITY;
  const double n = floor(fused_multiply_add(x, 1.4426950408889634074, 0.5));
  const double r = fused_multiply_add(-n, LN2_LO, fused_multiply_add(-n, LN2_HI, x));
  return ldexp(1 + small_expm1(r), static_cast<int>(n));
}

double logarithm(double x) {
  int exponent;
  double m = frexp(x, &exponent);  // in [1/2, 1), then in [sqrt(1/2), sqrt(2))
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  const double ln_m = fused_multiply_add(s * s2, polynomial(polynomials::LN_F64, s2), 2 * s);
  const double low = fused_multiply_add(exponent, LN2_LO, ln_m);
  return fused_multiply_add(exponent, LN2_HI, low);
}

// y + ln(1 - exp(-y)): where y is small, 1 - exp(-y) from the series without the 1.
double inverse_softplus(double y) {
  const double share = y <= HALF_LN2 ? -small_expm1(-y) : 1 - exponential(-y);
  return y + logarithm(share);
}

}  // namespace fanin
