// Fibers in WebAssembly. A program cannot access its call stack there. Binaryen's asyncify
// therefore unwinds a fiber that stops and saves its frames, and calls the fiber again from its
// entry when it continues. host.mjs calls the fibers in a loop. Frames of the program itself are
// below that loop and need no saving. The stack in linear memory (__stack_pointer) is not moved,
// because each fiber has one, and the frames saved by asyncify are below it.

#include "common/simt/fiber.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "docs/wasm/fiber.hpp"
#include "docs/wasm/host.hpp"

namespace {

using boost::context::detail::transfer_t;

constexpr uint32_t kSavedBytes = 8 * 1024;  // for frames
constexpr uint32_t kCanary = 0x0ddba11u;

// At the bottom of the fiber's stack. host.mjs uses the first five fields, and
// docs/editor/fibers.mjs six.
struct Context {
  uint32_t saved_at, saved_end;  // used by asyncify, where the next frame goes, and the end
  uint32_t stack_pointer;
  uint32_t started;
  uint32_t is_main;
  uint32_t ended;  // it will not run again
  void (*entry)(transfer_t);
  transfer_t transfer;
  uint32_t canary;
};
static_assert(sizeof(void*) == 4 && offsetof(Context, ended) == 20);

Context main_context{0, 0, 0, 1, 1, 0, nullptr, {}, kCanary};
Context* current = &main_context;

}  // namespace

extern "C" {

__attribute__((export_name("fa_current"))) Context* fa_current() { return current; }

// The frame at the bottom of each fiber. It is in build.py's list, because asyncify cannot see that
// the call leads to host_leave_fiber.
__attribute__((export_name("fa_fiber"), noinline)) void fa_fiber() {
  current->entry(current->transfer);
}

}  // extern "C"

namespace boost::context::detail {

transfer_t jump_fcontext(fcontext_t to, void* data) {
  Context* const from = current;
  current = static_cast<Context*>(to);
  current->transfer = {from, data};
  from->ended = static_cast<fa::simt::Fiber*>(data)->ended;
  if (from->canary != kCanary) host_fail("a thread's arrays do not fit its stack of 64 KiB");
  if (from->is_main) {
    host_run_fibers();
  } else {
    host_leave_fiber();
  }
  return from->transfer;
}

fcontext_t make_fcontext(void* stack_top, size_t bytes, void (*entry)(transfer_t)) {
  char* const bottom = static_cast<char*>(stack_top) - bytes;
  auto* const context = reinterpret_cast<Context*>(bottom + kSavedBytes);
  const auto at = reinterpret_cast<uint32_t>(bottom);
  *context = {at, at + kSavedBytes, reinterpret_cast<uint32_t>(stack_top) & ~15u, 0, 0, 0, entry,
              {}, kCanary};
  return context;
}

}  // namespace boost::context::detail

namespace fa::wasm {

void switch_to_main(void* data) {
  main_context.transfer = {current, data};
  current = &main_context;
}

}  // namespace fa::wasm

namespace fa::simt {

const size_t kStackBytes = 64 * 1024;  // chapter 17's FP8 kernel uses more than half

StackPool::StackPool(int count)
    : count_(count),
      stride_(kStackBytes + kSavedBytes),
      total_bytes_(stride_ * static_cast<size_t>(count)),
      memory_(static_cast<char*>(std::aligned_alloc(16, total_bytes_))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

StackPool::~StackPool() { std::free(memory_); }

bool StackPool::is_overflow(const void*) const { return false; }  // there is no fault to check

void StackPool::prepare(Fiber& fiber, int i, void (*entry)(transfer_t)) {
  char* const bottom = memory_ + stride_ * static_cast<size_t>(i);
  fiber.ended = false;
  fiber.context = boost::context::detail::make_fcontext(bottom + stride_, stride_, entry);
}

namespace {
std::unique_ptr<StackPool> kept;  // most launches of a program have blocks of the same size
}

std::unique_ptr<StackPool> borrow_stacks(int count) {
  if (kept != nullptr && kept->count() == count) return std::move(kept);
  kept.reset();
  return std::make_unique<StackPool>(count);
}

void give_back_stacks(std::unique_ptr<StackPool> stacks) { kept = std::move(stacks); }

}  // namespace fa::simt
