// Phi(-x) = erfc(x / sqrt 2) / 2, from one Chebyshev-like polynomial of (1 + 2y) exp(y^2) erfc(y)
// on the whole half line (Shepherd and Laframboise, Math. Comp. 36, 1981); near 0 from the
// Maclaurin series of Phi(x) - 1/2, which keeps its relative precision there. Moments by
// Gauss-Legendre quadrature: the closed forms cancel in narrow and in far intervals. Own arithmetic
// throughout, never the C library's erfc and exp, whose bits change with its version.
#include "normal_cdf.h"

#include <math.h>

#include "polynomials.h"
#include "quadrature.h"
#include "scalar_math.h"
#include "software_fma.h"

namespace fanin {
namespace {

constexpr double SQRT_HALF = 0.70710678118654752440;
constexpr double DENSITY_AT_0 = 0.39894228040143267794;  // 1 / sqrt(2 pi)

// exp(-x^2 / 2), with the rounding error of x^2 accounted for.
double density_ratio(double x) {
  const double square = x * x;
  const double error = fused_multiply_add(x, x, -square);
  const double value = exponential(-0.5 * square);
  return value == 0 ? 0 : fused_multiply_add(value, -0.5 * error, value);
}

// The probability above x >= 0.
double upper_tail(double x) {
  if (!(x < 40)) return 0;  // infinity too; Phi(-39) is below the smallest float64
  const double y = x * SQRT_HALF;
  const double t = (y - polynomials::ERFCX_K_F64) / (y + polynomials::ERFCX_K_F64);
  return 0.5 * density_ratio(x) * polynomial(polynomials::ERFCX_F64, t) / (1 + 2 * y);
}

// Phi(x) - 1/2.
double from_median(double x) {
  if (x < 0) return -from_median(-x);
  if (x > 1) return 0.5 - upper_tail(x);
  // x / sqrt(2 pi) sum over n of (-x^2/2)^n / (n! (2n + 1))
  const double step = -0.5 * x * x;
  double power = 1, sum = 0;
  for (int n = 0; n < 20; power *= step / ++n) sum += power / (2 * n + 1);
  return DENSITY_AT_0 * x * sum;
}

}  // namespace

double normal_cdf(double x) { return x < 0 ? upper_tail(-x) : 1 - upper_tail(x); }

Truncation truncation(double low, double high) {
  Truncation t;
  t.lower = normal_cdf(low);
  t.upper = normal_cdf(-high);
  if (low > 1) {
    t.mass = normal_cdf(-low) - t.upper;
  } else if (high < -1) {
    t.mass = normal_cdf(high) - t.lower;
  } else {
    t.mass = from_median(high) - from_median(low);
  }
  t.centre = 0.5 * (from_median(low) + from_median(high));
  return t;
}

Moments truncated_normal_moments(double low, double high) {
  // Distances d from the likeliest point keep their precision; beyond 10 sigma of it, in the sense
  // of the density, nothing is left to add.
  const double peak = low > 0 ? low : high < 0 ? high : 0;
  const double reach = sqrt(peak * peak + 100);
  const double begin = (low > -reach ? low : -reach) - peak;
  const double end = (high < reach ? high : reach) - peak;
  double mass = 0, first = 0, second = 0;
  gauss_legendre(begin, end, [&](double d, double weight) {
    const double exponent = -d * (peak + 0.5 * d);
    weight *= exponential(exponent < 0 ? exponent : 0);
    mass += weight;
    first += weight * d;
    second += weight * d * d;
  });
  const double distance = first / mass;
  const double variance = second / mass - distance * distance;
  return {low == -high ? 0 : peak + distance, sqrt(variance)};
}

}  // namespace fanin
