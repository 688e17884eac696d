#include "orthogonal.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "environment.h"
#include "faults.h"
#include "fill.h"
#include "gemm.h"
#include "memory.h"

namespace fanin {
namespace {

// Reflectors a panel: part of the stream, as is GEMM_DEPTH, the grid of the sums along the long
// side.
constexpr size_t PANEL = 128;

// Vectors in a buffer at a time. Each buffer's work samples the panels anew.
constexpr size_t CHUNK = 2048;

// Operations that are worth another thread, and with which a matrix is one thread's work.
constexpr double OPERATIONS_A_THREAD = 4e6;
constexpr double OPERATIONS_OF_A_SMALL_MATRIX = 4e9;

// A buffer's tile that is rounded and scattered at a time.
constexpr size_t TILE = 64;

size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

struct Workers {
  int threads;
  Poll poll;

  template <class Work>
  void operator()(size_t blocks, const Work& work) const {
    if (threads > 1 || poll) return for_each_block(blocks, threads, work, poll);
    for (size_t i = 0; i < blocks; ++i) work(i);
  }
};

template <class T>
constexpr Dtype COMPUTING_DTYPE = std::is_same_v<T, double> ? Dtype::float64 : Dtype::float32;

// Rows of a product's A: 64-byte aligned, a whole number of tiles.
template <class T>
std::vector<T> rows_of_a(size_t rows) {
  return std::vector<T>(round_up(rows, product_kernels<T>().tile_rows) * A_STRIDE);
}

template <class T>
struct ReflectWorkspace {
  std::vector<T> block = rows_of_a<T>(rows_a_block<T>());
  std::vector<T> on_reflectors = rows_of_a<T>(rows_a_block<T>());
  std::vector<T> combined = rows_of_a<T>(rows_a_block<T>());
  std::vector<T*> places = std::vector<T*>(rows_a_block<T>());
};

struct GramWorkspace {
  std::vector<double> a = rows_of_a<double>(PANEL);
  std::vector<double> b =
      std::vector<double>(round_up(PANEL, product_kernels<double>().tile_columns) * GEMM_DEPTH);
};

// The reflectors [first, first + count), packed for products with their transpose and with them.
template <class T>
class Panel {
 public:
  Panel(uint64_t position, uint64_t short_side, uint64_t long_side, const Workers& workers)
      : position_(position), short_side_(short_side), long_side_(long_side), workers_(workers) {
    const size_t panel = std::min<size_t>(PANEL, short_side);
    const size_t strip = product_kernels<T>().tile_columns;
    blocks_ = ceil_div(long_side, GEMM_DEPTH) + 1;
    // An odd number of cache lines: columns of a panel are read.
    normals_stride_ = round_up(long_side, 128 / sizeof(T)) + 64 / sizeof(T);
    normals_.resize(panel * normals_stride_);
    by_position_.resize(round_up(panel, strip) * long_side);
    by_reflector_.resize(panel * round_up(long_side, strip));
    grams_.resize(blocks_ * panel * panel);
    factor_.resize(panel * panel);
    packed_factor_.resize(panel * round_up(panel, strip));
  }

  // Samples the reflectors from `first` on.
  void sample(uint64_t matrix, size_t first) {
    const size_t before = first_;
    first_ = first;
    count_ = std::min(PANEL, short_side_ - first);
    width_ = long_side_ - first;
    const size_t row = planted("stale_panel") && first + PANEL < short_side_ ? before : first;
    static const Sampler sampler = Sampler::normal(0, 1, COMPUTING_DTYPE<T>);
    const Region region{{matrix + 1, short_side_, long_side_},
                        {matrix, row, first},
                        {1, std::min(count_, short_side_ - row), width_},
                        {0, static_cast<int64_t>(normals_stride_ * sizeof(T)), sizeof(T)}};
    const Fill fill(sampler, position_, region, reinterpret_cast<char*>(normals_.data()));
    workers_(fill.blocks(), [&fill](uint64_t block) { fill.fill_block(block); });
    for (size_t k = 0; k < count_; ++k) std::fill_n(normals(k), k, T{0});

    workers_(block_count(), [this](uint64_t block) { pack(block); });
    make_factor();
  }

