// Samples tensors into a file, or compares one with what would be written: small buffers, filled
// and written (or read beside) at their offsets by all threads. Files are read, not mapped: one
// that is cut short meanwhile is an error, where a map would be the end of the process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fill.h"

namespace fanin {

// A region of a logical matrix inside a stored tensor of as many axes: the matrix's index start + i
// lies at the tensor's index tensor_start + tensor_step * i, for i < extent, on each axis.
struct Part {
  Sampler sampler;
  uint64_t position;
  std::vector<uint64_t> shape, start, extent;
  std::vector<uint64_t> tensor_start, tensor_step;
};

// A row-major tensor at an offset of the file, in bytes. Its parts share a dtype and cover it once.
struct StoredTensor {
  uint64_t offset;
  std::vector<uint64_t> shape;
  std::vector<const Part*> parts;
};

// Called like Poll, with the bytes done so far.
using Progress = std::function<void(uint64_t)>;

// Throws std::system_error with errno where a write fails. `to_disk`: the caller will fsync.
void write_tensors(int file, const std::vector<StoredTensor>& tensors, int threads, bool to_disk,
                   const Progress& progress);

// An element of a tensor that has other bits in the file, with the bytes of both.
struct Difference {
  size_t tensor;     // its place in the list
  uint64_t element;  // row-major
  std::string found, expected;
};

// The first element that differs, in the order of the list. Throws std::system_error where a read
// fails, with ENODATA where the file ends too early.
std::optional<Difference> compare_tensors(int file, const std::vector<StoredTensor>& tensors,
                                          int threads, const Progress& progress);

}  // namespace fanin
