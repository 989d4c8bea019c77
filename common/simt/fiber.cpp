#include "common/simt/fiber.hpp"

#include <sys/mman.h>

#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace fa::simt {

#if defined(FA_SIMT_ASAN) || defined(FA_SIMT_TSAN)
const size_t kStackBytes = 1024 * 1024;  // frames are several times as large with a sanitizer
#else
const size_t kStackBytes = 256 * 1024;
#endif

namespace {

constexpr size_t kGuardBytes = 512 * 1024;

// If all stacks started at the same offset in a page, they would share a few sets of the L1 cache,
// and each switch would miss. Neighbouring threads start two cache lines apart instead.
size_t colour(int i) { return static_cast<size_t>(i % 32) * 128; }

}  // namespace

StackPool::StackPool(int count)
    : count_(count),
      stride_(kStackBytes + kGuardBytes),
      total_bytes_(stride_ * static_cast<size_t>(count)) {
  void* memory = mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  for (int i = 0; i < count; ++i) {
    if (mprotect(memory_ + stride_ * static_cast<size_t>(i), kGuardBytes, PROT_NONE) != 0) {
      munmap(memory_, total_bytes_);
      throw std::bad_alloc();
    }
  }
}

StackPool::~StackPool() {
#ifdef FA_SIMT_TSAN
  for (const TsanFiber& known : tsan_fibers_) {
    if (known.fiber != nullptr) __tsan_destroy_fiber(known.fiber);
  }
#endif
  munmap(memory_, total_bytes_);
}

bool StackPool::is_overflow(const void* address) const {
  const char* at = static_cast<const char*>(address);
  return at >= memory_ && at < memory_ + total_bytes_ &&
         static_cast<size_t>(at - memory_) % stride_ < kGuardBytes;
}

void StackPool::prepare(Fiber& fiber, int i, void (*entry)(transfer_t)) {
  char* bottom = memory_ + stride_ * static_cast<size_t>(i) + kGuardBytes;
  const size_t bytes = kStackBytes - colour(i);
  fiber.ended = false;
  fiber.stack_bottom = bottom;
  fiber.stack_bytes = bytes;
  fiber.fake_stack = nullptr;
#ifdef FA_SIMT_ASAN  // The last kernel's threads ended without leaving their last frames, which are
                     // still poisoned.
  constexpr size_t kTop = 64 * 1024;
  __asan_unpoison_memory_region(bottom + kStackBytes - kTop, kTop);
#endif
#ifdef FA_SIMT_TSAN
  // Creating a fiber takes longer than running a small kernel. But each use leaves a few unfinished
  // calls on its list of calls, which has room for 65536.
  constexpr int kMostUses = 1000;
  tsan_fibers_.resize(static_cast<size_t>(count_));
  TsanFiber& own = tsan_fibers_[static_cast<size_t>(i)];
  if (own.uses++ % kMostUses == 0) {
    if (own.fiber != nullptr) __tsan_destroy_fiber(own.fiber);
    own.fiber = __tsan_create_fiber(0);
  }
  fiber.tsan_fiber = own.fiber;
#endif
  fiber.context = boost::context::detail::make_fcontext(bottom + bytes, bytes, entry);
}

namespace {

#ifdef FA_SIMT_TSAN
constexpr size_t kMaxKept = 4;  // the thread sanitizer supports 8128 fibers at a time
#else
constexpr size_t kMaxKept = 64;
#endif
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
  try {
    return std::make_unique<StackPool>(count);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(kept_mutex);
    if (kept.empty()) throw;
    kept.clear();  // stacks of other sizes
  }
  return std::make_unique<StackPool>(count);
}

void give_back_stacks(std::unique_ptr<StackPool> stacks) {
  const std::lock_guard lock(kept_mutex);
  if (kept.size() < kMaxKept) kept.push_back(std::move(stacks));
}

}  // namespace fa::simt