  // rows[r], which is vector index[r] after the panels above this one: applies this one.
  void reflect(T* const* rows, const size_t* index, size_t count) {
    const typename Workspaces<ReflectWorkspace<T>>::Lease space(reflect_workspaces_);
    const ProductKernels<T>& product = product_kernels<T>();
    const size_t last = first_ + count_;
    bool begun = true;  // zeros, and so no work, up to `last`
    for (size_t r = 0; r < count; ++r) {
      if (index[r] >= last) {
        std::fill(rows[r] + first_, rows[r] + last, T{0});
      } else {
        std::fill(rows[r] + first_, rows[r] + long_side_, T{0});
        rows[r][index[r]] = static_cast<T>(-signs_[index[r] - first_]);
        begun = false;
      }
    }

    // The coordinates on the reflectors, R V, then their combination, R V T.
    T* const coordinates = space->on_reflectors.data();
    clear_and_point(space->places, coordinates, count);
    const size_t strip = product.tile_columns;
    for (size_t block = 0; block < block_count(); ++block) {
      const size_t begin = block_begin(block), end = block_end(block);
      const size_t start = begun ? std::max(begin, last) : begin;
      if (start >= end) continue;
      for (size_t r = 0; r < count; ++r) {
        memcpy(space->block.data() + r * A_STRIDE, rows[r] + start, (end - start) * sizeof(T));
      }
      product.add({count, count_, end - start, space->block.data(),
                   by_position(block) + (start - begin) * strip, (end - begin) * strip,
                   space->places.data()});
    }
    T* const combined = space->combined.data();
    clear_and_point(space->places, combined, count);
    product.add({count, count_, count_, coordinates, packed_factor_.data(), count_ * strip,
                 space->places.data()});

    for (size_t r = 0; r < count; ++r) space->places[r] = rows[r] + first_;
    product.subtract({count, width_, count_, combined, by_reflector_.data(), count_ * strip,
                      space->places.data()});
  }

 private:
  // The sums' blocks from `first` on, the first of them perhaps cut.
  size_t block_count() const { return ceil_div(long_side_, GEMM_DEPTH) - first_ / GEMM_DEPTH; }
  size_t block_begin(size_t block) const {
    return std::max(first_, (first_ / GEMM_DEPTH + block) * GEMM_DEPTH);
  }
  size_t block_end(size_t block) const {
    return std::min<size_t>(long_side_, (first_ / GEMM_DEPTH + block + 1) * GEMM_DEPTH);
  }
  T* by_position(size_t block) {
    return by_position_.data() +
           (block_begin(block) - first_) * round_up(count_, product_kernels<T>().tile_columns);
  }
  T* normals(size_t k) { return normals_.data() + k * normals_stride_; }
  const T* normals(size_t k) const { return normals_.data() + k * normals_stride_; }
  double* gram(size_t block) { return grams_.data() + block * count_ * count_; }

  static void clear_and_point(std::vector<T*>& places, T* rows, size_t count) {
    for (size_t r = 0; r < count; ++r) {
      places[r] = rows + r * A_STRIDE;
      std::fill_n(places[r], PANEL, T{0});
    }
  }

  void pack(size_t block) {
    const size_t strip = product_kernels<T>().tile_columns;
    const size_t begin = block_begin(block) - first_, end = block_end(block) - first_;
    pack_transposed(begin, end, by_position(block), strip);
    for (size_t j = round_up(begin, strip); j < end; j += strip) {
      const size_t size = std::min(strip, width_ - j);
      T* to = by_reflector_.data() + j * count_;
      for (size_t k = 0; k < count_; ++k, to += strip) {
        memcpy(to, normals(k) + j, size * sizeof(T));
        std::fill(to + size, to + strip, T{0});
      }
    }
    multiply_with_transpose(begin, end, gram(block));
  }

  // Strips of reflectors; positions [begin, end); reflectors.
  template <class To>
  void pack_transposed(size_t begin, size_t end, To* to, size_t strip) const {
    for (size_t k = 0; k < count_; k += strip, to += (end - begin) * strip) {
      for (size_t i = 0; i < strip; ++i) {
        const T* const x = k + i < count_ ? normals(k + i) : nullptr;
        for (size_t j = begin; j < end; ++j) to[(j - begin) * strip + i] = x ? x[j] : 0;
      }
    }
  }

