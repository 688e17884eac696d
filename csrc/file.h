// Samples tensors into a file: small buffers, filled and written at their offsets by all threads.
#pragma once

#include <functional>
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

// Called like Poll, with the bytes written so far.
using Progress = std::function<void(uint64_t)>;

// Throws std::system_error with errno where a write fails.
void write_tensors(int file, const std::vector<StoredTensor>& tensors, int threads,
                   const Progress& progress);

}  // namespace fanin
