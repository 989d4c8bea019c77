#pragma once
// Features that an attention program or kernel may support beyond the plain problem, which has no
// mask, as many heads of K and V as of Q, tensors without gaps, and only O as output. Each program
// lists those that it supports and refuses the others with a sentence.

#include <cstdint>

namespace fa {

enum Feature : uint32_t {
  CAUSAL = 1u << 0,    // key j is hidden from query i when j > i + (len_kv - len_q)
  WINDOW = 1u << 1,    // other limits around i + (len_kv - len_q)
  LSE = 1u << 2,       // the log-sum-exp of each row as a second output
  KV_HEADS = 1u << 3,  // several heads of Q share one of K and V
  STRIDES = 1u << 4,   // tensors with gaps, or stored [batch, length, heads, dim]
  FP16 = 1u << 5,      // in addition to bf16
  PACKED = 1u << 6,    // sequences of different lengths, stored consecutively
  SOFTCAP = 1u << 7,   // scores that pass through c tanh(s / c)
  ALIBI = 1u << 8,     // scores that decrease with the distance
  REPEATS = 1u << 9,   // tensors that repeat a row, a head or a batch, with a stride of 0
  SINKS = 1u << 10,    // a logit per head that takes part in the softmax's sum only
};

struct FeatureName {
  Feature bit;
  const char* name;  // completes "this takes no "
};
inline constexpr FeatureName FEATURES[] = {
    {CAUSAL, "causal mask"},
    {WINDOW, "sliding window"},
    {LSE, "log-sum-exp"},
    {KV_HEADS, "grouped heads (fewer of K and V than of Q)"},
    {STRIDES, "strided tensors"},
    {FP16, "fp16"},
    {PACKED, "packed sequences"},
    {SOFTCAP, "softcap"},
    {ALIBI, "ALiBi"},
    {REPEATS, "tensors that repeat themselves (a stride of 0)"},
    {SINKS, "sinks"},
};

}  // namespace fa
