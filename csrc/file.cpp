#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <tuple>

#include "integers.h"

namespace fanin {
namespace {

constexpr uint64_t CHUNK_BYTES = uint64_t{1} << 20;

// A tensor cut into boxes that are contiguous in the file: one index on the axes before `axis`, a
// range on it, everything on those behind.
struct Cut {
  const StoredTensor* tensor;
  size_t item;
  size_t axis;
  uint64_t inner_bytes;  // of one index on `axis`
  uint64_t axis_extent;
  uint64_t range;        // indices of a chunk on `axis`
  uint64_t axis_chunks;  // chunks for each index on the axes before
  uint64_t first_chunk;  // the number of the tensor's first
};

Cut cut(const StoredTensor& tensor) {
  Cut c{&tensor, item_size(tensor.parts.front()->sampler.dtype()), 0, 0, 1, 1, 1, 0};
  // The outermost axis of which one index fits in a chunk; a scalar has none and is one chunk.
  c.axis = tensor.shape.size();
  c.inner_bytes = c.item;
  while (c.axis > 0) {
    --c.axis;
    c.axis_extent = tensor.shape[c.axis];
    if (c.axis == 0 || c.inner_bytes * c.axis_extent > CHUNK_BYTES) break;
    c.inner_bytes *= c.axis_extent;
  }
  c.range = std::max<uint64_t>(1, CHUNK_BYTES / c.inner_bytes);
  c.axis_chunks = ceil_div(c.axis_extent, c.range);
  return c;
}

uint64_t chunks(const Cut& c) {
  uint64_t count = c.axis_chunks;
  for (size_t i = 0; i < c.axis && i < c.tensor->shape.size(); ++i) count *= c.tensor->shape[i];
  return count;
}

// What of a part lies in the box [begin, end) of the tensor, into a row-major buffer of the box.
void fill_box(const Part& part, const std::vector<uint64_t>& begin,
              const std::vector<uint64_t>& end, char* buffer) {
  const size_t axes = begin.size();
  Region region{part.shape, part.start, part.extent, std::vector<int64_t>(axes)};
  auto stride = static_cast<int64_t>(item_size(part.sampler.dtype()));
  for (size_t i = axes; i-- > 0;) {
    const uint64_t at = part.tensor_start[i], step = part.tensor_step[i];
    const uint64_t first = begin[i] > at ? ceil_div(begin[i] - at, step) : 0;
    const uint64_t last = end[i] > at ? std::min(part.extent[i], ceil_div(end[i] - at, step)) : 0;
    if (first >= last) return;
    region.start[i] += first;
    region.extent[i] = last - first;
    region.strides[i] = stride * static_cast<int64_t>(step);
    buffer += stride * static_cast<int64_t>(at + step * first - begin[i]);
    stride *= static_cast<int64_t>(end[i] - begin[i]);
  }
  const Fill fill(part.sampler, part.position, region, buffer);
  for (uint64_t block = 0; block < fill.blocks(); ++block) fill.fill_block(block);
}

void write_all(int file, const char* data, uint64_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t written = pwrite(file, data, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category());
    data += written;
    size -= static_cast<uint64_t>(written);
    offset += static_cast<uint64_t>(written);
  }
}

void read_all(int file, char* data, uint64_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t got = pread(file, data, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category());
    if (got == 0) throw std::system_error(ENODATA, std::generic_category());
    data += got;
    size -= static_cast<uint64_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

// Has the system begin to write what lies there to the disk, so that an fsync has little left to do
// and the disk is at work while the rest is sampled. An error is left to the fsync.
void start_writeback(int file, uint64_t offset, uint64_t size) {
#ifdef __linux__
  sync_file_range(file, static_cast<off_t>(offset), static_cast<off_t>(size),
                  SYNC_FILE_RANGE_WRITE);
#else
  static_cast<void>(file), static_cast<void>(offset), static_cast<void>(size);
#endif
}

// Samples a chunk of a tensor into the buffer; returns its first byte in the tensor.
uint64_t sample_chunk(const Cut& c, uint64_t chunk, std::vector<char>& buffer) {
  const StoredTensor& tensor = *c.tensor;
  std::vector<uint64_t> begin(tensor.shape.size(), 0), end = tensor.shape;
  uint64_t outer = chunk / c.axis_chunks;
  const uint64_t first = chunk % c.axis_chunks * c.range;
  const uint64_t count = std::min(c.range, c.axis_extent - first);
  const uint64_t offset = (outer * c.axis_extent + first) * c.inner_bytes;
  if (!tensor.shape.empty()) {
    begin[c.axis] = first;
    end[c.axis] = first + count;
    for (size_t i = c.axis; i-- > 0; outer /= tensor.shape[i]) {
      begin[i] = outer % tensor.shape[i];
      end[i] = begin[i] + 1;
    }
  }
  buffer.resize(count * c.inner_bytes);
  for (const Part* part : tensor.parts) fill_box(*part, begin, end, buffer.data());
  return offset;
}

// Calls use(cut, offset in the tensor, sampled bytes) for each chunk of each tensor, which returns
// whether chunks behind it count too. They are begun in order.
void for_each_chunk(
    const std::vector<StoredTensor>& tensors, int threads, const Progress& progress,
    const std::function<bool(const Cut&, uint64_t, const std::vector<char>&)>& use) {
  std::vector<Cut> cuts;
  uint64_t total = 0;
  for (const StoredTensor& tensor : tensors) {
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) continue;
    cuts.push_back(cut(tensor));
    cuts.back().first_chunk = total;
    total += chunks(cuts.back());
  }
  std::atomic<uint64_t> done{0}, last{total};
  for_each_block(
      total, threads,
      [&](uint64_t chunk) {
        if (chunk > last.load(std::memory_order_relaxed)) return;
        const auto after =
            std::upper_bound(cuts.begin(), cuts.end(), chunk,
                             [](uint64_t value, const Cut& c) { return value < c.first_chunk; });
        const Cut& c = *(after - 1);
        thread_local std::vector<char> buffer;
        const uint64_t offset = sample_chunk(c, chunk - c.first_chunk, buffer);
        if (!use(c, offset, buffer)) {
          uint64_t before = last;
          while (chunk < before && !last.compare_exchange_weak(before, chunk)) {
          }
        }
        done += buffer.size();
      },
      [&] { progress(done); });
  progress(done);
}

}  // namespace

