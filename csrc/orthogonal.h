// Random orthogonal matrices with the law of Haar, any part of them, at any place in memory.
//
// The Q of a Gaussian matrix's QR, in law, without the factoring: a product of reflectors whose
// vectors are independent Gaussians of decreasing length (Stewart, "The efficient generation of
// random orthogonal matrices with an application to condition estimators", SIAM J. Numer. Anal. 17,
// 1980). It is applied in panels I - V T V^T (Schreiber and Van Loan, "A storage-efficient WY
// representation for products of Householder transformations", SIAM J. Sci. Stat. Comput. 10,
// 1989), from the last to the first, on rows whose number grows: half the operations of QR and Q,
// nearly all of them in the matrix product of gemm.h, whose order of summation is fixed.
//
// With S the short and L the long side, reflector k has x = the normals numbered kL + j, j =
// k..L-1, s_k = copysign(1, x_k), v = x + s_k |x| e_k, H_k = I - 2 v v^T / v^T v (I for |x| = 0),
// and vector i of the S is -s_i e_i H_i H_(i-1) ... H_0 times the gain. A vector needs no other
// vector.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "threads.h"

namespace fanin {

// Which indices along an axis, in any order, and how many bytes each lies from the origin.
struct Places {
  const int64_t* index;
  const int64_t* offset;
  size_t count;
};

// Element j of vector i of matrix b lies at the sum of the three offsets.
struct OrthogonalRegion {
  uint64_t short_side, long_side;
  Places matrices, vectors, components;
};

// The reflectors of a panel are sampled when they are needed. Memory beside the output: the panel,
// and, where the output's rows are not those of the computation (another dtype, strides, a part of
// the long side), a buffer of up to CHUNK vectors; both for each thread where a batch of small
// matrices is shared out.
void fill_orthogonal(uint64_t position, const OrthogonalRegion& region, double gain, Dtype dtype,
                     char* out, int threads, const Poll& poll);

}  // namespace fanin
