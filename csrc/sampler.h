// A distribution, its parameters rounded for one output dtype, and how its elements use the draws.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

namespace fanin {

size_t item_size(Dtype dtype);

class Sampler {
 public:
  // Each throws std::invalid_argument where a parameter leaves the range of the computing type
  // (float64 for float64, float32 for the others), or where no value of the dtype lies in the
  // bounds. All else is the caller's to check: finite parameters, std >= 0, low < high.
  static Sampler constant(double value, Dtype dtype);
  static Sampler uniform(double low, double high, Dtype dtype);
  static Sampler normal(double mean, double std, Dtype dtype);
  // Truncated to [low_sigma, high_sigma] in units of std around the mean, which is [low, high].
  static Sampler truncated_normal(double mean, double std, double low_sigma, double high_sigma,
                                  double low, double high, Dtype dtype);
  // 1e-30 <= low <= high <= 1e30 and 0 <= floor <= 1e30: see time_step_bias.h.
  static Sampler time_step_bias(double low, double high, double floor, Dtype dtype);

  Dtype dtype() const { return dtype_; }
  bool is_constant() const { return constant_; }
  // The element's bytes, for a constant.
  const char* pattern() const { return pattern_; }
  Distribution distribution() const { return distribution_; }
  const Parameters& parameters() const { return parameters_; }

  // A unit is the smallest number of elements that begins with a draw of its own: 2 for pairs,
  // else 1.
  uint64_t unit_elements() const { return unit_elements_; }
  uint64_t unit_draws() const { return unit_draws_; }
  // How many draws a matrix of `elements` takes.
  uint64_t draws(uint64_t elements) const {
    return (elements / unit_elements_ + (elements % unit_elements_ != 0)) * unit_draws_;
  }

 private:
  Sampler(Distribution distribution, Dtype dtype);
  void set_affine(const char* scale_name, double scale, const char* offset_name, double offset);
  void set_bounds(double low, double high, bool open_above);

  Distribution distribution_;
  Dtype dtype_;
  bool constant_ = false;
  char pattern_[8] = {};
  uint64_t unit_elements_, unit_draws_;
  Parameters parameters_ = {};
};

}  // namespace fanin
