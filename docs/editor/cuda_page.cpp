// What the run-time library of a CUDA file has in a page in place of common/cuda/system.cpp, and
// two checks that common/cuda/retarget.cpp makes with branches and device_ir.mjs with calls.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "common/cuda/runtime.hpp"
#include "common/simt/buffer.hpp"

namespace emucuda {

void report_crashes() {}
size_t free_memory() {
  return std::numeric_limits<size_t>::max();
}  // malloc says when it is used up

// A module's memory is its own and begins the same in each run, so malloc's addresses are the same.
void* allocate_in_arena(size_t bytes) { return fa::simt::allocate_buffer(bytes); }
void free_in_arena(void* memory, size_t bytes) { fa::simt::free_buffer(memory, bytes); }
size_t arena_gap() { return 0; }

}  // namespace emucuda

extern "C" {

void emucuda_division_by_zero(int line, const char* file);
void emucuda_outside_array(int64_t from, int64_t bytes, int64_t size, int writes, int line,
                           const char* file);

void emucuda_check_divisor(int is_zero, int line, const char* file) {
  if (is_zero) emucuda_division_by_zero(line, file);
}

// Returns p, or `spare` if the bytes at p are not all in the local array.
void* emucuda_within_array(char* p, const char* array, int bytes, int size, int writes, void* spare,
                           int line, const char* file) {
  const int64_t from = p - array;
  if (from >= 0 && from + bytes <= size) return p;
  emucuda_outside_array(from, bytes, size, writes, line, file);
  return spare;
}

// The page calls it after a trap with the signal of Linux. WebAssembly has none.
__attribute__((export_name("emucuda_crashed"))) void emucuda_crashed(int signal) {
  std::fflush(stdout);
  emucuda::write_report(emucuda::place_of_crash() + emucuda::words_of_signal(signal));
}

}  // extern "C"
