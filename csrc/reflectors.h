// A panel of the reflectors whose product is a random orthogonal matrix (see orthogonal.h), as
// I - V T V^T: sampled, packed for products, applied to rows.
//
// Norms, the products of the vectors with each other and T are computed in float64 whatever the
// matrix's type; V is rounded before they are taken, so a reflector is orthogonal to float64's
// precision.
//
// Tried: panels of 64 vectors, which read and write the rows twice as often; and T applied to V
// rather than to the rows' coordinates, which is as much work as for a thousand rows.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <vector>

#include "gemm.h"
#include "integers.h"
#include "threads.h"

namespace fanin {

// Reflectors a panel: part of the stream.
inline constexpr size_t PANEL = 128;
static_assert(PANEL % GEMM_DEPTH == 0, "the blocks of sums begin with a panel");

// The dtype that a matrix of type T is computed in, and its normals are of.
template <class T>
inline constexpr Dtype COMPUTING_DTYPE =
    std::is_same_v<T, double> ? Dtype::float64 : Dtype::float32;

// Threads for a matrix, or one of the caller's.
struct Workers {
  int threads;
  Poll poll;  // none on a thread that is itself one of several

  void operator()(size_t blocks, const std::function<void(uint64_t)>& work) const {
    if (threads > 1 || poll) return for_each_block(blocks, threads, work, poll);
    for (size_t i = 0; i < blocks; ++i) work(i);
  }
};

template <class T>
class Panel {
 public:
  Panel(uint64_t position, uint64_t short_side, uint64_t long_side, const Workers& workers);
  ~Panel();

  // The reflectors from `first`, a multiple of PANEL, on, of one matrix of the batch.
  void sample(uint64_t matrix, size_t first);

  // Applies them to rows of long_side elements, rows[r] that of vector index[r], which ascends.
  // What a row holds before the first of its vector's reflectors, in its own panel, is overwritten.
  // At most rows_a_block() rows; safe from several threads at once.
  void reflect(T* const* rows, const size_t* index, size_t count);

 private:
  struct RowWorkspace;
  struct GramWorkspace;

  const T* normals(size_t k) const { return normals_.data() + k * normals_stride_; }
  T* by_position(size_t position) {
    return by_position_.data() + position * round_up(count_, strip_);
  }
  double* gram(size_t group) { return grams_.data() + group * count_ * A_STRIDE; }

  void begin_row(T* row, size_t own, T* coordinates);
  void pack(size_t group);
  void add_to_gram(size_t begin, size_t end, const T* packed, double* gram);
  void finish_vectors();
  void make_factor();
  void join_factors(size_t first, size_t size);
  void pack_factor();

  uint64_t position_, short_side_, long_side_;
  const Workers& workers_;
  size_t strip_;                              // reflectors, or positions, a strip
  size_t first_ = 0, count_ = 0, width_ = 0;  // reflectors; positions from first_ on
  size_t normals_stride_;
  std::vector<T> normals_;       // a reflector a row, from first_ on
  std::vector<T> by_position_;   // blocks of positions; strips of reflectors; positions; reflectors
  std::vector<T> by_reflector_;  // strips of positions; reflectors; positions
  std::vector<double> grams_;    // V^T V, rows A_STRIDE apart; of each group of positions at first
  std::vector<double> factor_;   // T, rows A_STRIDE apart
  std::vector<double> strips_;   // a part of T, packed, and its product
  std::vector<T> packed_factor_;
  double signs_[PANEL];
  Workspaces<RowWorkspace> row_workspaces_;
  Workspaces<GramWorkspace> gram_workspaces_;
};

extern template class Panel<float>;
extern template class Panel<double>;

}  // namespace fanin
