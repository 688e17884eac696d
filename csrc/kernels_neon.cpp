#include "faults.h"
#include "kernels.h"
#include "polynomials.h"
#include "simd_neon.h"
#include "time_step_bias.h"
#include "xorshift.h"
//
#include "vector_math.inl"
//
#include "gemm.inl"
//
#include "kernels.inl"

const fanin::KernelTable& fanin::neon_kernels() { return KERNELS; }
