// The one text of the matrix product's kernel, written in the vocabulary of a simd_*.h.
//
// A tile of TILE_ROWS rows of A times TILE_VECTORS vectors of B is summed in registers, B from the
// first cache and A from the second (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 34, 2008). A sum begins with 0 and takes its terms by increasing depth,
// one multiply-add each, and is then added to C or subtracted: the shape of the tile, which is
// all that differs between instruction sets, changes no bit.

namespace {

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = F32;
};
template <>
struct VectorOf<double> {
  using Type = F64;
};

template <class T>
struct Tile {
  using V = typename VectorOf<T>::Type;
  static constexpr size_t WIDTH = sizeof(V) / sizeof(T);
  static constexpr size_t COLUMNS = TILE_VECTORS * WIDTH;

  V sums[TILE_ROWS][TILE_VECTORS];

  inline __attribute__((always_inline)) void sum(const T* a, const T* b, size_t depth) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < TILE_VECTORS; ++j) sums[i][j] = splat<V>(T{0});
    }
    for (size_t k = 0; k < depth; ++k, ++a, b += COLUMNS) {
      V row[TILE_VECTORS];
#pragma GCC unroll 4
      for (int j = 0; j < TILE_VECTORS; ++j) row[j] = load(b + j * WIDTH);
#pragma GCC unroll 16
      for (int i = 0; i < TILE_ROWS; ++i) {
        const V factor = splat<V>(a[i * fanin::A_STRIDE]);
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; ++j) sums[i][j] = fma(factor, row[j], sums[i][j]);
      }
    }
  }
};

template <bool SUBTRACT, class V>
inline V updated(V c, V sum) {
  return SUBTRACT ? c - sum : c + sum;
}

// The tile at the edge of C: only what of it is there is changed.
template <bool SUBTRACT, class T>
__attribute__((noinline)) void edge_tile(const fanin::Product<T>& p, size_t row, size_t column,
                                         const T* b) {
  using Tile = ::Tile<T>;
  Tile tile;
  tile.sum(p.a + row * fanin::A_STRIDE, b, p.depth);
  const size_t rows = p.rows - row < TILE_ROWS ? p.rows - row : TILE_ROWS;
  const size_t columns = p.columns - column < Tile::COLUMNS ? p.columns - column : Tile::COLUMNS;
  for (size_t i = 0; i < rows; ++i) {
    T old[Tile::COLUMNS] = {};
    memcpy(old, p.c[row + i] + column, columns * sizeof(T));
    for (int j = 0; j < TILE_VECTORS; ++j) {
      T* const place = old + j * Tile::WIDTH;
      store(place, updated<SUBTRACT>(load(place), tile.sums[i][j]));
    }
    memcpy(p.c[row + i] + column, old, columns * sizeof(T));
  }
}

template <bool SUBTRACT, class T>
void update_with_product(const fanin::Product<T>& p) {
  using Tile = ::Tile<T>;
  const T* b = p.b;
  for (size_t column = 0; column < p.columns; column += Tile::COLUMNS, b += p.b_strip) {
    for (size_t row = 0; row < p.rows; row += TILE_ROWS) {
      if (row + TILE_ROWS > p.rows || column + Tile::COLUMNS > p.columns) {
        edge_tile<SUBTRACT>(p, row, column, b);
        continue;
      }
      T* const* const c = p.c + row;
      Tile tile;
      // To the second cache: rows a power of two apart would push B out of the first.
      for (int i = 0; i < TILE_ROWS; ++i) {
        const char* const lines = reinterpret_cast<const char*>(c[i] + column);
        for (size_t at = 0; at < sizeof tile.sums[0]; at += 64)
          __builtin_prefetch(lines + at, 0, 2);
      }
      tile.sum(p.a + row * fanin::A_STRIDE, b, p.depth);
#pragma GCC unroll 16
      for (int i = 0; i < TILE_ROWS; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; ++j) {
          T* const place = c[i] + column + j * Tile::WIDTH;
          store(place, updated<SUBTRACT>(load(place), tile.sums[i][j]));
        }
      }
    }
  }
}

template <class T>
constexpr fanin::ProductKernels<T> product_kernels() {
  return {TILE_ROWS, Tile<T>::COLUMNS, update_with_product<false, T>, update_with_product<true, T>};
}

}  // namespace
