#include "faults.h"
#include "kernels.h"
#include "polynomials.h"
#include "simd_avx2.h"
#include "time_step_bias.h"
#include "xorshift.h"
//
#include "vector_math.inl"
//
#include "gemm.inl"
//
#include "kernels.inl"

const fanin::KernelTable& fanin::avx2_kernels() { return KERNELS; }