  // The lower triangle (and more) of the products of the vectors x with each other, over a block.
  void multiply_with_transpose(size_t begin, size_t end, double* gram) {
    const Workspaces<GramWorkspace>::Lease space(gram_workspaces_);
    const ProductKernels<double>& product = product_kernels<double>();
    const size_t strip = product.tile_columns, depth = end - begin;
    pack_transposed(begin, end, space->b.data(), strip);
    std::vector<double*> rows(count_);
    for (size_t k = 0; k < count_; ++k) {
      const T* const x = normals(k);
      std::copy(x + begin, x + end, space->a.data() + k * A_STRIDE);
      rows[k] = gram + k * count_;
      std::fill_n(rows[k], count_, 0.0);
    }
    const size_t group = 2 * product.tile_rows;
    for (size_t k = 0; k < count_; k += group) {
      const size_t size = std::min(group, count_ - k);
      const size_t columns = std::min(count_, round_up(k + size, strip));
      product.add({size, columns, depth, space->a.data() + k * A_STRIDE, space->b.data(),
                   depth * strip, rows.data() + k});
    }
  }

  // x becomes v where they differ, and T is made: H_k on the left of I - V T V^T adds to T the row
  // -tau_k (v_k^T V) T, tau_k.
  void make_factor() {
    for (size_t block = 1; block < block_count(); ++block) {
      for (size_t i = 0; i < count_ * count_; ++i) grams_[i] += gram(block)[i];
    }
    double* const products = gram(0);
    for (size_t k = 0; k < count_; ++k) {
      double* const row = products + k * count_;
      const double x = normals(k)[k], norm = std::sqrt(row[k]);
      signs_[k] = std::copysign(1.0, x);
      if (planted("missing_last_sign") && first_ + k + 1 == short_side_) signs_[k] = 1;
      const T v = static_cast<T>(x + std::copysign(norm, x));
      const double change = v - x;
      for (size_t l = 0; l < k; ++l) row[l] += change * normals(l)[k];
      row[k] += static_cast<double>(v) * v - x * x;
      set(k, v);
    }
    double* const factor = factor_.data();
    for (size_t k = 0; k < count_; ++k) {
      double* const row = factor + k * count_;
      const double square = products[k * count_ + k];
      const double tau = square > 0 ? 2 / square : 0;
      std::fill_n(row, count_, 0.0);
      for (size_t l = 0; l < k; ++l) {
        const double scale = tau * products[k * count_ + l];
        for (size_t i = 0; i <= l; ++i) row[i] -= scale * factor[l * count_ + i];
      }
      row[k] = tau;
    }
    const size_t strip = product_kernels<T>().tile_columns;
    T* to = packed_factor_.data();
    for (size_t column = 0; column < count_; column += strip) {
      for (size_t k = 0; k < count_; ++k) {
        for (size_t i = column; i < column + strip; ++i, ++to) {
          const bool ascending = planted("ascending_reflectors");
          if (i < count_)
            *to = static_cast<T>(ascending ? factor[i * count_ + k] : factor[k * count_ + i]);
        }
      }
    }
  }

  // The element of reflector k on the diagonal, in both packed forms.
  void set(size_t k, T value) {
    const size_t strip = product_kernels<T>().tile_columns;
    const size_t block = (first_ + k) / GEMM_DEPTH - first_ / GEMM_DEPTH;
    const size_t begin = block_begin(block), depth = block_end(block) - begin;
    by_position(block)[(k / strip * depth + (first_ + k - begin)) * strip + k % strip] = value;
    by_reflector_[(k / strip * count_ + k) * strip + k % strip] = value;
  }

