#include "orthogonal.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "environment.h"
#include "integers.h"
#include "memory.h"
#include "reflectors.h"
#include "sampler.h"

namespace fanin {
namespace {

// Vectors in a buffer at a time. Each buffer's work samples the panels anew.
constexpr size_t CHUNK = 2048;

// Operations that are worth another thread, and with which a matrix is one thread's work.
constexpr double OPERATIONS_A_THREAD = 4e6;
constexpr double OPERATIONS_OF_A_SMALL_MATRIX = 4e9;

// A buffer's tile that is rounded and scattered at a time.
constexpr size_t TILE = 64;

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
  // About the operations of one matrix: those of its panels, and of its vectors.
  const double panel = static_cast<double>(std::min<uint64_t>(PANEL, region.short_side));
  const double operations = 2.0 * (panel + static_cast<double>(region.vectors.count)) *
                            static_cast<double>(region.short_side) *
                            static_cast<double>(region.long_side);
  const size_t matrices = region.matrices.count;
  if (threads > 1 && matrices > 1 && operations < OPERATIONS_OF_A_SMALL_MATRIX) {
    const Workers alone{1, nullptr};
    // A matrix at a time would make the panel's memory anew each time.
    const size_t worth = static_cast<size_t>(std::max(1.0, OPERATIONS_A_THREAD / operations));
    const size_t share = std::max<size_t>(1, matrices / (8 * static_cast<size_t>(threads)));
    // Ctrl-C waits for the group.
    const size_t most = static_cast<size_t>(OPERATIONS_OF_A_SMALL_MATRIX / operations);
    const size_t group = std::min({matrices, most, std::max(worth, share)});
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
