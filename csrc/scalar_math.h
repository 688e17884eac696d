// exp, ln and what is made of them, in float64, one value at a time: for parameters, and for the
// few values of a model that are not worth a vector's. Own arithmetic, never the C library's, whose
// bits change with its version.
#pragma once

#include "software_fma.h"

namespace fanin {

// By Horner's rule, the constant coefficient first.
template <int N>
double polynomial(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = fused_multiply_add(sum, x, c[i]);
  return sum;
}

// 0 below -746, infinity above 709.
double exponential(double x);

// x > 0 and no subnormal.
double logarithm(double x);

// The x with ln(1 + exp(x)) = y, for y > 0 and no subnormal.
double inverse_softplus(double y);

}  // namespace fanin