  uint64_t position_, short_side_, long_side_;
  const Workers& workers_;
  size_t blocks_, normals_stride_;
  size_t first_ = 0, count_ = 0, width_ = 0;
  std::vector<T> normals_;       // a reflector a row, from `first` on
  std::vector<T> by_position_;   // blocks of positions; strips of reflectors; positions; reflectors
  std::vector<T> by_reflector_;  // strips of positions; reflectors; positions
  std::vector<double> grams_;    // for each block, a row a reflector
  std::vector<double> factor_;   // T
  std::vector<T> packed_factor_;
  double signs_[PANEL];
  Workspaces<ReflectWorkspace<T>> reflect_workspaces_;
  Workspaces<GramWorkspace> gram_workspaces_;
};

template <class Item>
void scatter_tile(const char* tile, const Places& vectors, const size_t* order, size_t first,
                  size_t count, const Places& components, size_t component, size_t width,
                  bool vectors_are_near, char* out) {
  const auto copy = [&](size_t r, size_t j) {
    memcpy(out + vectors.offset[order[first + r]] + components.offset[component + j],
           tile + (r * TILE + j) * sizeof(Item), sizeof(Item));
  };
  if (vectors_are_near) {
    for (size_t j = 0; j < width; ++j) {
      for (size_t r = 0; r < count; ++r) copy(r, j);
    }
  } else {
    for (size_t r = 0; r < count; ++r) {
      for (size_t j = 0; j < width; ++j) copy(r, j);
    }
  }
}

uint64_t distance(const Places& places) {
  if (places.count < 2) return UINT64_MAX;
  return static_cast<uint64_t>(std::llabs(places.offset[1] - places.offset[0]));
}

// The vectors of one matrix after another.
template <class T>
class Filling {
 public:
  Filling(uint64_t position, const OrthogonalRegion& region, double gain, Dtype dtype, char* out,
          const Workers& workers)
      : region_(region),
        gain_(static_cast<T>(gain)),
        dtype_(dtype),
        out_(out),
        workers_(workers),
        panel_(position, region.short_side, region.long_side, workers),
        order_(region.vectors.count) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    const int64_t* const index = region.vectors.index;
    std::sort(order_.begin(), order_.end(),
              [index](size_t a, size_t b) { return index[a] < index[b]; });
    for (const size_t i : order_) index_.push_back(static_cast<size_t>(index[i]));
    in_place_ = rows_are_in_place();
    rows_.resize(order_.size());
    if (!in_place_) buffer_.reset(new T[std::min(CHUNK, order_.size()) * region.long_side]);
  }

  void fill(size_t matrix) {
    const size_t chunk = in_place_ ? order_.size() : CHUNK;
    char* const out = out_ + region_.matrices.offset[matrix];
    for (size_t first = 0; first < order_.size(); first += chunk) {
      const size_t count = std::min(chunk, order_.size() - first);
      for (size_t r = 0; r < count; ++r) {
        char* const place =
            out + region_.vectors.offset[order_[first + r]] + region_.components.offset[0];
        rows_[r] = in_place_ ? reinterpret_cast<T*>(place) : buffer_.get() + r * region_.long_side;
      }
      reflect(static_cast<uint64_t>(region_.matrices.index[matrix]), first, count);
      if (!in_place_) {
        scatter(first, count, out);
      } else if (gain_ != 1) {
        workers_(count, [this](uint64_t r) {
          for (size_t j = 0; j < region_.long_side; ++j) rows_[r][j] *= gain_;
        });
      }
    }
  }

 private:
  bool rows_are_in_place() const {
    if (dtype_ != COMPUTING_DTYPE<T> || region_.components.count != region_.long_side) return false;
    const Places& components = region_.components;
    for (size_t j = 0; j < components.count; ++j) {
      if (components.index[j] != static_cast<int64_t>(j) ||
          components.offset[j] - components.offset[0] != static_cast<int64_t>(j * sizeof(T))) {
        return false;
      }
    }
    const auto aligned = [](int64_t bytes) { return bytes % static_cast<int64_t>(sizeof(T)) == 0; };
    return aligned(reinterpret_cast<intptr_t>(out_)) && aligned(components.offset[0]) &&
           std::all_of(region_.vectors.offset, region_.vectors.offset + region_.vectors.count,
                       aligned) &&
           std::all_of(region_.matrices.offset, region_.matrices.offset + region_.matrices.count,
                       aligned);
  }

  // The rows [first, first + count) of the vectors in order, from panel to panel.
  void reflect(uint64_t matrix, size_t first, size_t count) {
    const size_t* const index = index_.data() + first;
    for (size_t panel = index[count - 1] / PANEL + 1; panel-- > 0;) {
      panel_.sample(matrix, panel * PANEL);
      const size_t begin = std::lower_bound(index, index + count, panel * PANEL) - index;
      const size_t tile = product_kernels<T>().tile_rows;
      const size_t share = round_up(ceil_div(count - begin, workers_.threads), tile);
      const size_t block = std::min(rows_a_block<T>(), share);
      workers_(ceil_div(count - begin, block), [&](uint64_t i) {
        const size_t row = begin + i * block;
        panel_.reflect(rows_.data() + row, index + row, std::min(block, count - row));
      });
      if (workers_.poll) workers_.poll();
    }
  }

