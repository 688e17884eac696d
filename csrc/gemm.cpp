#include "gemm.h"

#include <string.h>

#include <algorithm>

namespace fanin {
namespace {

// Columns whose block of B is packed at a time.
constexpr size_t COLUMNS_A_BLOCK = 4096;

template <class T>
struct MultiplyWorkspace {
  std::vector<T> a = std::vector<T>(rows_a_block<T>() * A_STRIDE);
  std::vector<T*> c = std::vector<T*>(rows_a_block<T>());
};

}  // namespace

template <class T>
void multiply(size_t rows, size_t columns, size_t depth, const T* a, const T* b, T* c, int threads,
              const Poll& poll) {
  const ProductKernels<T>& kernels = product_kernels<T>();
  const size_t strip = kernels.tile_columns, block = rows_a_block<T>();
  std::vector<T> packed(GEMM_DEPTH * round_up(std::min(columns, COLUMNS_A_BLOCK), strip));
  Workspaces<MultiplyWorkspace<T>> workspaces;
  std::fill(c, c + rows * columns, T{0});
  for (size_t column = 0; column < columns; column += COLUMNS_A_BLOCK) {
    const size_t width = std::min(columns - column, COLUMNS_A_BLOCK);
    for (size_t first = 0; first < depth; first += GEMM_DEPTH) {
      const size_t terms = std::min(depth - first, GEMM_DEPTH);
      for_each_block((width + strip - 1) / strip, threads,
                     [&](uint64_t index) {
                       const size_t begin = index * strip, size = std::min(strip, width - begin);
                       T* to = packed.data() + begin * terms;
                       for (size_t k = 0; k < terms; ++k, to += strip) {
                         memcpy(to, b + (first + k) * columns + column + begin, size * sizeof(T));
                         std::fill(to + size, to + strip, T{0});
                       }
                     },
                     poll);
      for_each_block((rows + block - 1) / block, threads,
                     [&](uint64_t index) {
                       const typename Workspaces<MultiplyWorkspace<T>>::Lease space(workspaces);
                       const size_t row = index * block, size = std::min(block, rows - row);
                       for (size_t i = 0; i < size; ++i) {
                         memcpy(space->a.data() + i * A_STRIDE, a + (row + i) * depth + first,
                                terms * sizeof(T));
                         space->c[i] = c + (row + i) * columns + column;
                       }
                       kernels.add({size, width, terms, space->a.data(), packed.data(),
                                    terms * strip, space->c.data()});
                     },
                     poll);
    }
  }
}

template void multiply(size_t, size_t, size_t, const float*, const float*, float*, int,
                       const Poll&);
template void multiply(size_t, size_t, size_t, const double*, const double*, double*, int,
                       const Poll&);

}  // namespace fanin
