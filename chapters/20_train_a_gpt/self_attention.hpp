#pragma once
// Causal self-attention of one layer, forward and backward: the switch that this chapter is about.

#include <memory>
#include <string>

#include "breaks.hpp"
#include "common/kernels/chapter.hpp"
#include "matrix.hpp"

namespace fa::ch20 {

struct AttentionShape {
  int64_t batch, heads, length, dim;  // channels: heads * dim
  int64_t channels() const { return heads * dim; }
  int64_t rows() const { return batch * length; }
};

// [anchor: switch]
// Q, K and V lie side by side, as the layer before makes them: QKV is [batch * length, 3 channels],
// and head h of Q is its columns [h dim, (h + 1) dim). O is [batch * length, channels].
template <class R>
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void forward(Input<R> QKV, Matrix<R> O) = 0;
  // Called after forward, with the same QKV, and O as it left it. Writes all of dQKV.
  virtual void backward(Input<R> QKV, Input<R> O, Input<R> dO, Matrix<R> dQKV) = 0;
};
// [/anchor: switch]

// "plain" keeps the matrix P of every head from the forward pass to the backward pass; "tiled"
// keeps one number a row and computes P again, in tiles of block x block; "ch10" and "ch16" are
// the kernels of chapter 09 or 16 forward and of chapter 10 backward, in bf16; "ch19" chapter 19's
// ring of two ranks. `breaks` is for tiled only.
struct AttentionChoice {
  std::string name = "tiled";
  int64_t block = 16;
  uint32_t breaks = 0;
};

// The chapter whose forward kernel that is: "ch10", or "ch16".
const KernelChapter& forward_chapter(const std::string& name);
inline bool is_kernel(const std::string& name) { return name == "ch10" || name == "ch16"; }

// Throws InputError for a size that the kernels do not take, or what this build left out.
void check_attention(const AttentionChoice& choice, const AttentionShape& shape);

// What it allocates, a MemoryProbe sees. Throws InputError for a name that there is not, too.
template <class R>
std::unique_ptr<Attention<R>> make_attention(const AttentionChoice& choice,
                                             const AttentionShape& shape);

// What it allocates in `layers` layers at most, in fp32, as a MemoryProbe counts it.
int64_t attention_bytes(const AttentionChoice& choice, const AttentionShape& shape, int64_t layers);

}  // namespace fa::ch20
