// What the kernels of every instruction set do, as plain structs and a table of function pointers.
//
// A kernel fills lanes: LANES stretches of memory of their own, each from a state of the generator
// of its own. The lanes are neighbouring parts of one run of elements, or short rows of a region:
// the kernel does not care. Nothing here depends on the instruction set but the number of lanes.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fanin {

enum class Dtype { float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2 };
inline constexpr int DTYPES = 6;

// truncated_normal_far: float32 and narrower, where the interval lies so far out that probabilities
// need float64's range. time_step_bias: time_step_bias.h.
enum class Distribution { uniform, normal, truncated_normal, truncated_normal_far, time_step_bias };
inline constexpr int DISTRIBUTIONS = 5;

// A value is fma(scale, u or z, offset), then held in [smallest, largest] (not the normal), then
// rounded to the output's dtype. float32 and narrower use the floats, float64 the doubles.
template <class T>
struct Affine {
  T scale, offset;
  T smallest, largest;  // values of the output's dtype
};

struct Parameters {
  Affine<float> f32;
  Affine<double> f64;
  // The truncated normal's probabilities at draw k of n: lower tail fma(k + 1/2, tail_step, lower),
  // upper tail fma(n - 1/2 - k, tail_step, upper), both times 2^64 where they are inverted in
  // float64; from the median fma(k + 1/2 - n/2, step, centre).
  double step, tail_step, lower, upper, centre;
};

inline constexpr int MAX_LANES = 16;

// Lane i writes the bytes [begin, end) of what it samples from `state` on, at origin + begin. Its
// first begin bytes are sampled and not written: they are the even half of a pair whose odd half is
// asked for.
struct Lanes {
  uint64_t state[MAX_LANES];  // before the lane's first draw
  char* origin[MAX_LANES];
  size_t begin[MAX_LANES];
  size_t end[MAX_LANES];  // 0: an idle lane
  // Whole lines are stored past the cache: each origin begins a cache line.
  bool stream;
};

inline constexpr size_t CACHE_LINE = 64;  // bytes

using Kernel = void (*)(const Parameters&, const Lanes&);

// C += A B or C -= A B (see gemm.h), for a depth of at most GEMM_DEPTH.
inline constexpr size_t GEMM_DEPTH = 128;

// Elements from a row of A to the next: an odd number of cache lines, so that rows do not meet in
// the cache, and a constant, so that one register addresses all rows of a tile.
inline constexpr size_t A_STRIDE = GEMM_DEPTH + 16;

template <class T>
struct Product {
  size_t rows, columns, depth;
  const T* a;      // row r at a + r * A_STRIDE; readable up to a whole number of tiles
  const T* b;      // strips of tile_columns columns, each row-major, the last padded
  size_t b_strip;  // elements from a strip to the next
  T* const* c;     // where each row begins
};

template <class T>
struct ProductKernels {
  size_t tile_rows, tile_columns;
  void (*add)(const Product<T>&);
  void (*subtract)(const Product<T>&);
};

struct KernelTable {
  const char* name;
  int lanes;
  Kernel kernels[DISTRIBUTIONS][DTYPES];
  ProductKernels<float> f32_product;
  ProductKernels<double> f64_product;
  // `count` float32 values in the output's dtype, as the kernels round theirs; none for float64.
  void (*round[DTYPES])(const float* values, size_t count, char* out);
};

const KernelTable& baseline_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& neon_kernels();

}  // namespace fanin
