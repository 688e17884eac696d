// The normal distribution in float64, one value at a time: for parameters, not for samples.
#pragma once

namespace fanin {

// The probability of z <= x, z standard normal: relative error below 1e-15 also far in the lower
// tail.
double normal_cdf(double x);

// What lies inside and outside of [low, high] of the standard normal, low <= high, possibly
// infinite.
struct Truncation {
  double lower,
      upper;      // the probabilities below low and above high, each to its own relative precision
  double mass;    // between them
  double centre;  // the probability's middle, from the median: (lower - upper) / 2
};
Truncation truncation(double low, double high);

struct Moments {
  double mean, std;
};

// Of the standard normal truncated to [low, high], low < high, either of them possibly infinite.
Moments truncated_normal_moments(double low, double high);

}  // namespace fanin
