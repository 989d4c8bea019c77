#pragma once
// Runs a pass on the GPU or the emulator, that is, copies the tensors to its memory, starts the
// kernels and copies the results back.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/kernel.hpp"
#include "common/problem.hpp"
#include "common/simt/simt.hpp"

namespace fa {

// Memory of the GPU or the emulator for the tensors of one launch. Host values are fp32 and
// row-major. Elements that the kernels do not write are NaN.
class DeviceMemory {
 public:
  class Buffer {
   public:
    virtual ~Buffer() = default;
    virtual void* data() const = 0;
    virtual void upload(const void* from) = 0;
    virtual void download(void* to) const = 0;
  };

  virtual ~DeviceMemory() = default;
  // The kernels get the values as `dtype`. With by_length, [B,H,L,D] are stored as [B,L,H,D].
  TensorRef input(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape,
                  std::span<const float> values, bool by_length = false);
  // `values` gets the result of the launch.
  TensorRef output(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape,
                   std::span<float> values, bool by_length = false);
  // `after` gets what the launch leaves in it, or null if it is not copied back.
  float* workspace(int64_t floats, std::vector<float>* after = nullptr);
  const int* integers(const char* name, const std::vector<int64_t>& values);
  // Returns null if there are none.
  const uint64_t* words(const char* name, const std::vector<uint64_t>& values);
  // `values` gets the tensor's values after the launch.
  void copy_back_to(const TensorRef& tensor, std::span<float> values);

 protected:
  void copy_back();

 private:
  virtual std::unique_ptr<Buffer> allocate(const char* name, size_t bytes, size_t element) = 0;
  TensorRef add(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape, bool by_length);
  TensorRef on_host(TensorRef tensor);

  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<unsigned char> host_;  // a copy of the tensor that is uploaded or downloaded
  std::vector<std::pair<TensorRef, std::span<float>>> results_;
};

struct EmulatorRun {
  simt::Report report;
  std::vector<std::string> sources;  // `source` of an event is an index into these names ("K[17]")
};

// How to run a chapter's kernel. The defaults run the intact kernel.
struct KernelRun {
  uint32_t breaks = 0;
  std::vector<int> options = {};  // the chapter's, in order; default if missing
  bool by_length = false;         // all [B,H,L,D] are stored as [B,L,H,D]
};

// Computes O [B,H,Lq,D] and LSE [B,H,Lq] (not if it is empty) of `problem`, whose values are
// already rounded to its dtype. Throws InputError if the chapter does not support the problem.
EmulatorRun forward_on_emulator(const Kernel& chapter, const Problem& problem, std::span<float> o,
                                std::span<float> lse = {}, const KernelRun& run = {},
                                const simt::Config& config = {});
double forward_on_gpu(const Kernel& chapter, const Problem& problem, std::span<float> o,
                      std::span<float> lse = {}, const KernelRun& run = {}, int runs = 1);

// The tensors of a backward pass, which are O [B,H,Lq,D] and LSE [B,H,Lq] from the forward pass,
// and the results dQ [B,H,Lq,D], dK and dV [B,Hkv,Lkv,D].
struct BackwardTensors {
  std::span<const float> o, lse;
  std::span<float> dq, dk, dv;
  std::span<float> d_sinks = {};            // [H], with sinks
  std::vector<float>* workspace = nullptr;  // what the kernels leave in it: dQ in fp32, and more
};

// Computes the gradients for the dO in problem.d_o. Throws InputError if the chapter does not
// support the problem.
EmulatorRun backward_on_emulator(const Kernel& chapter, const Problem& problem,
                                 const BackwardTensors& tensors, const KernelRun& run = {},
                                 const simt::Config& config = {});
double backward_on_gpu(const Kernel& chapter, const Problem& problem,
                       const BackwardTensors& tensors, const KernelRun& run = {}, int runs = 1);

// Where the kernels of decoding find the keys and values of problem.k and problem.v.
struct CacheLayout {
  int64_t page_size = 0;            // keys per page, or 0 for no pages
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
EmulatorRun decode_on_emulator(const Kernel& chapter, const Problem& problem,
                               const CacheLayout& layout, const DecodeSplits& splits,
                               DecodeTensors& tensors, const KernelRun& run = {},
                               const simt::Config& config = {});
double decode_on_gpu(const Kernel& chapter, const Problem& problem, const CacheLayout& layout,
                     const DecodeSplits& splits, DecodeTensors& tensors, const KernelRun& run = {},
                     int runs = 1);

}  // namespace fa
