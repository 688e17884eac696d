// exp, ln and what is made of them, in float64, one value at a time: for parameters, and for the
// few values of a model that are not worth a vector's. Own arithmetic, never the C library's, whose
// bits change with its version.
#pragma once

namespace fanin {

// 0 below -746, infinity above 709.
double exponential(double x);

// x > 0 and no subnormal.
double logarithm(double x);

// The x with ln(1 + exp(x)) = y, for y > 0 and no subnormal.
double inverse_softplus(double y);

}  // namespace fanin
