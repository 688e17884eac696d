#include "sampler.h"

#include <math.h>
#include <stdio.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "environment.h"
#include "normal_cdf.h"
#include "time_step_bias.h"

namespace fanin {
namespace {

struct Format {
  const char* name;
  size_t item_size;
  int mantissa_bits;      // stored, without the leading 1
  int smallest_exponent;  // of a normal value
  double largest;         // finite
};

constexpr Format FORMATS[DTYPES] = {{"float64", 8, 52, -1022, 0x1.fffffffffffffp1023},
                                    {"float32", 4, 23, -126, 0x1.fffffep127},
                                    {"float16", 2, 10, -14, 65504},
                                    {"bfloat16", 2, 7, -126, 0x1.fep127},
                                    {"float8_e4m3fn", 1, 3, -6, 448},
                                    {"float8_e5m2", 1, 2, -14, 57344}};

const Format& format(Dtype dtype) { return FORMATS[static_cast<int>(dtype)]; }

// Where the float32 way of the truncated normal ends: the smallest probability of an interval that
// begins farther out, 2^-33 of its whole, would be a float32 subnormal.
constexpr double FAR = 11;
constexpr double FARTHEST = 37;  // Phi(-37) = 6e-300
// The float64 way keeps tail probabilities times this, out of the subnormals.
constexpr double TAIL_SCALE = 0x1p64;

std::string text(double value) {
  char buffer[32];
  snprintf(buffer, sizeof buffer, "%.17g", value);
  double parsed;
  for (int digits = 1; digits < 17; ++digits) {  // the shortest that is still the same number
    char shorter[32];
    snprintf(shorter, sizeof shorter, "%.*g", digits, value);
    if (sscanf(shorter, "%lf", &parsed) == 1 && parsed == value) return shorter;
  }
  return buffer;
}

template <class T>
T round_parameter(const char* name, double value, const char* type) {
  const T rounded = static_cast<T>(value);
  if (isfinite(value) && !isfinite(rounded)) {
    throw std::invalid_argument(std::string(name) + " = " + text(value) + " is too large for " +
                                type);
  }
  if (value != 0 && rounded == 0) {
    throw std::invalid_argument(std::string(name) + " = " + text(value) + " is too small for " +
                                type + ": it would round to 0");
  }
  return rounded;
}

double power_of_two(int exponent) { return ldexp(1.0, exponent); }

// The smallest value of the dtype at or above x; +infinity if there is none.
double round_up(double x, Dtype dtype) {
  const Format& f = format(dtype);
  if (dtype == Dtype::float64 || !isfinite(x)) return x;
  if (x > f.largest) return std::numeric_limits<double>::infinity();
  if (x < -f.largest) return -f.largest;
  const int exponent = x == 0 ? f.smallest_exponent : ilogb(x);
  const int unit =
      (exponent > f.smallest_exponent ? exponent : f.smallest_exponent) - f.mantissa_bits;
  return ceil(x * power_of_two(-unit)) * power_of_two(unit) + 0.0;  // + 0.0: never -0
}

double round_down(double x, Dtype dtype) { return 0.0 - round_up(-x, dtype); }

double next_below(double x) { return nextafter(x, -std::numeric_limits<double>::infinity()); }

// The bytes of a value in the output's dtype, by the kernels' own rounding: a uniform of width 0.
void encode(double value, Dtype dtype, char* pattern) {
  Parameters p = {};
  p.f32 = {0, static_cast<float>(value), -INFINITY, INFINITY};
  p.f64 = {0, value, -INFINITY, INFINITY};
  Lanes lanes = {};
  lanes.origin[0] = pattern;
  lanes.end[0] = item_size(dtype);
  const auto uniform = static_cast<int>(Distribution::uniform);
  baseline_kernels().kernels[uniform][static_cast<int>(dtype)](p, lanes);
}

}  // namespace

size_t item_size(Dtype dtype) { return format(dtype).item_size; }

Sampler::Sampler(Distribution distribution, Dtype dtype)
    : distribution_(distribution), dtype_(dtype), unit_elements_(1), unit_draws_(1) {
  const bool wide = dtype == Dtype::float64;
  if (distribution == Distribution::normal) {
    unit_elements_ = 2;
    unit_draws_ = wide ? 2 : 1;
  } else if (distribution == Distribution::uniform ||
             distribution == Distribution::time_step_bias) {
    unit_elements_ = wide ? 1 : 2;
  }
}

void Sampler::set_affine(const char* scale_name, double scale, const char* offset_name,
                         double offset) {
  constexpr double INF = std::numeric_limits<double>::infinity();
  if (dtype_ == Dtype::float64) {
    parameters_.f64 = {round_parameter<double>(scale_name, scale, "float64"), offset, -INF, INF};
    if (!isfinite(scale)) {
      throw std::invalid_argument(std::string(scale_name) + " is too large for float64");
    }
  } else {
    parameters_.f32 = {round_parameter<float>(scale_name, scale, "float32"),
                       round_parameter<float>(offset_name, offset, "float32"), -INFINITY, INFINITY};
    if (!isfinite(scale)) {
      throw std::invalid_argument(std::string(scale_name) + " is too large for float32");
    }
  }
}

void Sampler::set_bounds(double low, double high, bool open_above) {
  const double smallest = round_up(low, dtype_);
  const double largest = round_down(open_above ? next_below(high) : high, dtype_);
  if (!(smallest <= largest) || smallest == INFINITY || largest == -INFINITY) {
    throw std::invalid_argument(std::string("no ") + format(dtype_).name + " value lies in [" +
                                text(low) + ", " + text(high) + (open_above ? ")" : "]"));
  }
  parameters_.f32.smallest = static_cast<float>(smallest);
  parameters_.f32.largest = static_cast<float>(largest);
  parameters_.f64.smallest = smallest;
  parameters_.f64.largest = largest;
}

Sampler Sampler::constant(double value, Dtype dtype) {
  const IeeeEnvironment environment;
  Sampler sampler(Distribution::uniform, dtype);
  sampler.constant_ = true;
  sampler.unit_draws_ = 0;
  if (dtype != Dtype::float64) round_parameter<float>("value", value, "float32");
  encode(value, dtype, sampler.pattern_);
  return sampler;
}

Sampler Sampler::uniform(double low, double high, Dtype dtype) {
  const IeeeEnvironment environment;
  Sampler sampler(Distribution::uniform, dtype);
  sampler.set_affine("high - low", high - low, "low", low);
  sampler.set_bounds(low, high, true);
  return sampler;
}

Sampler Sampler::normal(double mean, double std, Dtype dtype) {
  const IeeeEnvironment environment;
  Sampler sampler(Distribution::normal, dtype);
  sampler.set_affine("std", std, "mean", mean);
  return sampler;
}

Sampler Sampler::truncated_normal(double mean, double std, double low_sigma, double high_sigma,
                                  double low, double high, Dtype dtype) {
  const IeeeEnvironment environment;
  if (std == 0) return constant(mean, dtype);
  if (low_sigma > FARTHEST || high_sigma < -FARTHEST) {
    throw std::invalid_argument("the interval from " + text(low_sigma) + " to " + text(high_sigma) +
                                " sigma begins more than " + text(FARTHEST) +
                                " sigma from the mean");
  }
  const bool far = dtype != Dtype::float64 && (low_sigma > FAR || high_sigma < -FAR);
  Sampler sampler(far ? Distribution::truncated_normal_far : Distribution::truncated_normal, dtype);
  sampler.set_affine("std", std, "mean", mean);
  sampler.set_bounds(low, high, false);
  const bool wide = dtype == Dtype::float64;
  const Truncation t = truncation(low_sigma, high_sigma);
  const double tail_scale = wide || far ? TAIL_SCALE : 1;
  Parameters& p = sampler.parameters_;
  p.step = t.mass * (wide ? 0x1p-52 : 0x1p-32);
  p.centre = t.centre;
  // The mass is scaled first: 2^-52 of that of a far interval is a subnormal.
  p.tail_step = t.mass * tail_scale * (wide ? 0x1p-52 : 0x1p-32);
  p.lower = t.lower * tail_scale;
  p.upper = t.upper * tail_scale;
  return sampler;
}

Sampler Sampler::time_step_bias(double low, double high, double floor, Dtype dtype) {
  const IeeeEnvironment environment;
  Sampler sampler(Distribution::time_step_bias, dtype);
  sampler.parameters_.f64 = time_step_parameters(low, high, floor);
  return sampler;
}

}  // namespace fanin
