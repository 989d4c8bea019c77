#pragma once
// Boost.Context's interface for WebAssembly, which cannot swap stacks. docs/wasm/fiber.cpp
// implements it.

#include <cstddef>

namespace boost::context::detail {

using fcontext_t = void*;
struct transfer_t {
  fcontext_t fctx;
  void* data;
};

transfer_t jump_fcontext(fcontext_t to, void* data);
fcontext_t make_fcontext(void* stack_top, size_t bytes, void (*entry)(transfer_t));

}  // namespace boost::context::detail
