// The module's only entry. Runs a program's main() with the words of a command line. host.mjs
// receives what it prints and writes.

#include <iostream>
#include <string_view>
#include <vector>

#include "docs/wasm/programs.hpp"

extern "C" {

__attribute__((export_name("fa_allocate"))) void* fa_allocate(size_t bytes) {
  return ::operator new(bytes);
}

/// `words` has `count` strings, each followed by a zero. The first is the program's name. Frees
/// them. Returns the program's exit status, or -1 if the module does not have the program.
__attribute__((export_name("fa_run"))) int fa_run(char* words, int count) {
  std::vector<char*> arguments;
  char* word = words;
  for (int i = 0; i < count; ++i) {
    arguments.push_back(word);
    word += std::string_view(word).size() + 1;
  }
  int status = -1;
  for (const fa::wasm::Program& program : fa::wasm::programs) {
    if (arguments[0] == std::string_view(program.name)) {
      status = program.main(count, arguments.data());
    }
  }
  std::cout.flush();
  ::operator delete(words);
  return status;
}

}  // extern "C"
