#include "threads.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "environment.h"

namespace fanin {

void for_each_block(uint64_t blocks, int threads, const std::function<void(uint64_t)>& work,
                    const Poll& poll) {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;  // the first, guarded by the mutex

  const auto run = [&](const Poll& between) {
    const IeeeEnvironment environment;
    try {
      while (!stop.load(std::memory_order_relaxed)) {
        const uint64_t block = next.fetch_add(1, std::memory_order_relaxed);
        if (block >= blocks) return;
        work(block);
        if (between) between();
      }
    } catch (...) {
      stop = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };

  using Clock = std::chrono::steady_clock;
  constexpr auto INTERVAL = std::chrono::milliseconds(50);
  auto polled = Clock::now();
  const Poll poll_now_and_then = [&] {
    if (!poll || Clock::now() - polled < INTERVAL) return;
    poll();
    polled = Clock::now();
  };

  std::vector<std::thread> helpers;
  const uint64_t wanted = blocks < static_cast<uint64_t>(threads) ? blocks : threads;
  try {
    for (uint64_t i = 1; i < wanted; ++i) helpers.emplace_back(run, nullptr);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are, at least the caller's, do the work.
  }
  run(poll_now_and_then);
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fanin
