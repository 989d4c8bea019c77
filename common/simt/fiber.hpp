#pragma once
// One CUDA thread is one fiber: a stack of its own and a place to go on. Switching is a function
// call that swaps stacks (Boost.Context's fcontext); the operating system is not involved.

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

/// Something that can be switched to: a fiber, or the stack of the CPU thread that runs fibers.
struct Fiber {
  fcontext_t context = nullptr;  // where it goes on; valid while it is not running
  // Only the sanitizers use the rest: they have to be told which stack is in use. (Boost's own
  // annotations need a Boost built with BOOST_USE_ASAN, which Debian's is not.)
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

/// To call first on a new fiber, with what its entry function got; `own` is the new fiber.
inline void arrive_on(Fiber* own, transfer_t from) {
  auto* previous = static_cast<Fiber*>(from.data);
  previous->context = from.fctx;
#ifdef FA_SIMT_ASAN
  __sanitizer_finish_switch_fiber(own->fake_stack, &previous->stack_bottom, &previous->stack_bytes);
#endif
  (void)own;
}

/// Leaves `from`, runs `to`; returns when somebody switches to `from` again.
inline void switch_fiber(Fiber& from, Fiber& to) {
#ifdef FA_SIMT_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
  announce_switch(from, to);
  arrive_on(&from, boost::context::detail::jump_fcontext(to.context, &from));
}

/// The same for a fiber that nobody will switch to again.
[[noreturn]] inline void leave_fiber(Fiber& from, Fiber& to) {
#ifdef FA_SIMT_ASAN
  __sanitizer_start_switch_fiber(nullptr, to.stack_bottom, to.stack_bytes);
#endif
  announce_switch(from, to);
  boost::context::detail::jump_fcontext(to.context, &from);
  __builtin_unreachable();
}

/// Bytes of stack that a thread of a kernel has.
extern const size_t kStackBytes;

/// Stacks for the threads of one block, with as much inaccessible memory below each as CUDA's limit
/// of local memory: a kernel whose arrays do not fit stops there instead of overwriting its
/// neighbour. Memory is only reserved; the system provides a page when it is first touched.
class StackPool {
 public:
  explicit StackPool(int count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  int count() const { return count_; }
  /// Is the address below one of the stacks?
  bool is_overflow(const void* address) const;
  /// Makes `fiber` start with entry(transfer_t) on stack i when it is first switched to.
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

/// Reserving and protecting stacks costs more than a small kernel, so they are kept between
/// launches: one of the right size that was given back, or a new one. Throws std::bad_alloc when
/// the system has no more: Linux allows 65530 pieces of memory (vm.max_map_count), each stack takes
/// two.
std::unique_ptr<StackPool> borrow_stacks(int count);
void give_back_stacks(std::unique_ptr<StackPool> stacks);

}  // namespace fa::simt
