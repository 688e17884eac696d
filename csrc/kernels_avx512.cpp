#include "faults.h"
#include "kernels.h"
#include "polynomials.h"
#include "simd_avx512.h"
#include "time_step_bias.h"
#include "xorshift.h"
//
#include "vector_math.inl"
//
#include "gemm.inl"
//
#include "kernels.inl"

const fanin::KernelTable& fanin::avx512_kernels() { return KERNELS; }
