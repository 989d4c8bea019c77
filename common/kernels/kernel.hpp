#pragma once
// A chapter's kernel as host code sees it, with its inputs, its breaks and options, its two builds.
// Each chapter's chapter.hpp describes its own.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/breaks.hpp"
#include "common/cli.hpp"
#include "common/features.hpp"
#include "common/kernels/build.hpp"
#include "common/problem.hpp"

namespace fa {

// Throws InputError unless an int holds the lengths.
void check_kernel_lengths(const Shape& shape);

// Likewise, and unless the head size is 64 or 128.
void check_kernel_shape(const Shape& shape);

// Breaks that every chapter since 03 has. Each other break is declared next to the code that it
// breaks.
constexpr uint32_t BASIC_BREAKS = NO_MAX | NO_RESCALE | UNMASKED_TAIL | SHUFFLE_MASK_0X10 |
                                  MISSING_WAIT | MISSING_BARRIER | DIVERGENT_BARRIER;
constexpr uint32_t PIPELINE_BREAKS = CONDITIONAL_COMMIT | WAIT_TOO_FEW;

// Breaks of the synchronization, which the emulator always reports, while a card may show nothing.
constexpr uint32_t UNDEFINED_ON_A_GPU =
    CONDITIONAL_COMMIT | MISSING_WAIT | MISSING_BARRIER | WAIT_TOO_FEW | DIVERGENT_BARRIER;

struct Kernel {
  const char* name;  // "ch04_swizzling", its chapter's
  const KernelBuild* emulator;
  const KernelBuild* gpu;
  uint32_t features = 0;                                   // Feature bits of the accepted inputs
  void (*check_shape)(const Shape&) = check_kernel_shape;  // or throws InputError
  bool any_scale = false;  // 0 and below, too, because it scales before it takes the maximum
  uint32_t breaks = 0;     // KernelBreak bits that it can switch off
  std::span<const Break> own_breaks = {};  // and those that no other chapter has
  uint32_t undefined_on_a_gpu = UNDEFINED_ON_A_GPU;
  std::span<const IntegerOption> options = {};
  // Bytes of workspace that a forward pass needs, or null for none.
  int64_t (*forward_workspace)(const Shape& shape, int64_t kv_heads) = nullptr;
  // For a chapter that rounds its inputs further: the problem that its kernel then solves, and is
  // held against, under its options. If it is null, the kernel solves the problem as given.
  Problem (*computed)(const Problem& problem, std::span<const int> options) = nullptr;
  // For decoding, returns into how many splits to cut up to `longest` keys of a sequence, the first
  // `prefix` of which all sequences share.
  DecodeSplits (*choose_splits)(const Shape& shape, int64_t kv_heads, int64_t longest,
                                int64_t prefix, int multiprocessors) = nullptr;

  int number() const { return (name[2] - '0') * 10 + (name[3] - '0'); }  // 4
  std::string short_name() const { return std::string(name, 4); }        // "ch04"
};

// The breaks of a chapter, shared and own, for --break and --list-breaks.
std::vector<Break> breaks_of(const Kernel& chapter);

// Feature bits that these arguments ask for.
uint32_t features_of(const ForwardArgs& args);
uint32_t features_of(const BackwardArgs& args);
uint32_t features_of(const DecodeArgs& args);

// Throws InputError for tensors that do not fit together or cannot be addressed.
void check_shapes(const ForwardArgs& args);
void check_shapes(const BackwardArgs& args);
void check_shapes(const DecodeArgs& args);

// Likewise, and for sizes and features that the chapter does not take.
void check_arguments(const Kernel& chapter, const ForwardArgs& args);
void check_arguments(const Kernel& chapter, const BackwardArgs& args);
void check_arguments(const Kernel& chapter, const DecodeArgs& args);

// Why this build's kernel cannot run on a GPU here, as a sentence; empty if it can.
std::string gpu_problem(const KernelBuild& build);

// True if machine code runs on a card of this compute capability, 90 for sm_90.
bool machine_code_fits(const std::string& machine_code, int capability);

}  // namespace fa
