#include "common/kernels/kernel.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"

namespace fa {
namespace {

constexpr Break KERNEL_BREAKS[] = {
    {"no-max", NO_MAX},
    {"no-rescale", NO_RESCALE},
    {"unmasked-tail", UNMASKED_TAIL},
    {"shuffle-mask-0x10", SHUFFLE_MASK_0X10},
    {"conditional-commit", CONDITIONAL_COMMIT},
    {"missing-wait", MISSING_WAIT},
    {"missing-barrier", MISSING_BARRIER},
    {"swizzle-one-side", SWIZZLE_ONE_SIDE},
    {"wait-too-few", WAIT_TOO_FEW},
    {"divergent-barrier", DIVERGENT_BARRIER},
};

void check_same_shape(const char* first, const TensorRef& a, const char* second,
                      const TensorRef& b) {
  if (a.shape == b.shape) return;
  throw InputError(std::string(first) + " is " + bracketed(a.shape) + " and " + second + " is " +
                   bracketed(b.shape) + ": their shapes must be equal");
}

using TensorRefs = std::initializer_list<const TensorRef*>;

void check_types(TensorRefs tensors, const char* names, const TensorRef& lse) {
  const Dtype dtype = (*tensors.begin())->dtype;
  for (const TensorRef* tensor : tensors) {
    if (tensor->dtype != dtype) throw InputError(std::string(names) + " must have one type");
  }
  if (dtype == Dtype::f32) throw InputError("fp32 tensors: these kernels take 16 bits");
  if (lse.data && lse.dtype != Dtype::f32) throw InputError("LSE must be fp32");
}

// Returns the features that the memory layout of these tensors needs. Missing tensors need none.
uint32_t layout_features(TensorRefs tensors) {
  uint32_t features = 0;
  for (const TensorRef* tensor : tensors) {
    if (!tensor->data) continue;
    if (!is_contiguous(*tensor)) features |= STRIDES;
    for (int d = 0; d < 3; ++d)
      if (tensor->shape[d] > 1 && tensor->strides[d] == 0) features |= REPEATS;
  }
  return features;
}

// Throws InputError if two elements of an output could have the same address. It accepts strides
// where, in ascending order, each dimension's stride exceeds the extent of all smaller ones. Then
// no two elements share an address.
void check_written(const char* name, const TensorRef& tensor) {
  std::array<std::pair<int64_t, int64_t>, 4> dimensions;  // stride, size
  for (size_t d = 0; d < 4; ++d) dimensions[d] = {tensor.strides[d], tensor.shape[d]};
  std::sort(dimensions.begin(), dimensions.end());
  int64_t reached = 0;  // offset of the last element of the smaller dimensions
  for (const auto& [stride, size] : dimensions) {
    if (size == 1) continue;
    if (stride <= reached) {
      throw InputError(std::string(name) + " is written, and its strides " +
                       bracketed(tensor.strides) + " put several elements at one place");
    }
    reached += (size - 1) * stride;
  }
}

void check_lse(const TensorRef& lse, const TensorRef& q) {
  if (!lse.data) return;
  if (lse.shape != std::array<int64_t, 4>{q.shape[0], q.shape[1], q.shape[2], 1}) {
    throw InputError("LSE is " + bracketed(lse.shape) + " and Q is " + bracketed(q.shape) +
                     ": LSE must be [batch, heads, length, 1]");
  }
  if (!is_contiguous(lse)) throw InputError("LSE must be contiguous, [batch, heads, length]");
}

void check_sizes(TensorRefs tensors) {
  for (const TensorRef* tensor : tensors) {
    for (const int64_t size : tensor->shape) {
      if (size < 1) {
        throw InputError("shape " + bracketed(tensor->shape) + ": every size must be at least 1");
      }
    }
  }
}
void check_extents(TensorRefs tensors) {
  for (const TensorRef* tensor : tensors)
    if (tensor->data) extent(*tensor);
}

void check_shared_heads(const TensorRef& q, const TensorRef& k) {
  if (q.shape[1] % k.shape[1] == 0) return;
  throw InputError(std::to_string(q.shape[1]) + " heads of Q cannot share " +
                   std::to_string(k.shape[1]) + " heads of K and V, because " +
                   std::to_string(k.shape[1]) + " does not divide " + std::to_string(q.shape[1]));
}

// Returns the arguments of the forward pass whose gradients `args` asks for.
ForwardArgs forward_of(const BackwardArgs& args) {
  return {.q = args.q,
          .k = args.k,
          .v = args.v,
          .o = args.o,
          .lse = args.lse,
          .scale = args.scale,
          .window_left = args.window_left,
          .window_right = args.causal ? 0 : args.window_right,
          .q_starts = args.q_starts,
          .kv_starts = args.kv_starts,
          .sequences = args.sequences,
          .sinks = args.sinks};
}

void check_chapter_takes(const Kernel& chapter, uint32_t features, const TensorRef& q,
                         const TensorRef& k) {
  for (const FeatureName& feature : FEATURES) {
    if (features & ~chapter.features & feature.bit) {
      throw InputError(chapter.short_name() + " takes no " + feature.name);
    }
  }
  chapter.check_shape({q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3]});
}

}  // namespace

