#include "common/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace fa::simt {

namespace {

#ifdef FA_SIMT_ASAN
constexpr size_t kStackBytes = 1024 * 1024;  // the sanitizer's frames are several times as large
#else
constexpr size_t kStackBytes = 256 * 1024;
#endif

// All tops at the same offset in a page would share the same few sets of the first-level cache,
// and each switch would miss. Neighbouring threads start two cache lines apart instead.
size_t colour(int i) { return static_cast<size_t>(i % 32) * 128; }

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

StackPool::StackPool(int count)
    : count_(count),
      stride_(kStackBytes + page_bytes()),
      total_bytes_(stride_ * static_cast<size_t>(count)) {
  void* memory = mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  for (int i = 0; i < count; ++i) {
    if (mprotect(memory_ + stride_ * static_cast<size_t>(i), page_bytes(), PROT_NONE) != 0) {
      munmap(memory_, total_bytes_);
      throw std::bad_alloc();
    }
  }
}

StackPool::~StackPool() { munmap(memory_, total_bytes_); }

void StackPool::prepare(Fiber& fiber, int i, void (*entry)(transfer_t)) const {
  char* bottom = memory_ + stride_ * static_cast<size_t>(i) + page_bytes();
  const size_t bytes = kStackBytes - colour(i);
  fiber.stack_bottom = bottom;
  fiber.stack_bytes = bytes;
  fiber.fake_stack = nullptr;
#ifdef FA_SIMT_ASAN  // what the last kernel left: threads end without leaving their last frames
  constexpr size_t kTop = 64 * 1024;
  __asan_unpoison_memory_region(bottom + kStackBytes - kTop, kTop);
#endif
  fiber.context = boost::context::detail::make_fcontext(bottom + bytes, bytes, entry);
}

namespace {

constexpr size_t kMaxKept = 64;
std::mutex kept_mutex;
std::vector<std::unique_ptr<StackPool>> kept;

}  // namespace

std::unique_ptr<StackPool> borrow_stacks(int count) {
  {
    const std::lock_guard lock(kept_mutex);
    for (std::unique_ptr<StackPool>& stacks : kept) {
      if (stacks->count() != count) continue;
      std::swap(stacks, kept.back());
      std::unique_ptr<StackPool> found = std::move(kept.back());
      kept.pop_back();
      return found;
    }
  }
  return std::make_unique<StackPool>(count);
}

void give_back_stacks(std::unique_ptr<StackPool> stacks) {
  const std::lock_guard lock(kept_mutex);
  if (kept.size() < kMaxKept) kept.push_back(std::move(stacks));
}

}  // namespace fa::simt
