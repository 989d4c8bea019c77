// Starts a program of the page. crt1's start cannot be used, because the linker then lets each
// exported function, such as fa_fiber, construct all global variables again.

#include <cstdlib>

extern "C" {

void __wasm_call_ctors();  // of the linker: constructs global variables
int __main_void();         // of wasi-libc: main() with the words of the command line

__attribute__((export_name("_start"))) void _start() {
  __wasm_call_ctors();
  std::exit(__main_void());
}

}  // extern "C"
