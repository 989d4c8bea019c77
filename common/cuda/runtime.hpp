#pragma once
// The run-time library of a CUDA file has the functions that its device code calls, and says how a
// launch ends early.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/tensor_map.hpp"

namespace emucuda {

// The three that device code can end a launch with. include/emucuda_api.h has all errors.
enum Error { cudaErrorAssert = 710, cudaErrorLaunchFailure = 719 };

/// Thrown by a thread that ends its launch, by a failed assert or a trap.
struct KernelStop {
  int error;
  std::string text;
};

/// Writes EMUCUDA_REPORT, once. `stopped` says how the program ended before its end, or is empty.
void write_report(const std::string& stopped);
/// Returns the running code, as "thread 3 of block 0 of kernel add " or "the host code ".
std::string place_of_crash();
/// Returns why Linux sends this signal, as "divided by zero".
inline const char* words_of_signal(int signal) {
  if (signal == 6) return "called abort";
  return signal == 8 ? "divided by zero" : "accessed memory that does not exist";
}
/// Makes crashes call write_report.
void report_crashes();
/// Bytes that this machine can give, which leaves an eighth of its memory to others.
size_t free_memory();

/// Returns memory for cudaMalloc. Its address depends only on the calls so far, and is the same in
/// each run if the system allows it. Throws std::bad_alloc.
void* allocate_in_arena(size_t bytes);
/// After it, the addresses stay unused as long as others are left.
void free_in_arena(void* memory, size_t bytes);
/// Bytes after each buffer that belong to no other one, or 0 if the system does not allow this.
size_t arena_gap();

/// A pointer as a number.
inline uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// True if the bytes are in a constant of the program, a __constant__ variable or a string.
bool is_constant(const void* p, size_t bytes);
/// Notes that `value` (nullptr: 0xff only) is about to be written to `bytes` bytes of global
/// memory. The caller may leave out a value without a byte 0xff.
void note_written(const void* p, size_t bytes, const void* value);
/// Notes that any byte of the buffer at p may have been written.
void note_all_written(const void* p);
/// True if all of these bytes are from cudaMalloc, and no copy, memset or kernel has written any.
bool is_uninitialized(const void* p, size_t bytes);
/// Bytes of static shared memory of the kernel that runs.
uint32_t running_static_bytes();
/// Blocks that have arrived at the grid's barrier, in all its uses in this launch.
int* grid_barrier();
/// The box of a tensor map that cuTensorMapEncodeTiled has written, or nullptr.
const fa::TensorBox* tensor_box(const void* map);
/// malloc and free in a kernel.
void* device_malloc(size_t bytes);
void device_free(void* p);

}  // namespace emucuda
