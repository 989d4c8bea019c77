#pragma once
// Runs the kernels of an operation on the GPU or the emulator: copies named tensors to its memory,
// starts the kernels and copies the results back.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/kernels/chapter.hpp"
#include "common/problem.hpp"
#include "common/simt/simt.hpp"

namespace fa {

// An input tensor in host memory, as fp32. The kernels get it as `dtype`.
struct Input {
  const char* name;
  Dtype dtype;
  std::array<int64_t, 4> shape;
  std::span<const float> values;  // row-major
  bool by_length = false;         // the kernels get [B,H,L,D] stored as [B,L,H,D]
  std::span<float> after = {};    // the values after the run; empty: not copied back
};
struct Output {  // elements that the kernels do not write are NaN
  const char* name;
  Dtype dtype;
  std::array<int64_t, 4> shape;
  std::span<float> values;
  bool by_length = false;
};

// Starts the kernels on tensors in device memory, first the inputs, then the outputs.
using Launch = std::function<void(std::span<const TensorRef>)>;

struct EmulatorRun {
  simt::Report report;
  std::vector<std::string> sources;  // `source` of an event is an index into these names ("K[17]")
};
EmulatorRun run_on_emulator(std::span<const Input> inputs, std::span<const Output> outputs,
                            const Launch& launch, const simt::Config& config = {});

// Returns the median time of `runs` runs in milliseconds.
double run_on_gpu(std::span<const Input> inputs, std::span<const Output> outputs,
                  const Launch& launch, int runs = 1);

// How to run a chapter's kernel. The defaults run the intact kernel.
struct KernelRun {
  uint32_t breaks = 0;
  std::vector<int> options = {};  // of the chapter, in order; default if missing
  bool by_length = false;         // all [B,H,L,D] are stored as [B,L,H,D]
};

// Computes O [B,H,Lq,D] and LSE [B,H,Lq] (not if it is empty) of `problem`, whose values are
// already rounded to its dtype. Throws InputError if the chapter does not support the problem.
EmulatorRun forward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                std::span<float> o, std::span<float> lse = {},
                                const KernelRun& run = {}, const simt::Config& config = {});
double forward_on_gpu(const KernelChapter& chapter, const Problem& problem, std::span<float> o,
                      std::span<float> lse = {}, const KernelRun& run = {}, int runs = 1);

// The tensors of a backward pass: O [B,H,Lq,D] and LSE [B,H,Lq] from the forward pass, and the
// results dQ [B,H,Lq,D], dK and dV [B,Hkv,Lkv,D].
struct BackwardTensors {
  std::span<const float> o, lse;
  std::span<float> dq, dk, dv;
  std::vector<float>* workspace = nullptr;  // what the kernels leave in it: dQ in fp32, and more
};

// Computes the gradients for the dO in problem.more[0]. Throws InputError if the chapter does not
// support the problem.
EmulatorRun backward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                 const BackwardTensors& tensors, const KernelRun& run = {},
                                 const simt::Config& config = {});
double backward_on_gpu(const KernelChapter& chapter, const Problem& problem,
                       const BackwardTensors& tensors, const KernelRun& run = {}, int runs = 1);

// Where the kernels of decoding find the keys and values of problem.k and problem.v.
struct CacheLayout {
  int64_t page_size = 0;            // keys per page; 0: no pages
  int64_t pages = 0, columns = 0;   // pages in the pool, entries in a row of the table
  std::vector<int32_t> table = {};  // [batch, columns]
  int64_t appended = 0;  // number of keys at the end of each sequence that this call appends
  int64_t prefix = 0;    // number of first keys that all sequences have on the same pages
};

struct DecodeTensors {
  std::span<float> o, lse;  // [B,H,Lq,D], [B,H,Lq]; LSE may be empty
  int64_t misplaced = 0;    // number of cache values that are wrong after the run
};

// Computes one decoding step. The keys of each sequence, problem.lengths, are divided into
// `splits`. Cache entries without a key are NaN. Throws InputError if the chapter does not support
// the problem.
EmulatorRun decode_on_emulator(const KernelChapter& chapter, const Problem& problem,
                               const CacheLayout& cache, const DecodeSplits& splits,
                               DecodeTensors& tensors, const KernelRun& run = {},
                               const simt::Config& config = {});
double decode_on_gpu(const KernelChapter& chapter, const Problem& problem, const CacheLayout& cache,
                     const DecodeSplits& splits, DecodeTensors& tensors, const KernelRun& run = {},
                     int runs = 1);

}  // namespace fa
