// The fills whose hashes are committed, by the core alone: prints the bytes of one of them.
//
//   fills DISTRIBUTION DTYPE POSITION THREADS
//
// The parameters are those of tests/fills.py. FANIN_SIMD chooses the instruction set. The first
// half is filled in one piece, past the cache where there are such stores, the second in short
// rows, cut at odd places.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "fill.h"

namespace {

using fanin::Dtype;
using fanin::Sampler;

Dtype dtype_of(const std::string& name) {
  const char* names[] = {"float64",  "float32",       "float16",
                         "bfloat16", "float8_e4m3fn", "float8_e5m2"};
  for (int i = 0; i < fanin::DTYPES; ++i) {
    if (name == names[i]) return static_cast<Dtype>(i);
  }
  std::fprintf(stderr, "unknown dtype %s\n", name.c_str());
  std::exit(2);
}

Sampler sampler_of(const std::string& name, Dtype dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (name == "constant") return Sampler::constant(0.3, dtype);
  if (name == "uniform") return Sampler::uniform(-0.05, 0.05, dtype);
  if (name == "normal") return Sampler::normal(0.25, 2.0, dtype);
  if (name == "truncated_normal") return Sampler::truncated_normal(0, 1, -2, 2, -2, 2, dtype);
  if (name == "one_sided") return Sampler::truncated_normal(0, 1, 1, infinity, 1, infinity, dtype);
  if (name == "far") return Sampler::truncated_normal(0, 1, 12, infinity, 12, infinity, dtype);
  std::fprintf(stderr, "unknown distribution %s\n", name.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: fills DISTRIBUTION DTYPE POSITION THREADS\n");
    return 2;
  }
  const Dtype dtype = dtype_of(argv[2]);
  const Sampler sampler = sampler_of(argv[1], dtype);
  const uint64_t position = std::strtoull(argv[3], nullptr, 10);
  const int threads = std::atoi(argv[4]);
  const uint64_t rows = 1024, columns = 1024, count = rows * columns;
  const auto item = static_cast<int64_t>(fanin::item_size(dtype));
  std::vector<char> memory(count * item);
  const auto fill = [&](uint64_t row, uint64_t row_end, uint64_t column, uint64_t column_end) {
    const fanin::Region region{{rows, columns},
                               {row, column},
                               {row_end - row, column_end - column},
                               {static_cast<int64_t>(columns) * item, item}};
    char* const origin = memory.data() + (row * columns + column) * item;
    fanin::Fill fill(sampler, position, region, origin);
    if (row == 0) fill.stream();
    fanin::for_each_block(
        fill.blocks(), threads, [&](uint64_t block) { fill.fill_block(block); }, nullptr);
  };
  fill(0, rows / 2, 0, columns);
  const uint64_t cuts[] = {0, 35, 512, 1021, columns};
  for (int i = 0; i < 4; ++i) fill(rows / 2, rows, cuts[i], cuts[i + 1]);
  return std::fwrite(memory.data(), item, count, stdout) == count ? 0 : 1;
}
