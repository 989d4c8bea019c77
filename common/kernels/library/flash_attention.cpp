#include "common/kernels/library/flash_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/library/chapters.hpp"
#include "common/simt/buffer.hpp"
#include "common/text.hpp"

namespace {

using fa::BackwardArgs;
using fa::DecodeArgs;
using fa::ForwardArgs;
using fa::InputError;
using fa::Kernel;
using fa::Shape;
using fa::TensorRef;

thread_local std::string last_error;

// Runs `body`. An exception becomes the last error.
template <class Body>
int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const std::bad_alloc&) {
    last_error = "not enough memory for this size";
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "an exception of unknown type";
  }
  return 1;
}

struct Named {
  const char* name;
  const TensorRef& tensor;
};
using Tensors = std::vector<Named>;

Tensors tensors_of(const ForwardArgs& args) {
  Tensors all = {{"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}};
  if (args.lse.data) all.push_back({"lse", args.lse});
  return all;
}
Tensors tensors_of(const BackwardArgs& args) {
  return {{"q", args.q},     {"k", args.k},   {"v", args.v},   {"o", args.o},  {"lse", args.lse},
          {"d_o", args.d_o}, {"dq", args.dq}, {"dk", args.dk}, {"dv", args.dv}};
}

Tensors tensors_of(const DecodeArgs& args) {
  Tensors all = {{"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}};
  if (args.k_new.data || args.v_new.data) {
    all.push_back({"k_new", args.k_new});
    all.push_back({"v_new", args.v_new});
  }
  if (args.lse.data) all.push_back({"lse", args.lse});
  return all;
}

// Copies the caller's structure over `defaults`. Structures of earlier versions have one of the
// `earlier` sizes, and later fields keep their defaults.
template <class T>
T copied(const T* given, std::initializer_list<size_t> earlier, T defaults = {}) {
  if (!given) throw InputError("no arguments");
  if (given->size != sizeof(T) && std::ranges::find(earlier, given->size) == earlier.end()) {
    throw InputError("arguments of " + std::to_string(given->size) + " bytes: this version has " +
                     std::to_string(sizeof(T)) + "; set `size` to the size of the structure");
  }
  std::memcpy(&defaults, given, given->size);
  return defaults;
}

flash_attention_arguments checked(const flash_attention_arguments* given) {
  return copied(
      given,
      {offsetof(flash_attention_arguments, sinks), offsetof(flash_attention_arguments, workspace),
       offsetof(flash_attention_arguments, cu_seqlens_q)},
      flash_attention_arguments(FLASH_ATTENTION_DEFAULTS));
}

TensorRef tensor_ref(const char* name, const flash_attention_tensor& given) {
  TensorRef tensor{given.data, fa::Dtype::bf16, {}, {}};
  if (given.type == FLASH_ATTENTION_FP16) {
    tensor.dtype = fa::Dtype::f16;
  } else if (given.type == FLASH_ATTENTION_FP32) {
    tensor.dtype = fa::Dtype::f32;
  } else if (given.type != FLASH_ATTENTION_BF16) {
    throw InputError(std::string(name) + ": type " + std::to_string(given.type) +
                     " is none of 0 (bf16), 1 (fp16), 2 (fp32)");
  }
  std::copy_n(given.shape, 4, tensor.shape.begin());
  std::copy_n(given.strides, 4, tensor.strides.begin());
  return tensor;
}

void check_address(const char* name, const void* data) {
  if (data == nullptr || reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    throw InputError(std::string(name) + " is null or not aligned to 16 bytes");
  }
}

// Returns the scale, after checking that scale * log2(e) is finite in fp32, because kernels use it.
float checked_scale(double scale) {
  if (!(std::abs(scale) * std::numbers::log2e <= std::numeric_limits<float>::max())) {
    throw InputError("scale " + fa::text("%g", scale) +
                     ": expected a finite number, from -2.35e38 to 2.35e38");
  }
  return static_cast<float>(scale);
}

float checked_softcap(double softcap) {
  using Limits = std::numeric_limits<float>;
  if (softcap != 0 && !(softcap >= Limits::min() && softcap <= Limits::max())) {
    throw InputError("softcap " + fa::text("%g", softcap) +
                     ": expected 0, for none, or a number from 1.2e-38 to 3.4e38");
  }
  return static_cast<float>(softcap);
}

ForwardArgs forward_args(const flash_attention_arguments& given) {
  ForwardArgs args{.q = tensor_ref("q", given.q),
                   .k = tensor_ref("k", given.k),
                   .v = tensor_ref("v", given.v),
                   .o = tensor_ref("o", given.o),
                   .lse = tensor_ref("lse", given.lse)};
  for (const Named& one : tensors_of(args)) check_address(one.name, one.tensor.data);
  args.scale = checked_scale(given.scale);
  args.window_left = given.window_left;
  args.window_right = given.window_right;
  args.q_starts = given.cu_seqlens_q;
  args.kv_starts = given.cu_seqlens_k;
  args.sequences = given.sequences;
  args.longest_q = given.longest_q;
  args.softcap = checked_softcap(given.softcap);
  args.alibi = given.alibi != 0;
  args.sinks = given.sinks;
  return args;
}

BackwardArgs backward_args(const flash_attention_backward_arguments& given) {
  BackwardArgs args{.q = tensor_ref("q", given.q),
                    .k = tensor_ref("k", given.k),
                    .v = tensor_ref("v", given.v),
                    .o = tensor_ref("o", given.o),
                    .d_o = tensor_ref("d_o", given.d_o),
                    .lse = tensor_ref("lse", given.lse),
                    .dq = tensor_ref("dq", given.dq),
                    .dk = tensor_ref("dk", given.dk),
                    .dv = tensor_ref("dv", given.dv),
                    .workspace = static_cast<float*>(given.workspace)};
  for (const Named& one : tensors_of(args)) check_address(one.name, one.tensor.data);
  check_address("workspace", given.workspace);
  args.scale = checked_scale(given.scale);
  args.causal = given.causal != 0;
  if (given.windowed != 0) {
    args.window_left = given.window_left;
    args.window_right = given.window_right;
    args.causal = args.causal || (args.window_left < 0 && args.window_right == 0);
  }
  args.q_starts = given.cu_seqlens_q;
  args.kv_starts = given.cu_seqlens_k;
  args.sequences = given.sequences;
  args.sinks = given.sinks;
  args.d_sinks = given.d_sinks;
  return args;
}

// Returns the GPU's number, or FLASH_ATTENTION_EMULATOR. Throws InputError if a tensor or one of
// `more` is missing.
int device_of(int asked, const Tensors& tensors,
              std::initializer_list<std::pair<const char*, const void*>> more) {
  const bool has_gpu = fa::gpu_problem().empty();
  const auto place = [&](const void* data) {
    return has_gpu ? fa::gpu_of_pointer(data) : FLASH_ATTENTION_EMULATOR;
  };
  const auto name = [](int device) {
    return device < 0 ? std::string("host memory") : "GPU " + std::to_string(device) + "'s memory";
  };
  if (!has_gpu && (asked >= 0 || (asked == FLASH_ATTENTION_WHERE_Q_IS && fa::gpu_lost_by_fork()))) {
    throw InputError(fa::gpu_problem());
  }
  const int device =
      asked == FLASH_ATTENTION_WHERE_Q_IS ? place(tensors.front().tensor.data) : asked;
  const auto check_place = [&](const char* name_of, const void* data) {
    if (!has_gpu || place(data) == device) return;
    throw InputError(std::string(name_of) + " is in " + name(place(data)) + ", expected " +
                     name(device));
  };
  for (const Named& one : tensors) check_place(one.name, one.tensor.data);
  for (const auto& [name_of, data] : more)
    if (data != nullptr) check_place(name_of, data);
  return device;
}

bool takes(const Kernel& chapter, const ForwardArgs& args) {
  try {
    fa::check_arguments(chapter, args);
    return chapter.any_scale || args.scale > 0;
  } catch (const InputError&) {
    return false;
  }
}

const Kernel& chosen_chapter(int number, const ForwardArgs& args, bool gpu) {
  const auto chapters = fa::kernel_chapters();
  if (number == 0) {
    for (auto chapter = chapters.rbegin(); chapter != chapters.rend(); ++chapter) {
      const bool runs = !gpu || fa::gpu_problem(*(*chapter)->gpu).empty();
      // A kernel that loses accuracy or needs a workspace must be asked for.
      if ((*chapter)->computed || (*chapter)->forward_workspace) continue;
      if (runs && takes(**chapter, args)) return **chapter;
    }
    // The chapter with the most features refuses with the feature that no chapter has.
    return **std::max_element(chapters.begin(), chapters.end(), [](auto one, auto other) {
      return std::popcount(one->features) < std::popcount(other->features);
    });
  }
  if (number == 117) throw InputError("chapter 117: the FP8 kernel is chapter 23 now");
  std::string numbers;
  for (const Kernel* chapter : chapters) {
    if (chapter->number() == number) return *chapter;
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(chapter->number());
  }
  throw InputError("chapter " + std::to_string(number) + ": this library has " + numbers);
}

void check_starts(const char* name, const int* starts, int64_t sequences, int64_t length) {
  if (starts[0] == 0 && starts[sequences] == length &&
      std::is_sorted(starts, starts + sequences + 1)) {
    return;
  }
  throw InputError(std::string(name) + ": expected numbers that ascend from 0 to " +
                   std::to_string(length) + ", the length of all sequences together");
}

// Checks packed sequences in host memory. Those in GPU memory cannot be checked here.
void check_sequences(const ForwardArgs& args) {
  if (!args.q_starts || !args.kv_starts || args.sequences < 1) return;  // check_shapes reports it
  check_starts("cu_seqlens_q", args.q_starts, args.sequences, args.q.shape[2]);
  check_starts("cu_seqlens_k", args.kv_starts, args.sequences, args.k.shape[2]);
  for (int64_t n = 0; n < args.sequences; ++n) {
    const int queries = args.q_starts[n + 1] - args.q_starts[n];
    if (queries <= args.longest_q) continue;
    throw InputError("longest_q " + std::to_string(args.longest_q) + ": sequence " +
                     std::to_string(n) + " has " + std::to_string(queries) + " queries");
  }
}

// Registers memory with the emulator, under the names of its tensors and arrays, for the object's
// lifetime.
class Registered {
 public:
  explicit Registered(const Tensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const size_t bytes = tensor.dtype == fa::Dtype::f32 ? 4 : 2;
      buffers_.emplace_back(tensor.data, bytes * fa::extent(tensor), name, bytes);
    }
  }
  // Nothing if the call has no such array.
  template <class T>
  void add(const char* name, const T* data, int64_t bytes) {
    if (data && bytes > 0) buffers_.emplace_back(data, bytes, name, sizeof(T));
  }

 private:
  std::deque<fa::simt::RegisteredBuffer> buffers_;
};

void emulate(const fa::KernelBuild& build, const ForwardArgs& args, int64_t workspace_bytes) {
  Registered registered(tensors_of(args));
  registered.add("cu_seqlens_q", args.q_starts, (args.sequences + 1) * sizeof(int));
  registered.add("cu_seqlens_k", args.kv_starts, (args.sequences + 1) * sizeof(int));
  registered.add("sinks", args.sinks, args.q.shape[1] * sizeof(float));
  registered.add("workspace", args.workspace, workspace_bytes);
  build.forward(args);  // outside simt::run a hazard is an exception
}

int checked_option(const Kernel& chapter, int option) {
  if (chapter.options.empty()) {
    throw InputError("option " + std::to_string(option) + ": " + chapter.name + " has none");
  }
  const fa::IntegerOption& own = chapter.options[0];
  if (option < own.min || option > own.max) {
    throw InputError("option " + std::to_string(option) + ": " + own.name + " of " + chapter.name +
                     " is " + std::to_string(own.min) + " to " + std::to_string(own.max));
  }
  return option;
}

// Selects a GPU for the launches in its lifetime. Throws InputError if the GPU cannot run the
// kernel.
class OnGpu {
 public:
  OnGpu(const fa::KernelBuild& build, int device, void* stream) : current_(device) {
    if (const std::string why = fa::gpu_problem(build); !why.empty()) throw InputError(why);
    fa::set_gpu_stream(stream);
  }
  ~OnGpu() { fa::set_gpu_stream(nullptr); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  fa::CurrentGpu current_;
};

// A forward call except for its workspace.
struct ForwardPlan {
  ForwardArgs args;
  const Kernel& chapter;
  int device;
  int64_t bytes;  // size of the workspace
};

ForwardPlan forward_plan(const flash_attention_arguments& given) {
  ForwardArgs args = forward_args(given);
  const int device = device_of(
      given.device, tensors_of(args),
      {{"cu_seqlens_q", args.q_starts}, {"cu_seqlens_k", args.kv_starts}, {"sinks", args.sinks}});
  if (device < 0) check_sequences(args);
  fa::check_shapes(args);
  const Kernel& chapter = chosen_chapter(given.chapter, args, device >= 0);
  for (size_t i = 0; i < chapter.options.size(); ++i) {
    args.options[i] = chapter.options[i].fallback;
  }
  if (given.option != 0) args.options[0] = checked_option(chapter, given.option);
  fa::check_arguments(chapter, args);
  const auto [batch, heads, len_q, dim] = args.q.shape;
  const int64_t bytes =
      chapter.forward_workspace
          ? chapter.forward_workspace({batch, heads, len_q, args.k.shape[2], dim}, args.k.shape[1])
          : 0;
  return {args, chapter, device, bytes};
}

void attend(const flash_attention_arguments& given) {
  ForwardPlan plan = forward_plan(given);
  if (given.workspace_bytes < plan.bytes) {
    throw InputError("workspace of " + std::to_string(given.workspace_bytes) +
                     " bytes: " + plan.chapter.name + " needs " + std::to_string(plan.bytes));
  }
  if (plan.bytes > 0) {
    check_address("workspace", given.workspace);
    device_of(plan.device, tensors_of(plan.args), {{"workspace", given.workspace}});
    plan.args.workspace = static_cast<float*>(given.workspace);
  }
  if (plan.device < 0) return emulate(*plan.chapter.emulator, plan.args, plan.bytes);
  const OnGpu gpu(*plan.chapter.gpu, plan.device, given.stream);
  plan.chapter.gpu->forward(plan.args);
}

// Returns the newest chapter that supports these arguments on this device. --design belongs to
// chapter 10, which runs on every device, so the emulator uses it too, unless there is a window or
// a packed sequence.
const Kernel& backward_chapter(const BackwardArgs& args, int device, int64_t option) {
  const auto chapters = fa::backward_chapters();
  if (chapters.empty()) throw InputError("this library has no backward pass");
  const bool beyond_10 = (fa::features_of(args) & (fa::WINDOW | fa::PACKED)) != 0;
  if ((device >= 0 || beyond_10) && option == 0) {
    std::optional<fa::CurrentGpu> current;
    if (device >= 0) current.emplace(device);
    for (size_t i = chapters.size() - 1; i > 0; --i) {
      if (device >= 0 && !fa::gpu_problem(*chapters[i]->gpu).empty()) continue;
      try {
        fa::check_arguments(*chapters[i], args);
        return *chapters[i];
      } catch (const InputError&) {  // an older chapter may support them
      }
    }
  }
  return *chapters.front();
}

void differentiate(const flash_attention_backward_arguments* arguments) {
  const flash_attention_backward_arguments given =
      copied(arguments, {offsetof(flash_attention_backward_arguments, windowed)});
  BackwardArgs args = backward_args(given);
  const int device = device_of(given.device, tensors_of(args),
                               {{"workspace", given.workspace},
                                {"sinks", given.sinks},
                                {"d_sinks", given.d_sinks},
                                {"cu_seqlens_q", given.cu_seqlens_q},
                                {"cu_seqlens_k", given.cu_seqlens_k}});
  if (device < 0 && args.q_starts && args.kv_starts && args.sequences > 0) {
    check_starts("cu_seqlens_q", args.q_starts, args.sequences, args.q.shape[2]);
    check_starts("cu_seqlens_k", args.kv_starts, args.sequences, args.k.shape[2]);
  }
  const Kernel& chapter = backward_chapter(args, device, given.option);
  fa::check_arguments(chapter, args);
  const auto& q = args.q.shape;
  const int64_t floats = fa::backward_workspace({q[0], q[1], q[2], args.k.shape[2], q[3]},
                                                args.q_starts ? args.sequences : 0);
  if (given.workspace_bytes < floats * static_cast<int64_t>(sizeof(float))) {
    throw InputError("workspace of " + std::to_string(given.workspace_bytes) +
                     " bytes: " + std::to_string(floats * sizeof(float)) + " are needed");
  }
  if (given.option != 0) args.options[0] = checked_option(chapter, given.option);
  args.options[1] = given.deterministic != 0;
  if (device >= 0) {
    const OnGpu gpu(*chapter.gpu, device, given.stream);
    chapter.gpu->backward(args);
    return;
  }
  const TensorRef workspace{args.workspace, fa::Dtype::f32, {1, 1, 1, floats}, {0, 0, 0, 1}};
  Tensors tensors = tensors_of(args);
  tensors.push_back({"workspace", workspace});
  Registered registered(tensors);
  registered.add("cu_seqlens_q", args.q_starts, (args.sequences + 1) * sizeof(int));
  registered.add("cu_seqlens_k", args.kv_starts, (args.sequences + 1) * sizeof(int));
  registered.add("sinks", args.sinks, q[1] * sizeof(float));
  registered.add("d_sinks", args.d_sinks, q[1] * sizeof(float));
  chapter.emulator->backward(args);
}

// A decode call except for its workspace.
struct DecodePlan {
  const Kernel* chapter;
  DecodeArgs args;
  int device;
  int64_t floats;  // size of the workspace
};

DecodePlan decode_plan(const flash_attention_decode_arguments* arguments) {
  const flash_attention_decode_arguments given =
      copied(arguments, {offsetof(flash_attention_decode_arguments, sinks),
                         offsetof(flash_attention_decode_arguments, tree)});
  if (fa::decode_chapters().empty()) throw InputError("this library has no decoding");
  DecodePlan plan{.chapter = fa::decode_chapters().back(),
                  .args = {.q = tensor_ref("q", given.q),
                           .o = tensor_ref("o", given.o),
                           .lse = tensor_ref("lse", given.lse),
                           .k = tensor_ref("k", given.k),
                           .v = tensor_ref("v", given.v),
                           .k_new = tensor_ref("k_new", given.k_new),
                           .v_new = tensor_ref("v_new", given.v_new),
                           .lengths = given.lengths,
                           .table = given.table,
                           .table_columns = given.table_columns,
                           .longest = given.longest,
                           .scale = checked_scale(given.scale),
                           .causal = given.not_causal == 0,
                           .prefix = given.prefix,
                           .splits = {1, given.prefix > 0 ? 1 : 0},
                           .sinks = given.sinks,
                           .tree = given.tree},
                  .device = FLASH_ATTENTION_EMULATOR,
                  .floats = 0};
  DecodeArgs& args = plan.args;
  for (const Named& one : tensors_of(args)) check_address(one.name, one.tensor.data);
  plan.device = device_of(given.device, tensors_of(args),
                          {{"lengths", args.lengths},
                           {"table", args.table},
                           {"sinks", args.sinks},
                           {"tree", args.tree}});
  if (given.splits < 0) throw InputError("splits: expected a number, or 0 to have them chosen");
  fa::check_arguments(*plan.chapter, args);
  const auto [batch, heads, len_q, dim] = args.q.shape;
  const int64_t room = args.k.shape[2] * (args.table ? args.table_columns : 1);
  const int64_t longest = args.longest > 0 ? args.longest + args.k_new.shape[2] : room;
  const Shape shape{batch, heads, len_q, longest, dim};
  if (given.splits > 0) {
    args.splits = {given.splits, args.prefix > 0 ? given.splits : 0};
  } else {
    const int machine = plan.device >= 0 ? fa::gpu_multiprocessors() : 132;
    args.splits =
        plan.chapter->choose_splits(shape, args.k.shape[1], longest, args.prefix, machine);
  }
  fa::check_arguments(*plan.chapter, args);  // with the splits, before a workspace is allocated
  plan.floats = fa::decode_workspace(shape.rows(), dim, args.splits);
  return plan;
}

// Checks a tree in host memory. A token sees itself, and no later one.
void check_tree(const DecodeArgs& args) {
  const int64_t tokens = args.q.shape[2];
  for (int64_t i = 0; args.tree && i < args.q.shape[0] * tokens; ++i) {
    if (args.tree[i] >> i % tokens == 1) continue;
    throw InputError("tree: new token " + std::to_string(i % tokens) + " of sequence " +
                     std::to_string(i / tokens) + " does not see itself, or sees a later one");
  }
}

// Checks a cache in host memory. A cache in GPU memory cannot be checked here.
void check_cache(const DecodeArgs& args) {
  const int64_t page_size = args.k.shape[2], appended = args.k_new.shape[2];
  const int64_t room = page_size * (args.table ? args.table_columns : 1);
  for (int64_t n = 0; args.lengths && n < args.q.shape[0]; ++n) {
    const int64_t length = args.lengths[n] + appended;
    const std::string sequence = "sequence " + std::to_string(n);
    if (args.longest > 0 && args.lengths[n] > args.longest) {
      throw InputError(sequence + ": " + std::to_string(args.lengths[n]) +
                       " keys, but longest is " + std::to_string(args.longest));
    }
    if (args.lengths[n] < 0 || length > room) {
      throw InputError(sequence + ": " + std::to_string(args.lengths[n]) + " keys" +
                       (appended > 0 ? " and " + std::to_string(appended) + " new ones" : "") +
                       ", with room for " + std::to_string(room));
    }
    const int64_t behind = args.causal ? args.q.shape[2] : 0;
    if (args.prefix > 0 && (args.lengths[n] < args.prefix || length < args.prefix + behind)) {
      throw InputError(sequence + ": " + std::to_string(length) + " keys, of which the prefix is " +
                       std::to_string(args.prefix) +
                       ": the keys of the queries must come after it");
    }
    for (int64_t i = 0; args.table && i * page_size < length; ++i) {
      const int page = args.table[n * args.table_columns + i];
      if (page >= 0 && page < args.k.shape[0] &&
          (i * page_size >= args.prefix || page == args.table[i])) {
        continue;
      }
      throw InputError(sequence + ": page " + std::to_string(page) + " of " +
                       std::to_string(args.k.shape[0]) +
                       (i * page_size < args.prefix ? ", in the prefix" : ""));
    }
  }
}

void decode(const flash_attention_decode_arguments* given) {
  DecodePlan plan = decode_plan(given);
  DecodeArgs& args = plan.args;
  const int64_t bytes = plan.floats * static_cast<int64_t>(sizeof(float));
  if (given->workspace_bytes < bytes) {
    throw InputError("workspace of " + std::to_string(given->workspace_bytes) +
                     " bytes: " + std::to_string(bytes) + " are needed");
  }
  if (bytes > 0) {
    check_address("workspace", given->workspace);
    device_of(plan.device, tensors_of(args), {{"workspace", given->workspace}});
    args.workspace = static_cast<float*>(given->workspace);
  }
  if (plan.device >= 0) {
    const OnGpu gpu(*plan.chapter->gpu, plan.device, given->stream);
    plan.chapter->gpu->decode(args);
    return;
  }
  check_cache(args);
  check_tree(args);
  Registered registered(tensors_of(args));
  registered.add("lengths", args.lengths, args.q.shape[0] * sizeof(int));
  registered.add("table", args.table, args.q.shape[0] * args.table_columns * sizeof(int));
  registered.add("workspace", args.workspace, bytes);
  registered.add("sinks", args.sinks, args.q.shape[1] * sizeof(float));
  registered.add("tree", args.tree, args.q.shape[0] * args.q.shape[2] * sizeof(uint64_t));
  plan.chapter->emulator->decode(args);
}

flash_attention_tensor contiguous(const void* data, int64_t batch, int64_t heads, int64_t length,
                                  int64_t dim) {
  flash_attention_tensor tensor = {
      const_cast<void*>(data), FLASH_ATTENTION_BF16, 0, {batch, heads, length, dim}, {}};
  const auto strides = fa::contiguous_strides({batch, heads, length, dim});
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

}  // namespace

int flash_attention(const flash_attention_arguments* arguments) {
  return guarded([&] { attend(checked(arguments)); });
}

int flash_attention_forward(int chapter, const void* q, const void* k, const void* v, void* o,
                            int64_t batch, int64_t heads, int64_t len_q, int64_t len_kv,
                            int64_t head_dim, double scale, void* stream) {
  return guarded([&] {
    flash_attention_arguments arguments = FLASH_ATTENTION_DEFAULTS;
    arguments.chapter = chapter;
    arguments.q = contiguous(q, batch, heads, len_q, head_dim);
    arguments.k = contiguous(k, batch, heads, len_kv, head_dim);
    arguments.v = contiguous(v, batch, heads, len_kv, head_dim);
    arguments.o = contiguous(o, batch, heads, len_q, head_dim);
    arguments.scale = scale;
    arguments.stream = stream;
    attend(arguments);
  });
}

int64_t flash_attention_workspace(const flash_attention_arguments* arguments) {
  int64_t bytes = -1;
  guarded([&] { bytes = forward_plan(checked(arguments)).bytes; });
  return bytes;
}

int flash_attention_backward(const flash_attention_backward_arguments* arguments) {
  return guarded([&] { differentiate(arguments); });
}

int64_t flash_attention_backward_workspace(int64_t batch, int64_t heads, int64_t len_q,
                                           int64_t head_dim) {
  int64_t bytes = 0;
  guarded([&] {
    const fa::Shape shape{batch, heads, len_q, 1, head_dim};
    for (const int64_t size : {batch, heads, len_q, head_dim})
      if (size < 1) throw InputError("workspace: every size must be at least 1");
    fa::check_addressable(shape, "shape " + to_string(shape));
    bytes = fa::backward_workspace(shape) * static_cast<int64_t>(sizeof(float));
  });
  return bytes;
}

int flash_attention_decode(const flash_attention_decode_arguments* arguments) {
  return guarded([&] { decode(arguments); });
}

int64_t flash_attention_decode_workspace(const flash_attention_decode_arguments* arguments) {
  int64_t bytes = -1;
  guarded([&] { bytes = decode_plan(arguments).floats * static_cast<int64_t>(sizeof(float)); });
  return bytes;
}

const char* flash_attention_error(void) { return last_error.c_str(); }

double flash_attention_mma_limit(void) {
  double limit = 0;
  guarded([&] { limit = fa::gpu_mma_limit_tflops(); });
  return limit;
}
