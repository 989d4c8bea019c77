#pragma once
// Causal self-attention of one layer, forward and backward, the interface that this chapter
// switches.

#include <memory>
#include <string>

#include "breaks.hpp"
#include "common/kernels/kernel.hpp"
#include "matrix.hpp"

namespace fa::ch20 {

struct AttentionShape {
  int64_t batch, heads, length, dim;  // channels: heads * dim
  int64_t channels() const { return heads * dim; }
  int64_t rows() const { return batch * length; }
};

// [anchor: switch]
// The preceding layer stores Q, K and V side by side. QKV is [batch * length, 3 channels], and head
// h of Q is its columns [h dim, (h + 1) dim). O is [batch * length, channels].
template <class R>
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void forward(Input<R> QKV, Matrix<R> O) = 0;
  // Called after forward, with the same QKV and unchanged O. Writes all of dQKV.
  virtual void backward(Input<R> QKV, Input<R> O, Input<R> dO, Matrix<R> dQKV) = 0;
};
// [/anchor: switch]

// "plain" keeps the matrix P of every head until the backward pass. "tiled" keeps one number per
// row and recomputes P in tiles of block x block. "ch10", "ch16" and "ch22" are kernels in bf16,
// see kernels_of. "ch19" is chapter 19's ring of two ranks. `breaks` only applies to tiled.
struct AttentionChoice {
  std::string name = "tiled";
  int64_t block = 16;
  uint32_t breaks = 0;
};

// The kernels of both passes.
struct AttentionKernels {
  const Kernel &forward, &backward;
};
// Returns chapters 09 and 10 for "ch10", 16 and 10 for "ch16", and 16 and 22 for "ch22".
AttentionKernels kernels_of(const std::string& name);
inline bool is_kernel(const std::string& name) {
  return name == "ch10" || name == "ch16" || name == "ch22";
}
// Returns why a GPU cannot run them here, as a sentence, or "".
std::string gpu_problem(const AttentionKernels& kernels);
// Throws InputError for a shape that one of them does not support.
void check_shape(const AttentionKernels& kernels, const Shape& shape);

// Throws InputError for sizes that the kernels do not support, or for attention that this build
// lacks.
void check_attention(const AttentionChoice& choice, const AttentionShape& shape);

// Returns the attention. A MemoryProbe counts its allocations. Throws InputError for an unknown
// name.
template <class R>
std::unique_ptr<Attention<R>> make_attention(const AttentionChoice& choice,
                                             const AttentionShape& shape);

// Returns the maximum that it allocates in `layers` layers, in fp32, as a MemoryProbe counts it.
int64_t attention_bytes(const AttentionChoice& choice, const AttentionShape& shape, int64_t layers);

}  // namespace fa::ch20
