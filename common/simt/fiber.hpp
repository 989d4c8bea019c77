#pragma once
// A fiber per CUDA thread, which has its own stack and a point to continue from. Switching is a
// function call that swaps stacks (Boost.Context's fcontext) and does not involve the operating
// system.

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define FA_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FA_SIMT_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define FA_SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FA_SIMT_TSAN 1
#endif
#endif

#ifdef FA_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FA_SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace fa::simt {

using boost::context::detail::fcontext_t;
using boost::context::detail::transfer_t;

/// A fiber, or the stack of the CPU thread that runs fibers. Both can be switched to.
struct Fiber {
  fcontext_t context = nullptr;  // where it continues, valid while it is not running
  bool ended = false;            // it will not run again
  // Only the sanitizers need the rest, because they must know which stack is in use. (Boost's own
  // annotations need a Boost that was built with BOOST_USE_ASAN, and Debian's is not.)
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

/// Tells the thread sanitizer that `from` stops and `to` runs.
inline void announce_switch([[maybe_unused]] Fiber& from, [[maybe_unused]] Fiber& to) {
#ifdef FA_SIMT_TSAN
  if (from.tsan_fiber == nullptr) from.tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

/// Must be the first call on a new fiber `own`. `from` is the argument of its entry function.
inline void arrive_on(Fiber* own, transfer_t from) {
  auto* previous = static_cast<Fiber*>(from.data);
  previous->context = from.fctx;
#ifdef FA_SIMT_ASAN
  __sanitizer_finish_switch_fiber(own->fake_stack, &previous->stack_bottom, &previous->stack_bytes);
#endif
  (void)own;
}

/// Leaves `from` and runs `to`. Returns when another fiber switches back to `from`.
inline void switch_fiber(Fiber& from, Fiber& to) {
#ifdef FA_SIMT_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
  announce_switch(from, to);
  arrive_on(&from, boost::context::detail::jump_fcontext(to.context, &from));
}

/// Leaves `from`, which will not run again, and runs `to`.
[[noreturn]] inline void leave_fiber(Fiber& from, Fiber& to) {
  from.ended = true;
#ifdef FA_SIMT_ASAN
  __sanitizer_start_switch_fiber(nullptr, to.stack_bottom, to.stack_bytes);
#endif
  announce_switch(from, to);
  boost::context::detail::jump_fcontext(to.context, &from);
  __builtin_unreachable();
}

/// Stack size of a CUDA thread in bytes.
extern const size_t kStackBytes;

/// Stacks for the threads of one block. Each has inaccessible memory below it, as large as CUDA's
/// limit of local memory. Therefore a kernel whose arrays do not fit stops there instead of
/// overwriting the next stack. Memory is only reserved, and the system provides a page when it is
/// first touched.
class StackPool {
 public:
  explicit StackPool(int count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  int count() const { return count_; }
  /// True if `address` is in the inaccessible memory below one of the stacks.
  bool is_overflow(const void* address) const;
  /// True if the address is in stack i.
  bool holds(int i, const void* address) const {
    const auto* top = memory_ + stride_ * (static_cast<size_t>(i) + 1);
    const auto below = static_cast<size_t>(top - static_cast<const char*>(address));
    return below - 1 < kStackBytes;
  }
  /// Prepares `fiber` so that the first switch to it calls entry(transfer_t) on stack i.
  void prepare(Fiber& fiber, int i, void (*entry)(transfer_t));

 private:
  int count_;
  size_t stride_;
  size_t total_bytes_;
  char* memory_;
#ifdef FA_SIMT_TSAN
  struct TsanFiber {
    void* fiber = nullptr;
    int uses = 0;
  };
  std::vector<TsanFiber> tsan_fibers_;
#endif
};

/// Returns `count` stacks: a returned pool of that size or a new one. Pools are kept between
/// launches, because reserving and protecting stacks takes longer than a small kernel. Throws
/// std::bad_alloc when the system has no more, because each stack takes two memory mappings, and
/// Linux allows 65530 (vm.max_map_count).
std::unique_ptr<StackPool> borrow_stacks(int count);
void give_back_stacks(std::unique_ptr<StackPool> stacks);

}  // namespace fa::simt