void write_tensors(int file, const std::vector<StoredTensor>& tensors, int threads, bool to_disk,
                   const Progress& progress) {
  for_each_chunk(tensors, threads, progress,
                 [=](const Cut& c, uint64_t offset, const std::vector<char>& sampled) {
                   const uint64_t place = c.tensor->offset + offset;
                   write_all(file, sampled.data(), sampled.size(), place);
                   if (to_disk) start_writeback(file, place, sampled.size());
                   return true;
                 });
}

std::optional<Difference> compare_tensors(int file, const std::vector<StoredTensor>& tensors,
                                          int threads, const Progress& progress) {
  std::mutex mutex;
  std::optional<Difference> first;  // guarded by the mutex
  for_each_chunk(
      tensors, threads, progress,
      [&](const Cut& c, uint64_t offset, const std::vector<char>& sampled) {
        thread_local std::vector<char> found;
        found.resize(sampled.size());
        read_all(file, found.data(), found.size(), c.tensor->offset + offset);
        if (memcmp(found.data(), sampled.data(), found.size()) == 0) return true;
        const auto at = static_cast<uint64_t>(
            std::mismatch(found.begin(), found.end(), sampled.begin()).first - found.begin());
        const Difference difference{static_cast<size_t>(c.tensor - tensors.data()),
                                    (offset + at) / c.item,
                                    std::string(&found[at / c.item * c.item], c.item),
                                    std::string(&sampled[at / c.item * c.item], c.item)};
        const std::lock_guard<std::mutex> lock(mutex);
        if (!first || std::tie(difference.tensor, difference.element) <
                          std::tie(first->tensor, first->element)) {
          first = difference;
        }
        return false;
      });
  return first;
}

}  // namespace fanin
