// Implements `throw` without unwinding, which not all browsers support. With -fignore-exceptions no
// catch and no destructor runs. An error ends the call and the instance. Block::Unwind, which is
// thrown through the threads of an abandoned block, ends its fiber.

#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

#include "common/simt/block.hpp"
#include "docs/wasm/fiber.hpp"
#include "docs/wasm/host.hpp"

extern "C" {

void* __cxa_allocate_exception(size_t bytes) { return std::malloc(bytes); }

[[noreturn]] void __cxa_throw(void* thrown, std::type_info* type, void (*)(void*)) {
  if (std::strcmp(type->name(), "N2fa4simt5Block6UnwindE") == 0) {
    std::free(thrown);
    fa::simt::Thread& self = *fa::simt::running_thread;
    self.finished = true;
    fa::simt::running_thread = nullptr;
    fa::wasm::switch_to_main(&self.fiber);
    host_abandon_fiber();
  }
  // All other types here derive from std::exception and have no other base.
  host_fail(static_cast<std::exception*>(thrown)->what());
}

// std::exception_ptr, as far as the emulator needs it to store an error. libc++'s own functions,
// built without exceptions, end the program, so build.py makes the linker use these.
__cxxabiv1::__cxa_exception* __cxa_init_primary_exception(void*, std::type_info*,
                                                          void* (*)(void*)) noexcept {
  return nullptr;  // not used
}
void __wrap___cxa_increment_exception_refcount(void*) {}
void __wrap___cxa_decrement_exception_refcount(void*) {}
void __wrap___cxa_rethrow_primary_exception(void* object) {
  if (object != nullptr) host_fail(static_cast<std::exception*>(object)->what());
}

// The only thread never ends.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

}  // extern "C"
