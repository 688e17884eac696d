#include "faults.h"
#include "kernels.h"
#include "polynomials.h"
#include "simd_baseline.h"
#include "time_step_bias.h"
#include "xorshift.h"
//
#include "vector_math.inl"
//
#include "gemm.inl"
//
#include "kernels.inl"

const fanin::KernelTable& fanin::baseline_kernels() { return KERNELS; }
