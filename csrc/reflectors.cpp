#include "reflectors.h"

#include <string.h>

#include <algorithm>
#include <cmath>

#include "faults.h"
#include "fill.h"
#include "integers.h"

namespace fanin {
namespace {

// Positions whose products are summed by one thread.
constexpr size_t GRAM_GROUP = 4 * GEMM_DEPTH;

// Reflectors whose T is made one by one; T's of twice as many are joined from two.
constexpr size_t SMALL_FACTOR = 16;

// Rows of a product's A: a whole number of tiles.
template <class T>
std::vector<T> rows_of_a(size_t rows) {
  return std::vector<T>(round_up(rows, product_kernels<T>().tile_rows) * A_STRIDE);
}

template <class T>
void clear_and_point(std::vector<T*>& places, T* rows, size_t count, size_t columns) {
  for (size_t r = 0; r < count; ++r) {
    places[r] = rows + r * A_STRIDE;
    std::fill_n(places[r], columns, T{0});
  }
}

}  // namespace

template <class T>
struct Panel<T>::RowWorkspace {
  std::vector<T> block = rows_of_a<T>(rows_a_block<T>());
  std::vector<T> coordinates = rows_of_a<T>(rows_a_block<T>());
  std::vector<T> combined = rows_of_a<T>(rows_a_block<T>());
  std::vector<T*> places = std::vector<T*>(rows_a_block<T>());
};

template <class T>
struct Panel<T>::GramWorkspace {
  std::vector<double> a = rows_of_a<double>(PANEL);
  std::vector<double> b =
      std::vector<double>(round_up(PANEL, product_kernels<T>().tile_columns) * GEMM_DEPTH);
};

template <class T>
Panel<T>::Panel(uint64_t position, uint64_t short_side, uint64_t long_side, const Workers& workers)
    : position_(position),
      short_side_(short_side),
      long_side_(long_side),
      workers_(workers),
      strip_(product_kernels<T>().tile_columns),
      // An odd number of cache lines: columns of rows are read.
      normals_stride_(round_up(long_side, 128 / sizeof(T)) + 64 / sizeof(T)) {
  const size_t count = std::min<size_t>(PANEL, short_side);
  normals_.resize(count * normals_stride_);
  by_position_.resize(round_up(count, strip_) * long_side);
  by_reflector_.resize(count * round_up(long_side, strip_));
  // Products read a whole number of tiles of rows.
  const size_t beyond = product_kernels<double>().tile_rows;
  grams_.resize((ceil_div(long_side, GRAM_GROUP) * count + beyond) * A_STRIDE);
  factor_.resize((PANEL + beyond) * A_STRIDE);
  strips_.resize(2 * PANEL * PANEL);
  packed_factor_.resize(count * round_up(count, strip_));
}

template <class T>
Panel<T>::~Panel() = default;

template <class T>
void Panel<T>::sample(uint64_t matrix, size_t first) {
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
  for (size_t k = 0; k < count_; ++k) std::fill_n(normals_.data() + k * normals_stride_, k, T{0});

  workers_(ceil_div(width_, GRAM_GROUP), [this](uint64_t group) { pack(group); });
  finish_vectors();
  make_factor();
  pack_factor();
}

template <class T>
void Panel<T>::reflect(T* const* rows, const size_t* index, size_t count) {
  const typename Workspaces<RowWorkspace>::Lease space(row_workspaces_);
  const ProductKernels<T>& product = product_kernels<T>();
  const size_t own = std::lower_bound(index, index + count, first_ + count_) - index;
  T* const coordinates = space->coordinates.data();  // on the reflectors, R V
  clear_and_point(space->places, coordinates, count, count_);
  for (size_t r = 0; r < own; ++r) begin_row(rows[r], index[r] - first_, space->places[r]);
  for (size_t r = own; r < count; ++r) std::fill_n(rows[r] + first_, count_, T{0});
  // Rows of later panels are zero in this one's positions, and a term of zero changes no sum.
  for (size_t begin = count_; begin < width_ && own < count; begin += GEMM_DEPTH) {
    const size_t end = std::min(width_, begin + GEMM_DEPTH);
    for (size_t r = own; r < count; ++r) {
      memcpy(space->block.data() + (r - own) * A_STRIDE, rows[r] + first_ + begin,
             (end - begin) * sizeof(T));
    }
    product.add({count - own, count_, end - begin, space->block.data(), by_position(begin),
                 (end - begin) * strip_, space->places.data() + own});
  }

  T* const combined = space->combined.data();  // R V T
  clear_and_point(space->places, combined, count, count_);
  product.add({count, count_, count_, coordinates, packed_factor_.data(), count_ * strip_,
               space->places.data()});

  for (size_t r = 0; r < count; ++r) {
    if (planted("ascending_reflectors") && r < own) {
      std::fill(space->places[r] + index[r] - first_ + 1, space->places[r] + count_, T{0});
    }
    space->places[r] = rows[r] + first_;
  }
  product.subtract({count, width_, count_, combined, by_reflector_.data(), count_ * strip_,
                    space->places.data()});
}

// A vector of this panel is -s e before it, so that its coordinates are an element of each
// reflector.
template <class T>
void Panel<T>::begin_row(T* row, size_t own, T* coordinates) {
  const T sign = static_cast<T>(-signs_[own]);
  std::fill_n(row + first_, width_, T{0});
  row[first_ + own] = sign;
  const size_t depth = std::min(GEMM_DEPTH, width_);
  const T* strip = by_position(0) + own * strip_;
  for (size_t k = 0; k < count_; k += strip_, strip += depth * strip_) {
    const size_t size = std::min(strip_, count_ - k);
    for (size_t i = 0; i < size; ++i) coordinates[k + i] += sign * strip[i];
  }
}

// Both packed forms of the vectors x of the normals, and their products with each other, over a
// group of positions.
template <class T>
void Panel<T>::pack(size_t group) {
  const size_t group_begin = group * GRAM_GROUP;
  const size_t group_end = std::min(width_, group_begin + GRAM_GROUP);
  for (size_t j = round_up(group_begin, strip_); j < group_end; j += strip_) {
    const size_t size = std::min(strip_, width_ - j);
    T* to = by_reflector_.data() + j * count_;
    for (size_t k = 0; k < count_; ++k, to += strip_) {
      memcpy(to, normals(k) + j, size * sizeof(T));
      std::fill(to + size, to + strip_, T{0});
    }
  }
  std::fill_n(gram(group), count_ * A_STRIDE, 0.0);
  for (size_t begin = group_begin; begin < group_end; begin += GEMM_DEPTH) {
    const size_t end = std::min(group_end, begin + GEMM_DEPTH);
    T* to = by_position(begin);
    for (size_t k = 0; k < count_; k += strip_, to += (end - begin) * strip_) {
      for (size_t i = 0; i < strip_; ++i) {
        const bool there = k + i < count_;
        const T* const x = normals(there ? k + i : 0);
        for (size_t j = begin; j < end; ++j) to[(j - begin) * strip_ + i] = there ? x[j] : T{0};
      }
    }
    add_to_gram(begin, end, by_position(begin), gram(group));
  }
}

// The lower triangle, and more.
template <class T>
void Panel<T>::add_to_gram(size_t begin, size_t end, const T* packed, double* gram) {
  const typename Workspaces<GramWorkspace>::Lease space(gram_workspaces_);
  const ProductKernels<double>& product = product_kernels<double>();
  const size_t strip = product.tile_columns, depth = end - begin;
  double* to = space->b.data();
  for (size_t k = 0; k < count_; k += strip, to += depth * strip) {
    const T* const from = packed + k / strip_ * depth * strip_ + k % strip_;
    for (size_t j = 0; j < depth; ++j) {
      std::copy_n(from + j * strip_, strip, to + j * strip);
    }
  }
  double* rows[PANEL];
  for (size_t k = 0; k < count_; ++k) {
    std::copy(normals(k) + begin, normals(k) + end, space->a.data() + k * A_STRIDE);
    rows[k] = gram + k * A_STRIDE;
  }
  const size_t rows_at_a_time = 2 * product.tile_rows;
  for (size_t k = 0; k < count_; k += rows_at_a_time) {
    const size_t size = std::min(rows_at_a_time, count_ - k);
    const size_t columns = std::min(PANEL, round_up(k + size, strip));
    const size_t zeros = begin == 0 ? std::min(k, depth) : 0;  // before the vectors from k on
    product.add({size, columns, depth - zeros, space->a.data() + k * A_STRIDE + zeros,
                 space->b.data() + zeros * strip, depth * strip, rows + k});
  }
}

// x becomes v, from which it differs in one position, and so do the products.
template <class T>
void Panel<T>::finish_vectors() {
  for (size_t group = 1; group * GRAM_GROUP < width_; ++group) {
    for (size_t k = 0; k < count_; ++k) {
      for (size_t l = 0; l <= k; ++l) gram(0)[k * A_STRIDE + l] += gram(group)[k * A_STRIDE + l];
    }
  }
  const size_t depth = std::min(GEMM_DEPTH, width_);
  for (size_t k = 0; k < count_; ++k) {
    double* const products = gram(0) + k * A_STRIDE;
    const double x = normals(k)[k], norm = std::sqrt(products[k]);
    signs_[k] = std::copysign(1.0, x);
    if (planted("missing_last_sign") && first_ + k + 1 == short_side_) signs_[k] = 1;
    const T v = static_cast<T>(x + std::copysign(norm, x));
    const double change = v - x;
    for (size_t l = 0; l < k; ++l) products[l] += change * normals(l)[k];
    products[k] += static_cast<double>(v) * v - x * x;
    const size_t strip = k / strip_, place = k % strip_;
    by_position(0)[(strip * depth + k) * strip_ + place] = v;
    by_reflector_[(strip * count_ + k) * strip_ + place] = v;
  }
}

// H_k on the left of I - V T V^T adds to T the row -tau_k (v_k^T V) T, tau_k.
template <class T>
void Panel<T>::make_factor() {
  for (size_t k = 0; k < count_; ++k) {
    double* const row = factor_.data() + k * A_STRIDE;
    const double* const products = gram(0) + k * A_STRIDE;
    const double tau = products[k] > 0 ? 2 / products[k] : 0;
    std::fill_n(row, PANEL, 0.0);
    for (size_t l = k / SMALL_FACTOR * SMALL_FACTOR; l < k; ++l) {
      const double scale = tau * products[l];
      const double* const above = factor_.data() + l * A_STRIDE;
      for (size_t i = k / SMALL_FACTOR * SMALL_FACTOR; i <= l; ++i) row[i] -= scale * above[i];
    }
    row[k] = tau;
  }
  for (size_t size = SMALL_FACTOR; size < count_; size *= 2) {
    for (size_t first = 0; first + size < count_; first += 2 * size) join_factors(first, size);
  }
}

// Of two parts of V with factors T1 and T2, the factor is T1 and T2 on the diagonal and, below,
// -T2 (V2^T V1) T1.
template <class T>
void Panel<T>::join_factors(size_t first, size_t size) {
  const ProductKernels<double>& product = product_kernels<double>();
  const size_t strip = product.tile_columns;
  const size_t second = first + size, rows = std::min(size, count_ - second);
  double* const upper = strips_.data();           // T1, packed
  double* const between = upper + PANEL * PANEL;  // (V2^T V1) T1, packed
  double* places[PANEL];
  for (size_t column = 0; column < size; column += strip) {
    const size_t columns = std::min(strip, size - column);
    for (size_t k = 0; k < size; ++k) {
      std::copy_n(factor_.data() + (first + k) * A_STRIDE + first + column, columns,
                  upper + k * strip);
    }
    for (size_t k = 0; k < rows; ++k) {
      places[k] = between + k * strip;
      std::fill_n(places[k], strip, 0.0);
    }
    product.add({rows, columns, size, gram(0) + second * A_STRIDE + first, upper, 0, places});
    for (size_t k = 0; k < rows; ++k) {
      places[k] = factor_.data() + (second + k) * A_STRIDE + first + column;
    }
    product.subtract(
        {rows, columns, rows, factor_.data() + second * A_STRIDE + second, between, 0, places});
  }
}

template <class T>
void Panel<T>::pack_factor() {
  T* to = packed_factor_.data();
  for (size_t column = 0; column < count_; column += strip_) {
    for (size_t k = 0; k < count_; ++k, to += strip_) {
      for (size_t i = 0; i < std::min(strip_, count_ - column); ++i) {
        // T's transpose is that of the reflectors in ascending order.
        const bool ascending = planted("ascending_reflectors");
        const size_t row = ascending ? column + i : k, at = ascending ? k : column + i;
        to[i] = static_cast<T>(factor_[row * A_STRIDE + at]);
      }
    }
  }
}

template class Panel<float>;
template class Panel<double>;

}  // namespace fanin
