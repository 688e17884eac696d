#include "fill.h"

#include <string.h>

#include <algorithm>

#include "dispatch.h"
#include "faults.h"
#include "integers.h"
#include "memory.h"

namespace fanin {
namespace {

// Elements a block: a tenth of a millisecond, so that threads share well and Ctrl-C is answered
// soon.
constexpr uint64_t BLOCK_ELEMENTS = uint64_t{1} << 17;

// Draws a lane: the lanes of a run are this far apart. An odd number of 64 draws keeps the lanes'
// stores in different sets of the cache. The narrow spacing is for small tensors and the ends of
// large ones.
constexpr uint64_t WIDE_LANE = 31 * 64;
constexpr uint64_t NARROW_LANE = 64;

// Rows up to this many draws are sampled a row a lane.
constexpr uint64_t SHORT_ROW = 1024;
// As many rows are worth the set-up of a table that jumps from row to row.
constexpr uint64_t ROWS_WORTH_A_TABLE = 64;

constexpr uint64_t HUGE_PAGES_FROM = uint64_t{1} << 22;  // bytes, as NumPy

// Memory that was in use, of at least this size, is written past the cache: it would not stay
// there, and a plain store first reads the line it overwrites. In 256 MB and 1 GB, with AVX-512,
// uniforms are 1.3 to 1.7 times as fast so and normals 1.03 to 1.25 times; constants, on any
// x86-64, 2 to 3 times. Untouched memory is not: the kernel has just zeroed it, and so has its
// lines in the cache.
constexpr uint64_t STREAM_FROM = uint64_t{1} << 25;  // bytes

constexpr uint64_t STRIDED_ELEMENTS = uint64_t{1} << 14;

const Jump& lane_jump(uint64_t draws) {
  static const uint64_t LOST = planted("lanes_overlap") ? 2 : 0;
  static const Jump wide(WIDE_LANE - LOST), narrow(NARROW_LANE - LOST);
  return draws == WIDE_LANE ? wide : narrow;
}

Kernel kernel_of(const Sampler& sampler) {
  return kernels()
      .kernels[static_cast<int>(sampler.distribution())][static_cast<int>(sampler.dtype())];
}

template <class Item>
void scatter_items(const char* from, char* to, int64_t stride, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i, from += sizeof(Item), to += stride) {
    memcpy(to, from, sizeof(Item));
  }
}

}  // namespace

Fill::Fill(const Sampler& sampler, uint64_t position, const Region& region, char* out)
    : sampler_(sampler), position_(planted("name_ignored") ? 0 : position), first_{0, out} {
  const auto item = static_cast<int64_t>(item_size(sampler.dtype()));
  // Axes from the innermost outwards, merged where both the matrix and the destination run on.
  std::vector<Axis> axes;
  uint64_t stride = 1;
  bool empty = false;
  for (size_t i = region.shape.size(); i-- > 0;) {
    first_.element += region.start[i] * stride;
    empty |= region.extent[i] == 0;
    const Axis axis{region.extent[i], stride, region.strides[i]};
    if (axis.extent != 1) {
      if (!axes.empty() && axis.matrix_stride == axes.back().extent * axes.back().matrix_stride &&
          axis.out_stride == static_cast<int64_t>(axes.back().extent) * axes.back().out_stride) {
        axes.back().extent *= axis.extent;
      } else {
        axes.push_back(axis);
      }
    }
    stride *= region.shape[i];
  }
  if (axes.empty() || axes.front().matrix_stride != 1) axes.insert(axes.begin(), Axis{1, 1, item});
  columns_ = axes[0];
  rows_ = axes.size() > 1 ? axes[1] : Axis{1, 0, 0};
  outer_.assign(axes.rbegin(), axes.rend() - std::min<size_t>(2, axes.size()));

  columns_a_block_ = std::min(columns_.extent, BLOCK_ELEMENTS);
  rows_a_block_ = std::max<uint64_t>(1, BLOCK_ELEMENTS / std::max<uint64_t>(1, columns_.extent));
  if (empty) {
    blocks_ = 0;
    return;
  }
  column_blocks_ = ceil_div(columns_.extent, columns_a_block_);
  row_blocks_ = ceil_div(rows_.extent, rows_a_block_);
  blocks_ = column_blocks_ * row_blocks_;
  for (const Axis& axis : outer_) blocks_ *= axis.extent;

  const auto lanes = static_cast<uint64_t>(kernels().lanes);
  short_rows_ = rows_.extent > 1 && sampler.draws(columns_.extent) <= SHORT_ROW &&
                rows_.matrix_stride < (uint64_t{1} << 56);
  if (short_rows_ && !sampler.is_constant() && std::min(rows_.extent, rows_a_block_) > lanes &&
      rows_.extent >= ROWS_WORTH_A_TABLE) {
    // An even number of rows, so a whole number of units.
    next_rows_ = std::make_unique<Jump>(lanes * rows_.matrix_stride / sampler.unit_elements() *
                                        sampler.unit_draws());
  }
}

