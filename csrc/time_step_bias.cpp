#include "time_step_bias.h"

#include <math.h>
#include <string.h>

#include "quadrature.h"
#include "sampler.h"
#include "scalar_math.h"
#include "software_fma.h"
#include "xorshift.h"

namespace fanin {

Affine<double> time_step_parameters(double low, double high, double floor) {
  const double offset = logarithm(low);
  return {logarithm(high) - offset, offset, floor, INFINITY};
}

double time_step_bias(const Affine<double>& steps, double u) {
  const double step = exponential(fused_multiply_add(steps.scale, u, steps.offset));
  return inverse_softplus(step < steps.smallest ? steps.smallest : step);
}

// What is below the floor has one value; above it, the value is smooth in u.
Moments time_step_bias_moments(double low, double high, double floor) {
  const Affine<double> steps = time_step_parameters(low, high, floor);
  if (high <= low || high <= floor) return {time_step_bias(steps, 1), 0};
  const double floored = floor > low ? (logarithm(floor) - steps.offset) / steps.scale : 0;
  const double about = time_step_bias(steps, 0.5);  // keeps the variance from cancelling
  double mass = 0, first = 0, second = 0;
  gauss_legendre(floored, 1, [&](double u, double weight) {
    const double d = time_step_bias(steps, u) - about;
    mass += weight;
    first += weight * d;
    second += weight * d * d;
  });
  const double at_floor = floored > 0 ? inverse_softplus(floor) - about : 0;
  first = floored * at_floor + (1 - floored) * (first / mass);
  second = floored * at_floor * at_floor + (1 - floored) * (second / mass);
  return {about + first, sqrt(second - first * first)};
}

template <Dtype dtype>
void sample_time_step_bias(const Parameters& parameters, const Lanes& lanes) {
  constexpr bool WIDE = dtype == Dtype::float64;
  constexpr int VALUES = WIDE ? 1 : 2;  // a draw
  const size_t item = item_size(dtype);
  for (int lane = 0; lane < MAX_LANES; ++lane) {
    uint64_t state = lanes.state[lane];
    for (size_t offset = 0; offset < lanes.end[lane]; offset += VALUES * item) {
      state = step(state);
      const uint64_t draw = output(state);
      char values[sizeof(double)];
      if constexpr (WIDE) {
        const double u = static_cast<double>(draw >> 11) * 0x1p-53;
        const double value = time_step_bias(parameters.f64, u);
        memcpy(values, &value, sizeof value);
      } else {
        const double even = static_cast<double>(draw >> 40) * 0x1p-24;
        const double odd = static_cast<double>(draw >> 8 & 0xFFFFFF) * 0x1p-24;
        const float pair[] = {static_cast<float>(time_step_bias(parameters.f64, even)),
                              static_cast<float>(time_step_bias(parameters.f64, odd))};
        baseline_kernels().round[static_cast<int>(dtype)](pair, 2, values);
      }
      for (int i = 0; i < VALUES; ++i) {
        const size_t at = offset + i * item;
        if (lanes.begin[lane] <= at && at < lanes.end[lane]) {
          memcpy(lanes.origin[lane] + at, values + i * item, item);
        }
      }
    }
  }
}

template void sample_time_step_bias<Dtype::float64>(const Parameters&, const Lanes&);
template void sample_time_step_bias<Dtype::float32>(const Parameters&, const Lanes&);
template void sample_time_step_bias<Dtype::float16>(const Parameters&, const Lanes&);
template void sample_time_step_bias<Dtype::bfloat16>(const Parameters&, const Lanes&);
template void sample_time_step_bias<Dtype::float8_e4m3fn>(const Parameters&, const Lanes&);
template void sample_time_step_bias<Dtype::float8_e5m2>(const Parameters&, const Lanes&);

}  // namespace fanin
