#pragma once
// Checks that every chapter's kernel must pass. The chapters' tests call them. They run on the
// emulator, and on the GPU if there is one.

#include <string>
#include <vector>

#include "common/kernels/runner.hpp"

namespace fa::test {

void agrees_on_named_shapes(const Kernel& kernel);   // at input scales 1, 30 and 1e-3
void agrees_on_a_large_shape(const Kernel& kernel);  // likewise
void agrees_on_random_shapes(const Kernel& kernel);
void agrees_with_golden_cases(const Kernel& kernel);  // golden cases from NumPy
// V is constant, and so must be O, up to `tolerance`. If the largest weight of a row is 1, which is
// not rounded, O is exact.
void returns_a_constant_v(const Kernel& kernel, double tolerance = 0);
void same_bits_under_every_schedule(const Kernel& kernel);  // and no hazard
void refuses_scales_that_are_not_positive(const Kernel& kernel);
// The kernel has `count` barriers and waits. Removing any one of them must be reported as a hazard,
// except for the instruction `for_speed`, without which the result is still correct.
void every_synchronization_is_needed(const Kernel& kernel, size_t count,
                                     const std::string& for_speed = "",
                                     const Shape& shape = {1, 1, 70, 450, 64});

// Runs `check` on the kernel with these values of its options.
void with_options(const Kernel& kernel, const std::vector<int>& values,
                  void (*check)(const Kernel&));

// Returns the emulator's counters for the shape 1,1,128,512,128.
simt::Counters count(const Kernel& kernel);
// What Nsight Compute counted there for a kernel whose blocks of 64 queries copy K and V with
// cp.async, and what differs between such kernels.
struct CopyCounters {
  int64_t ldmatrix, shuffles, barriers, load_wavefronts, shared_bytes;
};
void counts_what_nsight_counted(const Kernel& kernel, const CopyCounters& expected);

// Each break has the symptom that its lesson describes, and only on the inputs that the lesson
// names.
void no_max_overflows(const Kernel& kernel);
// The check must detect the break at every input scale where its error is more than rounding.
void is_finite_and_wrong(const Kernel& kernel, KernelBreak flag, const Shape& shape);
void is_harmless(const Kernel& kernel, KernelBreak flag, const Shape& shape);
// The breaks of chapter 03's softmax. `whole_tiles`: keys that leave no tail.
void breaks_of_the_softmax(const Kernel& kernel, int64_t whole_tiles = 128);
void is_reported_as(const Kernel& kernel, KernelBreak flag, simt::HazardKind kind,
                    double input_scale = 1.0);

// Checks shared by chapters with the arguments of chapter 09. O and LSE come from the emulator.
struct Answer {
  std::vector<float> o, lse;
  simt::Report report;
};
Answer answer(const Kernel& kernel, const Problem& problem, const KernelRun& run = {});
void check_agrees(const Kernel& kernel, const Problem& problem, bool by_length = false);

Problem causal(const Shape& shape, uint64_t seed = 1);
Problem window(const Shape& shape, int64_t left, int64_t right);
Problem packed(const std::vector<int64_t>& len_q, const std::vector<int64_t>& len_kv, int64_t dim);

void agrees_under_causal_masks(const Kernel& kernel);
void agrees_in_windows(const Kernel& kernel);
void agrees_with_shared_heads(const Kernel& kernel);  // in both layouts
void agrees_on_packed_sequences(const Kernel& kernel);
void no_row_reads_its_neighbour(const Kernel& kernel);  // not even a NaN of another sequence
void a_row_may_see_nothing(const Kernel& kernel);       // 0 and -inf, but a NaN is kept
void agrees_with_sinks(const Kernel& kernel);           // under all masks
void sinks_may_be_none_or_large(const Kernel& kernel);  // or NaN, which stays in its head

}  // namespace fa::test

// The test cases of every kernel of a forward pass.
#define FORWARD_TESTS(KERNEL)                                                            \
  TEST_CASE("agrees with float64 on the named shapes, at three input scales") {          \
    agrees_on_named_shapes(KERNEL);                                                      \
  }                                                                                      \
  TEST_CASE("agrees with float64 on a large shape" * doctest::test_suite("large")) {     \
    agrees_on_a_large_shape(KERNEL);                                                     \
  }                                                                                      \
  TEST_CASE("agrees with float64 on random shapes") { agrees_on_random_shapes(KERNEL); } \
  TEST_CASE("agrees with NumPy's golden cases") { agrees_with_golden_cases(KERNEL); }    \
  TEST_CASE("gives the same bits under 100 schedules, without a hazard") {               \
    same_bits_under_every_schedule(KERNEL);                                              \
  }

// The test cases of a kernel with masks, shared heads and packed sequences.
#define MASK_TESTS(KERNEL)                                                             \
  TEST_CASE("causal: ragged both ways, one query, more queries than keys") {           \
    agrees_under_causal_masks(KERNEL);                                                 \
  }                                                                                    \
  TEST_CASE("windows: each side, both, none of the keys, all of them") {               \
    agrees_in_windows(KERNEL);                                                         \
  }                                                                                    \
  TEST_CASE("heads of K and V that several heads of Q share, in both layouts") {       \
    agrees_with_shared_heads(KERNEL);                                                  \
  }                                                                                    \
  TEST_CASE("packed sequences: lengths 0 and 1, and all masks") {                      \
    agrees_on_packed_sequences(KERNEL);                                                \
  }                                                                                    \
  TEST_CASE("no row reads the next sequence, not even a NaN in it") {                  \
    no_row_reads_its_neighbour(KERNEL);                                                \
  }                                                                                    \
  TEST_CASE("a row that sees nothing gives 0 and an LSE of -inf; a NaN stays a NaN") { \
    a_row_may_see_nothing(KERNEL);                                                     \
  }
