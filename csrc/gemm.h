// The core's own matrix product: packed, blocked for caches and registers, threads over blocks of
// rows, and the same bits on every CPU.
//
// C = A B is, for each element, a sum over blocks of GEMM_DEPTH terms. Each block's sum begins with
// 0 and takes its terms in order, one fused multiply-add each; the blocks' sums are added in order.
// No BLAS promises an order: its bits change with the CPU, the threads and the version.
#pragma once

#include <stddef.h>

#include <memory>
#include <mutex>
#include <vector>

#include "dispatch.h"
#include "threads.h"

namespace fanin {

template <class T>
const ProductKernels<T>& product_kernels();
template <>
inline const ProductKernels<float>& product_kernels() {
  return kernels().f32_product;
}
template <>
inline const ProductKernels<double>& product_kernels() {
  return kernels().f64_product;
}

// Rows that a thread multiplies at a time: each strip of B is fetched into the first cache once for
// all of them, and their block of A stays in the second.
template <class T>
size_t rows_a_block() {
  return 8 * product_kernels<T>().tile_rows;
}

// Workspaces of type S, handed to the threads that ask and taken back.
template <class S>
class Workspaces {
 public:
  class Lease {
   public:
    explicit Lease(Workspaces& owner) : owner_(owner) {
      const std::lock_guard<std::mutex> lock(owner.mutex_);
      if (owner.free_.empty()) {
        space_ = std::make_unique<S>();
      } else {
        space_ = std::move(owner.free_.back());
        owner.free_.pop_back();
      }
    }
    ~Lease() {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      owner_.free_.push_back(std::move(space_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    S* operator->() const { return space_.get(); }

   private:
    Workspaces& owner_;
    std::unique_ptr<S> space_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<S>> free_;
};

// C = A B; all row-major and contiguous, A of rows x depth, B of depth x columns.
template <class T>
void multiply(size_t rows, size_t columns, size_t depth, const T* a, const T* b, T* c, int threads,
              const Poll& poll);

}  // namespace fanin