  // Times the gain, rounded to the output's dtype, and to its place.
  void scatter(size_t first, size_t count, char* out) const {
    const size_t width = region_.components.count, columns = ceil_div(width, TILE);
    const bool vectors_are_near = distance(region_.vectors) < distance(region_.components);
    const size_t item = item_size(dtype_);
    workers_(ceil_div(count, TILE), [&](uint64_t block) {
      const size_t row = block * TILE, rows = std::min(TILE, count - row);
      T values[TILE * TILE];
      char codes[TILE * TILE * sizeof(T)];
      for (size_t i = 0; i < columns; ++i) {
        const size_t column = i * TILE, size = std::min(TILE, width - column);
        for (size_t r = 0; r < rows; ++r) {
          const int64_t* const index = region_.components.index + column;
          for (size_t j = 0; j < size; ++j) {
            values[r * TILE + j] = rows_[row + r][index[j]] * gain_;
          }
          std::fill(values + r * TILE + size, values + (r + 1) * TILE, T{0});
        }
        if constexpr (std::is_same_v<T, double>) {
          memcpy(codes, values, rows * TILE * sizeof(T));
        } else {
          kernels().round[static_cast<int>(dtype_)](values, rows * TILE, codes);
        }
        const auto to_places = [&](auto zero) {
          scatter_tile<decltype(zero)>(codes, region_.vectors, order_.data(), first + row, rows,
                                       region_.components, column, size, vectors_are_near, out);
        };
        if (item == 1) to_places(uint8_t{0});
        if (item == 2) to_places(uint16_t{0});
        if (item == 4) to_places(uint32_t{0});
        if (item == 8) to_places(uint64_t{0});
      }
    });
  }

  const OrthogonalRegion& region_;
  T gain_;
  Dtype dtype_;
  char* out_;
  const Workers& workers_;
  Panel<T> panel_;
  std::vector<size_t> order_;  // of the region's vectors, by their index
  std::vector<size_t> index_;  // in that order
  bool in_place_;
  std::unique_ptr<T[]> buffer_;
  std::vector<T*> rows_;
};

template <class T>
void fill_in(uint64_t position, const OrthogonalRegion& region, double gain, Dtype dtype, char* out,
             int threads, const Poll& poll) {
  // About the operations of one matrix's vectors.
  const double operations = 2.0 * static_cast<double>(region.vectors.count) *
                            static_cast<double>(region.short_side) *
                            static_cast<double>(region.long_side);
  const size_t matrices = region.matrices.count;
  if (threads > 1 && matrices > 1 && operations < OPERATIONS_OF_A_SMALL_MATRIX) {
    const Workers alone{1, nullptr};
    // A matrix at a time would make the panel's memory anew each time.
    const size_t worth = static_cast<size_t>(std::max(1.0, OPERATIONS_A_THREAD / operations));
    const size_t share = std::max<size_t>(1, matrices / (8 * static_cast<size_t>(threads)));
    const size_t group = std::min(matrices, std::max(worth, share));
    for_each_block(
        ceil_div(matrices, group), threads,
        [&](uint64_t block) {
          Filling<T> filling(position, region, gain, dtype, out, alone);
          const size_t end = std::min(matrices, (block + 1) * group);
          for (size_t matrix = block * group; matrix < end; ++matrix) filling.fill(matrix);
        },
        poll);
    return;
  }
  const IeeeEnvironment environment;
  const double worth = 1 + operations / OPERATIONS_A_THREAD;
  const Workers workers{worth < threads ? static_cast<int>(worth) : threads, poll};
  Filling<T> filling(position, region, gain, dtype, out, workers);
  for (size_t matrix = 0; matrix < matrices; ++matrix) filling.fill(matrix);
}

}  // namespace

void fill_orthogonal(uint64_t position, const OrthogonalRegion& region, double gain, Dtype dtype,
                     char* out, int threads, const Poll& poll) {
  if (region.matrices.count == 0 || region.vectors.count == 0 || region.components.count == 0) {
    return;
  }
  const auto fill = dtype == Dtype::float64 ? fill_in<double> : fill_in<float>;
  fill(position, region, gain, dtype, out, threads, poll);
}

}  // namespace fanin
