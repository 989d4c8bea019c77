#include "common/kernels/library/flash_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/library/chapters.hpp"
#include "common/simt/buffer.hpp"

namespace {

using fa::ForwardArgs;
using fa::InputError;
using fa::KernelChapter;
using fa::TensorRef;

thread_local std::string last_error;

// Runs `body`; whatever it throws becomes the last error.
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
std::vector<Named> tensors_of(const ForwardArgs& args) {
  std::vector<Named> all = {{"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}};
  if (args.lse.data) all.push_back({"lse", args.lse});
  return all;
}

// An earlier version ended with `stream`: what came later keeps its default.
flash_attention_arguments checked(const flash_attention_arguments* given) {
  if (!given) throw InputError("no arguments");
  flash_attention_arguments arguments = FLASH_ATTENTION_DEFAULTS;
  if (given->size != sizeof arguments &&
      given->size != offsetof(flash_attention_arguments, cu_seqlens_q)) {
    throw InputError("arguments of " + std::to_string(given->size) + " bytes: this version has " +
                     std::to_string(sizeof arguments) + "; begin with FLASH_ATTENTION_DEFAULTS");
  }
  std::memcpy(&arguments, given, given->size);
  return arguments;
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

ForwardArgs forward_args(const flash_attention_arguments& given) {
  ForwardArgs args{.q = tensor_ref("q", given.q),
                   .k = tensor_ref("k", given.k),
                   .v = tensor_ref("v", given.v),
                   .o = tensor_ref("o", given.o),
                   .lse = tensor_ref("lse", given.lse)};
  for (const Named& one : tensors_of(args)) {
    if (one.tensor.data == nullptr || reinterpret_cast<uintptr_t>(one.tensor.data) % 16 != 0) {
      throw InputError(std::string(one.name) + " is null or not aligned to 16 bytes");
    }
  }
  if (!std::isfinite(given.scale)) throw InputError("scale: expected a finite number");
  args.scale = static_cast<float>(given.scale);
  args.window_left = given.window_left;
  args.window_right = given.window_right;
  args.q_starts = given.cu_seqlens_q;
  args.kv_starts = given.cu_seqlens_k;
  args.sequences = given.sequences;
  args.longest_q = given.longest_q;
  if (!std::isfinite(given.softcap)) throw InputError("softcap: expected a finite number");
  args.softcap = static_cast<float>(given.softcap);
  args.alibi = given.alibi != 0;
  return args;
}

// The GPU's number, or FLASH_ATTENTION_EMULATOR. Every tensor must be there.
int device_of(int asked, const ForwardArgs& args) {
  const bool has_gpu = fa::gpu_problem().empty();
  const auto place = [&](const TensorRef& tensor) {
    return has_gpu ? fa::gpu_of_pointer(tensor.data) : FLASH_ATTENTION_EMULATOR;
  };
  const auto name = [](int device) {
    return device < 0 ? std::string("host memory") : "GPU " + std::to_string(device) + "'s memory";
  };
  if (!has_gpu && (asked >= 0 || (asked == FLASH_ATTENTION_WHERE_Q_IS && fa::gpu_lost_by_fork()))) {
    throw InputError(fa::gpu_problem());
  }
  const int device = asked == FLASH_ATTENTION_WHERE_Q_IS ? place(args.q) : asked;
  for (const Named& one : tensors_of(args)) {
    if (has_gpu && place(one.tensor) != device) {
      throw InputError(std::string(one.name) + " is in " + name(place(one.tensor)) + ", expected " +
                       name(device));
    }
  }
  for (const auto& [name_of, starts] :
       {std::pair{"cu_seqlens_q", args.q_starts}, {"cu_seqlens_k", args.kv_starts}}) {
    if (!starts || !has_gpu) continue;
    if (const int where = fa::gpu_of_pointer(starts); where != device) {
      throw InputError(std::string(name_of) + " is in " + name(where) + ", expected " +
                       name(device));
    }
  }
  return device;
}

bool takes(const KernelChapter& chapter, const ForwardArgs& args) {
  try {
    fa::check_arguments(chapter, args);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

const KernelChapter& chosen_chapter(int number, const ForwardArgs& args, bool gpu) {
  const auto chapters = fa::kernel_chapters();
  if (number == 0) {
    for (auto chapter = chapters.rbegin(); chapter != chapters.rend(); ++chapter) {
      const bool runs = !gpu || fa::gpu_problem(*(*chapter)->gpu).empty();
      if (runs && takes(**chapter, args)) return **chapter;
    }
    // The refusal of the one with the most features names what none has.
    return **std::max_element(chapters.begin(), chapters.end(), [](auto one, auto other) {
      return std::popcount(one->features) < std::popcount(other->features);
    });
  }
  std::string numbers;
  for (const KernelChapter* chapter : chapters) {
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

// The emulator may touch the tensors' bytes, under their names.
void emulate(const fa::KernelBuild& build, const ForwardArgs& args) {
  const std::vector<Named> tensors = tensors_of(args);
  std::vector<std::optional<fa::simt::RegisteredBuffer>> registered(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t bytes = tensors[i].tensor.dtype == fa::Dtype::f32 ? 4 : 2;
    registered[i].emplace(tensors[i].tensor.data, bytes * fa::extent(tensors[i].tensor),
                          tensors[i].name, bytes);
  }
  std::optional<fa::simt::RegisteredBuffer> starts[2];
  if (args.q_starts) {
    const size_t bytes = static_cast<size_t>(args.sequences + 1) * sizeof(int);
    check_starts("cu_seqlens_q", args.q_starts, args.sequences, args.q.shape[2]);
    check_starts("cu_seqlens_k", args.kv_starts, args.sequences, args.k.shape[2]);
    starts[0].emplace(const_cast<int*>(args.q_starts), bytes, "cu_seqlens_q", sizeof(int));
    starts[1].emplace(const_cast<int*>(args.kv_starts), bytes, "cu_seqlens_k", sizeof(int));
  }
  build.forward(args);  // outside a simt::run a hazard throws
}

int checked_option(const KernelChapter& chapter, int option) {
  if (chapter.options.empty()) {
    throw InputError("option " + std::to_string(option) + ": " + chapter.name + " has none");
  }
  const fa::KernelOption& own = chapter.options[0];
  if (option < own.least || option > own.most) {
    throw InputError("option " + std::to_string(option) + ": " + own.name + " of " + chapter.name +
                     " is " + std::to_string(own.least) + " to " + std::to_string(own.most));
  }
  return option;
}

void attend(const flash_attention_arguments& given) {
  ForwardArgs args = forward_args(given);
  const int device = device_of(given.device, args);
  fa::check_shapes(args);
  const KernelChapter& chapter = chosen_chapter(given.chapter, args, device >= 0);
  for (size_t i = 0; i < chapter.options.size(); ++i) {
    args.options[i] = chapter.options[i].otherwise;
  }
  if (given.option != 0) args.options[0] = checked_option(chapter, given.option);
  fa::check_arguments(chapter, args);
  if (device < 0) return emulate(*chapter.emulator, args);
  const fa::CurrentGpu current(device);
  if (const std::string why = fa::gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  struct Stream {  // of the launches below only
    explicit Stream(void* stream) { fa::set_gpu_stream(stream); }
    ~Stream() { fa::set_gpu_stream(nullptr); }
  } const stream(given.stream);
  chapter.gpu->forward(args);
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

const char* flash_attention_error(void) { return last_error.c_str(); }

double flash_attention_mma_limit(void) {
  double limit = 0;
  guarded([&] { limit = fa::gpu_mma_limit_tflops(); });
  return limit;
}