uint64_t Fill::contiguous_bytes() const {
  const uint64_t item = item_size(sampler_.dtype());
  const bool whole =
      outer_.empty() && rows_.extent == 1 && columns_.out_stride == static_cast<int64_t>(item);
  return whole ? columns_.extent * item : 0;
}

void Fill::fill_block(uint64_t block) const {
  const uint64_t column_block = block % column_blocks_;
  block /= column_blocks_;
  const uint64_t row_block = block % row_blocks_;
  block /= row_blocks_;
  Place place = first_;
  const auto advance = [&place](const Axis& axis, uint64_t index) {
    place.element += index * axis.matrix_stride;
    place.out += static_cast<int64_t>(index) * axis.out_stride;
  };
  for (size_t i = outer_.size(); i-- > 0;) {
    advance(outer_[i], block % outer_[i].extent);
    block /= outer_[i].extent;
  }
  const uint64_t first_row = row_block * rows_a_block_;
  const uint64_t rows = std::min(rows_a_block_, rows_.extent - first_row);
  const uint64_t first_column = column_block * columns_a_block_;
  const uint64_t columns = std::min(columns_a_block_, columns_.extent - first_column);
  advance(rows_, first_row);
  advance(columns_, first_column);
  if (short_rows_ && !sampler_.is_constant()) return fill_short_rows(place, rows);
  for (uint64_t row = 0; row < rows; ++row) {
    if (sampler_.is_constant()) {
      fill_constant(place, columns);
    } else if (columns_.out_stride == static_cast<int64_t>(item_size(sampler_.dtype()))) {
      fill_run(place, columns);
    } else {
      fill_strided(place, columns);
    }
    advance(rows_, 1);
  }
}

Fill::Unit Fill::unit_of(uint64_t element) const {
  const uint64_t draw = element / sampler_.unit_elements() * sampler_.unit_draws();
  return {state_before(add_mod_period(position_, draw)), element % sampler_.unit_elements()};
}

void Fill::fill_constant(Place row, uint64_t columns) const {
  const size_t item = item_size(sampler_.dtype());
  if (columns_.out_stride != static_cast<int64_t>(item)) {
    for (uint64_t i = 0; i < columns; ++i, row.out += columns_.out_stride) {
      memcpy(row.out, sampler_.pattern(), item);
    }
    return;
  }
  char pattern[CACHE_LINE];
  for (size_t i = 0; i < sizeof pattern; i += item) memcpy(pattern + i, sampler_.pattern(), item);
  uint64_t left = columns * item;
  if (stream_) {
    const uint64_t head = std::min(left, columns_to_line(row.out) * item);
    memcpy(row.out, pattern, head);
    row.out += head;
    left -= head;
    if (reinterpret_cast<uintptr_t>(row.out) % CACHE_LINE == 0) {
      stream_lines(row.out, left / CACHE_LINE, pattern);
      row.out += left / CACHE_LINE * CACHE_LINE;
      left %= CACHE_LINE;
    }
  }
  // A copy of known size is four stores in line; a call for each 512 bytes took 1.6 times as long
  // where memory does not hold it up.
  for (; left >= sizeof pattern; left -= sizeof pattern, row.out += sizeof pattern) {
    memcpy(row.out, pattern, sizeof pattern);
  }
  memcpy(row.out, pattern, left);
}

// Neighbouring elements in neighbouring memory: the lanes are neighbouring parts of the run.
void Fill::fill_run(Place place, uint64_t columns) const {
  const uint64_t head = stream_ ? columns_to_line(place.out) : 0;
  if (0 < head && head < columns) {
    fill_lanes(place, head);
    place.element += head;
    place.out += head * item_size(sampler_.dtype());
    columns -= head;
  }
  fill_lanes(place, columns);
}

uint64_t Fill::columns_to_line(const char* out) const {
  const uint64_t past = reinterpret_cast<uintptr_t>(out) % CACHE_LINE;
  return past == 0 ? 0 : (CACHE_LINE - past) / item_size(sampler_.dtype());
}

