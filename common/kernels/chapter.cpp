#include "common/kernels/chapter.hpp"

#include <cstdlib>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"

namespace fa {
namespace {

constexpr Break KERNEL_BREAKS[] = {
    {"no-max", NO_MAX, "the row maximum is not subtracted"},
    {"no-rescale", NO_RESCALE, "O and l are not rescaled when the maximum grows"},
    {"unmasked-tail", UNMASKED_TAIL, "keys past the last one are not masked"},
    {"shuffle-mask-0x10", SHUFFLE_MASK_0X10, "the second shuffle of a quad uses 0x10 instead of 2"},
    {"conditional-commit", CONDITIONAL_COMMIT, "no commit when there was no tile to copy"},
    {"missing-wait", MISSING_WAIT, "K is read without waiting for its copy"},
    {"missing-barrier", MISSING_BARRIER, "a block_sync of the main loop is left out"},
    {"swizzle-one-side", SWIZZLE_ONE_SIDE, "K is written swizzled and read row-major"},
    {"wait-too-few", WAIT_TOO_FEW, "the wait for V lets one group too many stay in flight"},
    {"divergent-barrier", DIVERGENT_BARRIER, "only warp 0 arrives at one block_sync of the loop"},
};

std::string bracketed(const std::array<int64_t, 4>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

void check_same_shape(const char* first, const TensorRef& a, const char* second,
                      const TensorRef& b) {
  if (a.shape == b.shape) return;
  throw InputError(std::string(first) + " is " + bracketed(a.shape) + " and " + second + " is " +
                   bracketed(b.shape) + ": their shapes must be equal");
}

void check_types(const ForwardArgs& args) {
  for (const TensorRef* tensor : {&args.k, &args.v, &args.o}) {
    if (tensor->dtype != args.q.dtype) throw InputError("Q, K, V and O must have one type");
  }
  if (args.q.dtype == Dtype::f32) throw InputError("fp32 tensors: these kernels take 16 bits");
  if (args.lse.data && args.lse.dtype != Dtype::f32) throw InputError("LSE must be fp32");
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

std::vector<Break> breaks_of(const KernelChapter& chapter) {
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
  for (const TensorRef* tensor : {&args.q, &args.k, &args.v}) {
    for (const int64_t size : tensor->shape) {
      if (size < 1) {
        throw InputError("shape " + bracketed(tensor->shape) + ": every size must be at least 1");
      }
    }
  }
  const Shape shape{q[0], q[1], q[2], k[2], q[3]};
  check_addressable(shape, "shape " + to_string(shape));
  check_same_shape("K", args.k, "V", args.v);
  check_same_shape("Q", args.q, "O", args.o);
  if (q[0] != k[0] || q[3] != k[3]) {
    throw InputError("Q is " + bracketed(q) + " and K is " + bracketed(k) +
                     ": batch and dim must be equal");
  }
  if (q[1] % k[1] != 0) {
    throw InputError(std::to_string(q[1]) + " heads of Q cannot share " + std::to_string(k[1]) +
                     " of K and V: the second must divide the first");
  }
  if ((args.q_starts == nullptr) != (args.kv_starts == nullptr)) {
    throw InputError("packed sequences: give the starts of both, in Q and in K and V");
  }
  if (args.q_starts && (q[0] != 1 || args.sequences < 1 || args.longest_q < 0)) {
    throw InputError("packed sequences: expected batch 1, and at least one sequence");
  }
  if (!(args.softcap >= 0)) throw InputError("softcap: expected a number above 0, or 0 for none");
  for (const int64_t window : {args.window_left, args.window_right}) {
    if (window < -1) {
      throw InputError("a window of " + std::to_string(window) +
                       " keys: expected a length, or -1 for no limit");
    }
  }
  if (args.lse.data && args.lse.shape != std::array<int64_t, 4>{q[0], q[1], q[2], 1}) {
    throw InputError("LSE is " + bracketed(args.lse.shape) + " and Q is " + bracketed(q) +
                     ": LSE must be [batch, heads, length, 1]");
  }
  for (const TensorRef* tensor : {&args.q, &args.k, &args.v, &args.o, &args.lse}) {
    if (tensor->data) extent(*tensor);
  }
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
  for (const TensorRef* tensor : {&args.q, &args.k, &args.v, &args.o, &args.lse}) {
    if (tensor->data && !is_contiguous(*tensor)) features |= STRIDES;
    for (int d = 0; d < 3; ++d)
      if (tensor->data && tensor->shape[d] > 1 && tensor->strides[d] == 0) features |= REPEATS;
  }
  if (args.q.dtype == Dtype::f16) features |= FP16;
  if (args.q_starts) features |= PACKED;
  if (args.softcap > 0) features |= SOFTCAP;
  if (args.alibi) features |= ALIBI;
  return features;
}

void check_arguments(const KernelChapter& chapter, const ForwardArgs& args) {
  check_shapes(args);
  check_types(args);
  const uint32_t lacking = features_of(args) & ~chapter.features;
  for (const FeatureName& feature : FEATURES) {
    if (lacking & feature.bit) {
      throw InputError(chapter.short_name() + " takes no " + feature.name);
    }
  }
  chapter.check_shape(
      {args.q.shape[0], args.q.shape[1], args.q.shape[2], args.k.shape[2], args.q.shape[3]});
}

bool machine_code_fits(const std::string& machine_code, int capability) {
  const int needed = std::atoi(machine_code.c_str() + 3);  // behind "sm_"
  return machine_code.back() == 'a' ? capability == needed : capability >= needed;
}

std::string gpu_problem(const KernelBuild& build) {
  if (!build.forward) return build.left_out;
  if (std::string problem = gpu_problem(); !problem.empty()) return problem;
  if (machine_code_fits(build.machine_code, gpu_capability())) return "";
  return "the GPU " + gpu_name() + " is sm_" + std::to_string(gpu_capability()) +
         ", this build's kernel needs " + build.machine_code;
}

}  // namespace fa
