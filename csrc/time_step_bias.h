// The bias of Mamba's time steps: the inverse softplus of steps that are log-uniform in [low,
// high], none below a floor (Gu and Dao, "Mamba", 2023, section 3.6). An element takes one uniform
// u; its value is computed in float64 whatever the dtype, and rounded to float32 and on.
//
// A few thousand values a layer: one plain loop, the same on every instruction set, with a
// multiply-add in software (half a microsecond a value). In the kernels' own files it would take a
// tenth of that, but its code there makes the compiler spill vectors in the others.
#pragma once

#include "kernels.h"
#include "normal_cdf.h"

namespace fanin {

// ln(high / low) and ln(low) as scale and offset, the floor as the smallest step.
Affine<double> time_step_parameters(double low, double high, double floor);

// u in [0, 1).
double time_step_bias(const Affine<double>& steps, double u);

Moments time_step_bias_moments(double low, double high, double floor);

template <Dtype dtype>
void sample_time_step_bias(const Parameters& parameters, const Lanes& lanes);

}  // namespace fanin
