#pragma once
// Runs an operation's kernels: copies named tensors to the GPU or to the emulator's memory, starts
// the kernels, copies the results back. Programs, tests and measurements call it.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/kernels/chapter.hpp"
#include "common/problem.hpp"
#include "common/simt/simt.hpp"

namespace fa {

// Tensors of an operation as the host keeps them, in fp32; the kernels see `dtype`.
struct Input {
  const char* name;
  Dtype dtype;
  std::array<int64_t, 4> shape;
  std::span<const float> values;  // row-major
  bool by_length = false;         // the kernels see a [B,H,L,D] that is stored as [B,L,H,D]
  std::span<float> after = {};    // its values after the kernels; empty: not needed
};
struct Output {  // what the kernels leave unwritten is NaN
  const char* name;
  Dtype dtype;
  std::array<int64_t, 4> shape;
  std::span<float> values;
  bool by_length = false;
};

// Starts the kernels on tensors in device memory: the inputs, then the outputs.
using Launch = std::function<void(std::span<const TensorRef>)>;

struct EmulatorRun {
  simt::Report report;
  std::vector<std::string> sources;  // "K[17]": what each event's `source` points to
};
EmulatorRun run_on_emulator(std::span<const Input> inputs, std::span<const Output> outputs,
                            const Launch& launch, const simt::Config& config = {});

// Returns milliseconds, the median of `runs`.
double run_on_gpu(std::span<const Input> inputs, std::span<const Output> outputs,
                  const Launch& launch, int runs = 1);

// How a chapter's kernel runs. The defaults are those of its intact kernel.
struct KernelRun {
  uint32_t breaks = 0;
  std::vector<int> options = {};  // of the chapter, in order; those that are missing: their default
  bool by_length = false;         // all [B,H,L,D] are stored as [B,L,H,D]
};

// O [B,H,Lq,D] and, unless it is empty, LSE [B,H,Lq] of `problem`, whose values are its dtype's.
// Throws InputError for what the chapter does not take.
EmulatorRun forward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                std::span<float> o, std::span<float> lse = {},
                                const KernelRun& run = {}, const simt::Config& config = {});
double forward_on_gpu(const KernelChapter& chapter, const Problem& problem, std::span<float> o,
                      std::span<float> lse = {}, const KernelRun& run = {}, int runs = 1);

// Of a backward pass: what the forward pass left, O [B,H,Lq,D] and LSE [B,H,Lq]; and what comes of
// it, dQ [B,H,Lq,D], dK and dV [B,Hkv,Lkv,D].
struct BackwardTensors {
  std::span<const float> o, lse;
  std::span<float> dq, dk, dv;
};

// Likewise, for the dO in problem.more[0].
EmulatorRun backward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                 const BackwardTensors& tensors, const KernelRun& run = {},
                                 const simt::Config& config = {});
double backward_on_gpu(const KernelChapter& chapter, const Problem& problem,
                       const BackwardTensors& tensors, const KernelRun& run = {}, int runs = 1);

// Of decoding: where the keys of problem.k and problem.v lie when the kernels see them.
struct CacheLayout {
  int64_t page_size = 0;            // 0: there are no pages; else:
  int64_t pages = 0, columns = 0;   // in the pool, and in a row of the table
  std::vector<int32_t> table = {};  // [batch, columns]
  int64_t appended =
      0;               // of the keys at the end of a sequence, the number that is new in this call
  int64_t prefix = 0;  // of the keys at the start, the number that all sequences share
};

struct DecodeTensors {
  std::span<float> o, lse;  // [B,H,Lq,D], [B,H,Lq]; LSE may be empty
  int64_t misplaced = 0;    // numbers of the cache that are afterwards not what they should be
};

// The keys of each sequence, problem.lengths, are cut into `splits`. Memory that holds no key is
// NaN. Throws InputError for what the chapter does not take.
EmulatorRun decode_on_emulator(const KernelChapter& chapter, const Problem& problem,
                               const CacheLayout& cache, const DecodeSplits& splits,
                               DecodeTensors& tensors, const KernelRun& run = {},
                               const simt::Config& config = {});
double decode_on_gpu(const KernelChapter& chapter, const Problem& problem, const CacheLayout& cache,
                     const DecodeSplits& splits, DecodeTensors& tensors, const KernelRun& run = {},
                     int runs = 1);

}  // namespace fa