void Fill::fill_lanes(Place place, uint64_t columns) const {
  const Kernel kernel = kernel_of(sampler_);
  const int lane_count = kernels().lanes;
  const size_t item = item_size(sampler_.dtype());
  const Unit unit = unit_of(place.element);
  uint64_t state = unit.state;
  size_t begin = unit.skip * item;
  char* origin = place.out - begin;
  uint64_t left = begin + columns * item;  // bytes, from origin on
  while (left > 0) {
    const auto lane_bytes = [&](uint64_t draws) {
      return draws / sampler_.unit_draws() * sampler_.unit_elements() * item;
    };
    const bool wide = left >= static_cast<uint64_t>(lane_count) * lane_bytes(WIDE_LANE);
    const uint64_t bytes = lane_bytes(wide ? WIDE_LANE : NARROW_LANE);
    const Jump& jump = lane_jump(wide ? WIDE_LANE : NARROW_LANE);
    Lanes lanes = {};
    lanes.stream = stream_ && reinterpret_cast<uintptr_t>(origin) % CACHE_LINE == 0;
    for (int lane = 0; lane < lane_count && left > 0; ++lane) {
      lanes.state[lane] = state;
      lanes.origin[lane] = origin;
      lanes.begin[lane] = begin;
      lanes.end[lane] = std::min(bytes, left);
      state = jump(state);
      origin += lanes.end[lane];
      left -= lanes.end[lane];
      begin = 0;
    }
    kernel(sampler_.parameters(), lanes);
  }
}

// A row of its own for each lane.
void Fill::fill_short_rows(Place place, uint64_t rows) const {
  const Kernel kernel = kernel_of(sampler_);
  const auto lane_count = static_cast<uint64_t>(kernels().lanes);
  const size_t item = item_size(sampler_.dtype());
  const bool strided = columns_.out_stride != static_cast<int64_t>(item);
  const size_t row_bytes = columns_.extent * item;
  std::vector<char> buffer(strided ? lane_count * row_bytes : 0);
  Lanes lanes = {};
  for (uint64_t row = 0; row < rows; row += lane_count) {
    char* out = place.out;
    for (uint64_t lane = 0; lane < lane_count; ++lane) {
      lanes.end[lane] = 0;
      if (row + lane >= rows) continue;
      const uint64_t element = place.element + lane * rows_.matrix_stride;
      const size_t skipped = element % sampler_.unit_elements() * item;
      lanes.state[lane] =
          row > 0 && next_rows_ ? (*next_rows_)(lanes.state[lane]) : unit_of(element).state;
      lanes.origin[lane] = (strided ? buffer.data() + lane * row_bytes : out) - skipped;
      lanes.begin[lane] = skipped;
      lanes.end[lane] = skipped + row_bytes;
      out += rows_.out_stride;
    }
    kernel(sampler_.parameters(), lanes);
    if (strided) {
      for (uint64_t lane = 0; lane < std::min(lane_count, rows - row); ++lane) {
        scatter(buffer.data() + lane * row_bytes,
                place.out + static_cast<int64_t>(lane) * rows_.out_stride, columns_.extent);
      }
    }
    place.element += lane_count * rows_.matrix_stride;
    place.out += static_cast<int64_t>(lane_count) * rows_.out_stride;
  }
}

void Fill::fill_strided(Place place, uint64_t columns) const {
  std::vector<char> buffer(std::min(columns, STRIDED_ELEMENTS) * item_size(sampler_.dtype()));
  while (columns > 0) {
    const uint64_t count = std::min(columns, STRIDED_ELEMENTS);
    fill_run({place.element, buffer.data()}, count);
    scatter(buffer.data(), place.out, count);
    place.element += count;
    place.out += static_cast<int64_t>(count) * columns_.out_stride;
    columns -= count;
  }
}

void Fill::scatter(const char* from, char* to, uint64_t columns) const {
  switch (item_size(sampler_.dtype())) {
    case 1:
      return scatter_items<uint8_t>(from, to, columns_.out_stride, columns);
    case 2:
      return scatter_items<uint16_t>(from, to, columns_.out_stride, columns);
    case 4:
      return scatter_items<uint32_t>(from, to, columns_.out_stride, columns);
    default:
      return scatter_items<uint64_t>(from, to, columns_.out_stride, columns);
  }
}

void fill(const Sampler& sampler, uint64_t position, const Region& region, char* out, int threads,
          const Poll& poll) {
  Fill fill(sampler, position, region, out);
  const uint64_t bytes = fill.contiguous_bytes();
  if (bytes >= HUGE_PAGES_FROM && untouched(out, bytes)) {
    advise_huge_pages(out, bytes);
  } else if (bytes >= STREAM_FROM) {
    fill.stream();
  }
  for_each_block(fill.blocks(), threads, [&fill](uint64_t block) { fill.fill_block(block); }, poll);
}

}  // namespace fanin
