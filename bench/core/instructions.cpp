// One fill by the core alone, for a simulator that counts its instructions: bench/instructions.py.
//
//   instructions DISTRIBUTION DTYPE ROWS COLUMNS BEGIN END [ROUNDS]
//
// fills the columns [BEGIN, END) of a matrix on this thread, once unmeasured (tables that live as
// long as the process, first touch of the memory), then ROUNDS times (by default once) in
// `measured`, and prints the median time of those in seconds. Without arguments it prints the
// compiler that made it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

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
  if (name == "constant") return Sampler::constant(0.3, dtype);
  if (name == "uniform") return Sampler::uniform(-0.05, 0.05, dtype);
  if (name == "normal") return Sampler::normal(0, 0.02, dtype);
  if (name == "truncated_normal") {
    return Sampler::truncated_normal(0, 0.02, -2, 2, -0.04, 0.04, dtype);
  }
  std::fprintf(stderr, "unknown distribution %s\n", name.c_str());
  std::exit(2);
}

}  // namespace

extern "C" __attribute__((noinline)) void measured(const Sampler& sampler,
                                                   const fanin::Region& region, char* out) {
  fanin::fill(sampler, 0x0123456789ABCDEF, region, out, 1, nullptr);
}

int main(int argc, char** argv) {
  if (argc == 1) {
#ifdef __clang__
    std::printf("clang++ %d\n", __clang_major__);
#else
    std::printf("g++ %d\n", __GNUC__);
#endif
    return 0;
  }
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr,
                 "usage: instructions DISTRIBUTION DTYPE ROWS COLUMNS BEGIN END [ROUNDS]\n");
    return 2;
  }
  const Dtype dtype = dtype_of(argv[2]);
  const Sampler sampler = sampler_of(argv[1], dtype);
  const uint64_t rows = std::strtoull(argv[3], nullptr, 10);
  const uint64_t columns = std::strtoull(argv[4], nullptr, 10);
  const uint64_t begin = std::strtoull(argv[5], nullptr, 10);
  const uint64_t end = std::strtoull(argv[6], nullptr, 10);
  const int rounds = argc == 8 ? std::atoi(argv[7]) : 1;
  const auto item = static_cast<int64_t>(fanin::item_size(dtype));
  const auto row_bytes = static_cast<int64_t>(end - begin) * item;
  const fanin::Region region{{rows, columns}, {0, begin}, {rows, end - begin}, {row_bytes, item}};
  std::vector<char> memory(rows * row_bytes);
  fanin::fill(sampler, 0, region, memory.data(), 1, nullptr);
  std::vector<double> seconds(rounds);
  for (double& s : seconds) {
    const auto start = std::chrono::steady_clock::now();
    measured(sampler, region, memory.data());
    s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  std::printf("%.9f\n", seconds[rounds / 2]);
}
