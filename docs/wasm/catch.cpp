// C++ exceptions in WebAssembly for programs without fibers. With -fwasm-exceptions the browser
// unwinds at a `throw` and calls _Unwind_CallPersonality at each landing pad, to ask whether a
// `catch` there takes the exception. Debian's libc++abi was built without this function.

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

#include "docs/wasm/host.hpp"

namespace __cxxabiv1 {

// The base class of libc++abi's type_info classes, for one virtual function.
class __shim_type_info : public std::type_info {
 public:
  ~__shim_type_info() override;
  virtual void noop1() const;
  virtual void noop2() const;
  virtual bool can_catch(const __shim_type_info* thrown, void*& object) const = 0;
};

}  // namespace __cxxabiv1

namespace {

using Type = const __cxxabiv1::__shim_type_info;

// Stored before the thrown object. It exists as long as a handler uses the object.
struct alignas(16) Header {
  Type* type;
  void* (*destroy)(void*);  // a destructor returns its object in WebAssembly
  void* caught_as;          // the object as the handler's type
  int handlers;
  int references;  // of std::exception_ptr
  bool in_flight;  // thrown, and no handler has begun
  Header* outer;   // the exception that was being handled when this one was caught
};
Header* handled = nullptr;  // the innermost handled exception

Header& header_of(void* object) { return static_cast<Header*>(object)[-1]; }

// Reads a LEB128 number and advances `at`.
int64_t number(const uint8_t*& at, bool is_signed) {
  int64_t value = 0;
  int shift = 0;
  uint8_t byte;
  do {
    byte = *at++;
    value |= static_cast<int64_t>(byte & 0x7f) << shift;
    shift += 7;
  } while (byte & 0x80);
  return is_signed && byte & 0x40 ? value - (int64_t{1} << shift) : value;
}

// Called when a handler or an std::exception_ptr no longer uses an exception.
void release(Header* header) {
  if (header->in_flight || header->handlers > 0 || header->references > 0) return;
  if (header->destroy != nullptr) header->destroy(header + 1);
  std::free(header);
}

}  // namespace

extern "C" {

// The compiler's code writes the input of the call here, and reads the result here.
struct {
  uint32_t landing_pad;
  const uint8_t* table;  // the function's table, in the format of Itanium C++
  uint32_t
      selector;  // index of the type in the table, or 0 for none, that is, clean up and continue
} __wasm_lpad_context;

int _Unwind_CallPersonality(void* object) {
  Header& header = header_of(object);
  __wasm_lpad_context.selector = 0;
  const uint8_t* at = __wasm_lpad_context.table + 1;  // after the byte of the empty encoding
  Type* const* types = nullptr;
  if (*at++ != 0xff) {
    const auto offset = number(at, false);
    types = reinterpret_cast<Type* const*>(at + offset);
  }
  ++at;  // the encoding of the pads, LEB128
  const auto pads_bytes = number(at, false);
  const uint8_t* const actions = at + pads_bytes;
  int64_t action = 0;
  for (uint32_t pad = 0; pad <= __wasm_lpad_context.landing_pad; ++pad) {
    number(at, false);
    action = number(at, false);
  }
  if (action == 0) return 0;
  for (at = actions + action - 1;;) {
    const int64_t which = number(at, true);
    const uint8_t* const from = at;
    const int64_t next = number(at, true);
    if (which > 0) {
      Type* const wanted = types[-which];
      void* as = object;
      if (wanted == nullptr || wanted->can_catch(header.type, as)) {
        header.caught_as = as;
        __wasm_lpad_context.selector = static_cast<uint32_t>(which);
        return 0;
      }
    }
    if (next == 0) return 0;
    at = from + next;
  }
}

void* __cxa_allocate_exception(size_t bytes) {
  auto* const header = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
  if (header == nullptr) host_fail("not enough memory for this size");
  *header = {};
  return header + 1;
}

void __cxa_free_exception(void* object) { std::free(&header_of(object)); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, void* (*destroy)(void*)) {
  header_of(object).type = static_cast<Type*>(type);
  header_of(object).destroy = destroy;
  header_of(object).in_flight = true;
  __builtin_wasm_throw(0, object);
}

void* __cxa_begin_catch(void* object) {
  Header& header = header_of(object);
  header.in_flight = false;
  if (header.handlers++ == 0) {
    header.outer = handled;
    handled = &header;
  }
  return header.caught_as;
}

void __cxa_end_catch() {
  Header* const header = handled;
  if (--header->handlers > 0) return;
  handled = header->outer;
  release(header);
}

[[noreturn]] void __cxa_rethrow() {
  handled->in_flight = true;
  __builtin_wasm_throw(0, handled + 1);
}

void* __cxa_get_exception_ptr(void* object) { return header_of(object).caught_as; }

// std::exception_ptr, in which the emulator keeps what a kernel throws.
void* __cxa_current_primary_exception() noexcept {
  if (handled == nullptr) return nullptr;
  ++handled->references;
  return handled + 1;
}

__cxxabiv1::__cxa_exception* __cxa_init_primary_exception(void* object, std::type_info* type,
                                                          void* (*destroy)(void*)) noexcept {
  header_of(object).type = static_cast<Type*>(type);
  header_of(object).destroy = destroy;
  return nullptr;  // not used
}

void __cxa_increment_exception_refcount(void* object) noexcept {
  if (object != nullptr) ++header_of(object).references;
}

void __cxa_decrement_exception_refcount(void* object) noexcept {
  if (object == nullptr) return;
  --header_of(object).references;
  release(&header_of(object));
}

void __cxa_rethrow_primary_exception(void* object) {
  if (object == nullptr) return;
  header_of(object).in_flight = true;
  __builtin_wasm_throw(0, object);
}

// As libc++abi's, which the linker would bring with a second definition of the functions above.
unsigned __cxa_uncaught_exceptions() noexcept { return 0; }
bool __cxa_uncaught_exception() noexcept { return false; }

// The only thread never ends.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

}  // extern "C"
