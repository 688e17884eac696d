// The fills whose hashes are committed, by the core alone: prints the bytes of one of them.
//
//   fills DISTRIBUTION DTYPE POSITION THREADS
//
// The parameters are those of tests/fills.py. FANIN_SIMD chooses the instruction set. The first
// half is filled in one piece, past the cache where there are such stores, the second in short
// rows, cut at odd places. `orthogonal` and `orthogonal_tall` are a matrix of whole vectors, of
// which the second half follows alone; `mamba_a_log` is a constant a column.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "fill.h"
#include "orthogonal.h"
#include "scalar_math.h"

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
  if (name == "mamba_dt_bias") return Sampler::time_step_bias(0.003, 5, 0.01, dtype);
  std::fprintf(stderr, "unknown distribution %s\n", name.c_str());
  std::exit(2);
}

struct Indices {
  std::vector<int64_t> index, offset;

  Indices(int64_t begin, int64_t end, int64_t stride) {
    for (int64_t i = begin; i < end; ++i) {
      index.push_back(i);
      offset.push_back(i * stride);
    }
  }
  fanin::Places places() const { return {index.data(), offset.data(), index.size()}; }
};

std::vector<char> orthogonal(bool tall, Dtype dtype, uint64_t position, int threads) {
  constexpr int64_t SHORT = 301, LONG = 422;
  const auto item = static_cast<int64_t>(fanin::item_size(dtype));
  const int64_t along_short = tall ? item : LONG * item, along_long = tall ? SHORT * item : item;
  std::vector<char> memory(SHORT * LONG * item);
  const Indices batch(0, 1, 0), components(0, LONG, along_long);
  for (const int64_t begin : {int64_t{0}, SHORT / 2}) {
    const Indices vectors(begin, begin == 0 ? SHORT / 2 : SHORT, along_short);
    const fanin::OrthogonalRegion region{SHORT, LONG, batch.places(), vectors.places(),
                                         components.places()};
    fanin::fill_orthogonal(position, region, 1.5, dtype, memory.data(), threads, nullptr);
  }
  return memory;
}

bool print(const std::vector<char>& memory) {
  return std::fwrite(memory.data(), 1, memory.size(), stdout) == memory.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: fills DISTRIBUTION DTYPE POSITION THREADS\n");
    return 2;
  }
  const Dtype dtype = dtype_of(argv[2]);
  const uint64_t position = std::strtoull(argv[3], nullptr, 10);
  const int threads = std::atoi(argv[4]);
  const std::string name = argv[1];
  if (name == "orthogonal" || name == "orthogonal_tall") {
    return print(orthogonal(name == "orthogonal_tall", dtype, position, threads)) ? 0 : 1;
  }
  const bool small = name.rfind("mamba", 0) == 0;
  const uint64_t rows = small ? 301 : 1024, columns = small ? 422 : 1024;
  const auto item = static_cast<int64_t>(fanin::item_size(dtype));
  std::vector<char> memory(rows * columns * item);
  const auto fill = [&](const Sampler& sampler, uint64_t row, uint64_t row_end, uint64_t column,
                        uint64_t column_end) {
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
  if (name == "mamba_a_log") {
    for (uint64_t i = 0; i < columns; ++i) {
      const double value = fanin::logarithm(static_cast<double>(1 + i));
      fill(Sampler::constant(value, dtype), 0, rows, i, i + 1);
    }
    return print(memory) ? 0 : 1;
  }
  const Sampler sampler = sampler_of(name, dtype);
  fill(sampler, 0, rows / 2, 0, columns);
  const uint64_t cuts[] = {0, 35, columns / 2, columns - 3, columns};
  for (int i = 0; i < 4; ++i) fill(sampler, rows / 2, rows, cuts[i], cuts[i + 1]);
  return print(memory) ? 0 : 1;
}
