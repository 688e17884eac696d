// Orthogonal matrices by the core alone: prints the bytes of two of tests/orthogonal_fills.py.
//
//   orthogonal DTYPE SHORT LONG POSITION GAIN THREADS
//
// FANIN_SIMD chooses the instruction set. The vectors of the second matrix are filled in two calls.
#include "orthogonal.h"

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "sampler.h"

namespace {

std::vector<int64_t> range(size_t begin, size_t end, int64_t step = 1) {
  std::vector<int64_t> numbers;
  for (size_t i = begin; i < end; ++i) numbers.push_back(static_cast<int64_t>(i) * step);
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: orthogonal DTYPE SHORT LONG POSITION GAIN THREADS\n");
    return 2;
  }
  const std::string name = argv[1];
  const fanin::Dtype dtype = name == "float64"    ? fanin::Dtype::float64
                             : name == "bfloat16" ? fanin::Dtype::bfloat16
                                                  : fanin::Dtype::float32;
  const size_t short_side = std::strtoull(argv[2], nullptr, 10);
  const size_t long_side = std::strtoull(argv[3], nullptr, 10);
  const uint64_t position = std::strtoull(argv[4], nullptr, 10);
  const auto item = static_cast<int64_t>(fanin::item_size(dtype));
  const int64_t row = static_cast<int64_t>(long_side) * item;
  const int64_t matrix = static_cast<int64_t>(short_side) * row;
  std::vector<char> memory(2 * static_cast<size_t>(matrix));
  const auto fill = [&](size_t number, size_t first, size_t last) {
    const auto matrices = range(number, number + 1),
               matrix_offsets = range(number, number + 1, matrix);
    const auto vectors = range(first, last), vector_offsets = range(first, last, row);
    const auto components = range(0, long_side), component_offsets = range(0, long_side, item);
    const fanin::OrthogonalRegion region{
        short_side,
        long_side,
        {matrices.data(), matrix_offsets.data(), matrices.size()},
        {vectors.data(), vector_offsets.data(), vectors.size()},
        {components.data(), component_offsets.data(), components.size()}};
    fanin::fill_orthogonal(position, region, std::atof(argv[5]), dtype, memory.data(),
                           std::atoi(argv[6]), nullptr);
  };
  fill(0, 0, short_side);
  fill(1, short_side / 3, short_side);
  fill(1, 0, short_side / 3);
  return std::fwrite(memory.data(), 1, memory.size(), stdout) == memory.size() ? 0 : 1;
}
