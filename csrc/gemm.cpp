#include "gemm.h"

#include <string.h>

#include <algorithm>

#include "integers.h"

namespace fanin {
namespace {

// Columns of B that are packed at a time, over the whole depth: a block of rows of C of this width
// stays in the second cache while its sums are made.
constexpr size_t COLUMNS_A_BLOCK = 768;

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
  const size_t packed_width = round_up(std::min(columns, COLUMNS_A_BLOCK), strip);
  std::vector<T> packed(depth * packed_width);
  Workspaces<MultiplyWorkspace<T>> workspaces;
  for (size_t column = 0; column < columns; column += COLUMNS_A_BLOCK) {
    const size_t width = std::min(columns - column, COLUMNS_A_BLOCK);
    const auto pack = [&](uint64_t index) {
      const size_t first = index * GEMM_DEPTH, terms = std::min(depth - first, GEMM_DEPTH);
      T* to = packed.data() + first * packed_width;
      for (size_t begin = 0; begin < width; begin += strip) {
        const size_t size = std::min(strip, width - begin);
        for (size_t k = 0; k < terms; ++k, to += strip) {
          memcpy(to, b + (first + k) * columns + column + begin, size * sizeof(T));
          std::fill(to + size, to + strip, T{0});
        }
      }
    };
    const auto multiply_rows = [&](uint64_t index) {
      const typename Workspaces<MultiplyWorkspace<T>>::Lease space(workspaces);
      const size_t row = index * block, size = std::min(block, rows - row);
      for (size_t i = 0; i < size; ++i) {
        space->c[i] = c + (row + i) * columns + column;
        std::fill_n(space->c[i], width, T{0});
      }
      for (size_t first = 0; first < depth; first += GEMM_DEPTH) {
        const size_t terms = std::min(depth - first, GEMM_DEPTH);
        for (size_t i = 0; i < size; ++i) {
          const T* const from = a + (row + i) * depth + first;
          memcpy(space->a.data() + i * A_STRIDE, from, terms * sizeof(T));
        }
        kernels.add({size, width, terms, space->a.data(), packed.data() + first * packed_width,
                     terms * strip, space->c.data()});
      }
    };
    for_each_block(ceil_div(depth, GEMM_DEPTH), threads, pack, poll);
    for_each_block(ceil_div(rows, block), threads, multiply_rows, poll);
  }
}

template void multiply(size_t, size_t, size_t, const float*, const float*, float*, int,
                       const Poll&);
template void multiply(size_t, size_t, size_t, const double*, const double*, double*, int,
                       const Poll&);

}  // namespace fanin
