#pragma once
// The programs of a module. build.py generates the table.

#include <span>

namespace fa::wasm {

struct Program {
  const char* name;
  int (*main)(int argc, char** argv);
};
extern const std::span<const Program> programs;

}  // namespace fa::wasm