void check_kernel_shape(const Shape& shape) {
  if (shape.dim != 64 && shape.dim != 128) {
    throw InputError("head size " + std::to_string(shape.dim) +
                     ": this chapter's kernel takes 64 and 128");
  }
  check_kernel_lengths(shape);
}

void check_kernel_lengths(const Shape& shape) {
  constexpr int64_t LONGEST = int64_t{1} << 30;
  if (shape.q > LONGEST || shape.kv > LONGEST || shape.batch > LONGEST / shape.heads) {
    throw InputError("shape " + to_string(shape) +
                     ": lengths and batch x heads may be up to 1073741824 in this chapter");
  }
}

std::vector<Break> breaks_of(const Kernel& chapter) {
  std::vector<Break> breaks;
  for (const Break& b : KERNEL_BREAKS) {
    if (chapter.breaks & b.bit) breaks.push_back(b);
  }
  breaks.insert(breaks.end(), chapter.own_breaks.begin(), chapter.own_breaks.end());
  return breaks;
}

void check_shapes(const ForwardArgs& args) {
  const auto& q = args.q.shape;
  const auto& k = args.k.shape;
  check_sizes({&args.q, &args.k, &args.v});
  const Shape shape{q[0], q[1], q[2], k[2], q[3]};
  check_addressable(shape, "shape " + to_string(shape));
  check_same_shape("K", args.k, "V", args.v);
  check_same_shape("Q", args.q, "O", args.o);
  if (q[0] != k[0] || q[3] != k[3]) {
    throw InputError("Q is " + bracketed(q) + " and K is " + bracketed(k) +
                     ": batch and dim must be equal");
  }
  check_shared_heads(args.q, args.k);
  if ((args.q_starts == nullptr) != (args.kv_starts == nullptr)) {
    throw InputError("packed sequences: give the starts of both, in Q and in K and V");
  }
  if (args.q_starts && (q[0] != 1 || args.sequences < 1)) {
    throw InputError("packed sequences: expected batch 1, and at least one sequence");
  }
  if (args.q_starts && (args.longest_q < 0 || args.longest_q > q[2])) {
    throw InputError("longest_q " + std::to_string(args.longest_q) + ": expected 0 to " +
                     std::to_string(q[2]) + ", the queries of all sequences together");
  }
  if (!(args.softcap >= 0)) throw InputError("softcap: expected a number above 0, or 0 for none");
  for (const int64_t window : {args.window_left, args.window_right}) {
    if (window < -1) {
      throw InputError("a window of " + std::to_string(window) +
                       " keys: expected a length, or -1 for no limit");
    }
  }
  check_lse(args.lse, args.q);
  check_extents({&args.q, &args.k, &args.v, &args.o, &args.lse});
}

uint32_t features_of(const ForwardArgs& args) {
  uint32_t features = 0;
  if (args.window_left < 0 && args.window_right == 0) {
    features |= CAUSAL;
  } else if (args.window_left >= 0 || args.window_right >= 0) {
    features |= WINDOW;
  }
  if (args.lse.data) features |= LSE;
  if (args.q.shape[1] != args.k.shape[1]) features |= KV_HEADS;
  features |= layout_features({&args.q, &args.k, &args.v, &args.o, &args.lse});
  if (args.q.dtype == Dtype::f16) features |= FP16;
  if (args.q_starts) features |= PACKED;
  if (args.softcap > 0) features |= SOFTCAP;
  if (args.alibi) features |= ALIBI;
  if (args.sinks) features |= SINKS;
  return features;
}

void check_shapes(const BackwardArgs& args) {
  check_shapes(forward_of(args));
  check_same_shape("Q", args.q, "dO", args.d_o);
  check_same_shape("Q", args.q, "dQ", args.dq);
  check_same_shape("K", args.k, "dK", args.dk);
  check_same_shape("V", args.v, "dV", args.dv);
  check_extents({&args.d_o, &args.dq, &args.dk, &args.dv});
  check_written("dQ", args.dq);
  check_written("dK", args.dk);
  check_written("dV", args.dv);
}

uint32_t features_of(const BackwardArgs& args) {
  return features_of(forward_of(args)) | layout_features({&args.d_o, &args.dq, &args.dk, &args.dv});
}

void check_arguments(const Kernel& chapter, const ForwardArgs& args) {
  check_shapes(args);
  check_written("O", args.o);
  check_types({&args.q, &args.k, &args.v, &args.o}, "Q, K, V and O", args.lse);
  check_chapter_takes(chapter, features_of(args), args.q, args.k);
}

void check_arguments(const Kernel& chapter, const BackwardArgs& args) {
  check_shapes(args);
  check_types({&args.q, &args.k, &args.v, &args.o, &args.d_o, &args.dq, &args.dk, &args.dv},
              "Q, K, V, O and all gradients", args.lse);
  check_chapter_takes(chapter, features_of(args), args.q, args.k);
}

