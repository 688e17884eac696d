// Fills any region of a matrix, at any strides, from the matrix's interval of the generator's
// cycle.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

#include "sampler.h"
#include "threads.h"
#include "xorshift.h"

namespace fanin {

// The elements [start, start + extent) of a row-major matrix, and where they go.
struct Region {
  std::vector<uint64_t> shape, start, extent;  // elements an axis
  std::vector<int64_t> strides;                // bytes an axis, of the destination
};

// A fill cut in blocks. Elements are numbered over the whole matrix, so neither the cut nor the
// order of the blocks nor the region changes a value.
class Fill {
 public:
  Fill(const Sampler& sampler, uint64_t position, const Region& region, char* out);

  uint64_t blocks() const { return blocks_; }
  // The size of the destination if it is one piece of memory, else 0.
  uint64_t contiguous_bytes() const;
  // From now on, stores go past the cache where they can.
  void stream() { stream_ = true; }
  // Safe from several threads at once.
  void fill_block(uint64_t block) const;

 private:
  struct Axis {
    uint64_t extent;         // elements of the region
    uint64_t matrix_stride;  // elements
    int64_t out_stride;      // bytes
  };
  // Where a row, or a part of it, begins.
  struct Place {
    uint64_t element;
    char* out;
  };
  // The state before the draws of the unit that holds an element, and how many elements of the
  // unit come before it.
  struct Unit {
    uint64_t state;
    uint64_t skip;
  };

  Unit unit_of(uint64_t element) const;
  void fill_constant(Place row, uint64_t columns) const;
  void fill_run(Place place, uint64_t columns) const;
  void fill_lanes(Place place, uint64_t columns) const;
  uint64_t columns_to_line(const char* out) const;
  void fill_strided(Place place, uint64_t columns) const;
  void fill_short_rows(Place place, uint64_t rows) const;
  void scatter(const char* from, char* to, uint64_t columns) const;

  const Sampler& sampler_;
  uint64_t position_;
  Place first_;
  std::vector<Axis> outer_;  // all axes but the last two, outermost first
  Axis rows_, columns_;
  uint64_t rows_a_block_, columns_a_block_, row_blocks_, column_blocks_, blocks_;
  bool short_rows_;
  bool stream_ = false;
  std::unique_ptr<Jump> next_rows_;  // from each lane's row to its next
};

void fill(const Sampler& sampler, uint64_t position, const Region& region, char* out, int threads,
          const Poll& poll);

}  // namespace fanin