void check_shapes(const DecodeArgs& args) {
  const auto& q = args.q.shape;
  const auto& k = args.k.shape;
  check_sizes({&args.q, &args.k, &args.v});
  check_same_shape("K", args.k, "V", args.v);
  check_same_shape("Q", args.q, "O", args.o);
  check_addressable({q[0], q[1], q[2], k[2], q[3]}, "Q of shape " + bracketed(q));
  check_extents({&args.q, &args.k, &args.v, &args.o, &args.k_new, &args.v_new});
  if (q[3] != k[3] || (!args.table && q[0] != k[0])) {
    throw InputError("Q is " + bracketed(q) + " and K is " + bracketed(k) + ": " +
                     (args.table ? "" : "batch and ") + "dim must be equal");
  }
  check_shared_heads(args.q, args.k);
  check_lse(args.lse, args.q);
  int64_t appended = 0;
  if (args.k_new.data) {
    check_sizes({&args.k_new, &args.v_new});
    check_same_shape("the new K", args.k_new, "the new V", args.v_new);
    check_written("K, the cache,", args.k);
    check_written("V, the cache,", args.v);
    appended = args.k_new.shape[2];
    if (args.k_new.shape != std::array<int64_t, 4>{q[0], k[1], appended, q[3]}) {
      throw InputError("the new K is " + bracketed(args.k_new.shape) + ": expected [" +
                       std::to_string(q[0]) + ", " + std::to_string(k[1]) + ", new keys, " +
                       std::to_string(q[3]) + "]");
    }
  }
  if ((args.table || appended > 0) && !args.lengths) {
    throw InputError("a cache with pages, or one that grows: give the length of each sequence");
  }
  if (args.table && args.table_columns < 1) throw InputError("a table of pages without a column");
  const int64_t room = args.table ? args.table_columns * k[2] : k[2];
  if (args.longest < 0 || args.longest + appended > room) {
    throw InputError("longest is " + std::to_string(args.longest) + " keys" +
                     (appended > 0 ? " and " + std::to_string(appended) + " new ones" : "") +
                     ": a sequence has room for " + std::to_string(room));
  }
  if (args.prefix < 0 || args.prefix > room || args.prefix % k[2] != 0 ||
      (args.prefix > 0 && (!args.table || (args.longest > 0 && args.longest < args.prefix)))) {
    throw InputError("a prefix of " + std::to_string(args.prefix) +
                     " keys: expected whole pages, that every sequence has");
  }
  check_written("O", args.o);
  if (args.tree && (!args.causal || args.q.shape[2] > kMostTreeTokens)) {
    throw InputError("a tree of " + std::to_string(args.q.shape[2]) +
                     " new tokens: expected at most " + std::to_string(kMostTreeTokens) +
                     ", and a causal mask");
  }
  if (args.splits.parts() > kMostSplits) {
    throw InputError(std::to_string(args.splits.parts()) + " splits: expected at most " +
                     std::to_string(kMostSplits));
  }
  if (args.splits.own < 1 || args.splits.prefix < 0 ||
      (args.splits.prefix > 0) != (args.prefix > 0)) {
    throw InputError(std::to_string(args.splits.own) + " splits, and " +
                     std::to_string(args.splits.prefix) +
                     " splits of the prefix: expected 1 or more");
  }
}

uint32_t features_of(const DecodeArgs& args) {
  uint32_t features =
      layout_features({&args.q, &args.k, &args.v, &args.o, &args.k_new, &args.v_new});
  if (args.causal) features |= CAUSAL;
  if (args.lse.data) features |= LSE;
  if (args.q.shape[1] != args.k.shape[1]) features |= KV_HEADS;
  if (args.q.dtype == Dtype::f16) features |= FP16;
  if (args.sinks) features |= SINKS;
  return features;
}

void check_arguments(const Kernel& chapter, const DecodeArgs& args) {
  check_shapes(args);
  check_types({&args.q, &args.k, &args.v, &args.o}, "Q, K, V and O", args.lse);
  if (args.k_new.data) check_types({&args.q, &args.k_new, &args.v_new}, "Q and the new keys", {});
  check_chapter_takes(chapter, features_of(args), args.q, args.k);
}

bool machine_code_fits(const std::string& machine_code, int capability) {
  const int needed = std::atoi(machine_code.c_str() + 3);  // the number after "sm_"
  return machine_code.back() == 'a' ? capability == needed : capability >= needed;
}

std::string gpu_problem(const KernelBuild& build) {
  if (*build.left_out != '\0') return build.left_out;
  if (std::string problem = gpu_problem(); !problem.empty()) return problem;
  if (machine_code_fits(build.machine_code, gpu_capability())) return "";
  return "the GPU " + gpu_name() + " is sm_" + std::to_string(gpu_capability()) +
         ", this build's kernel needs " + build.machine_code;
}

}  // namespace fa
