#include "common/kernels/library/flash_attention.h"

#include <exception>
#include <string>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/builds.hpp"
#include "common/kernels/kernel_program.hpp"
#include "common/simt/buffer.hpp"

namespace {

thread_local std::string last_error;

struct Builds {
  fa::KernelBuild emulator, gpu;
};

Builds builds_of(int chapter) {
  switch (chapter) {
    case 3: return {emulator::ch03::forward, gpu::ch03::forward};
    case 4: return {emulator::ch04::forward, gpu::ch04::forward};
    case 5: return {emulator::ch05::forward, gpu::ch05::forward};
    case 6: return {emulator::ch06::forward, gpu::ch06::forward};
    case 7: return {emulator::ch07::forward, gpu::ch07::forward};
    case 8: return {emulator::ch08::forward, gpu::ch08::forward};
  }
  throw fa::InputError("chapter " + std::to_string(chapter) + ": this library has 3 to 8");
}

bool on_gpu(const void* pointer) {
  return fa::gpu_problem().empty() && fa::is_gpu_pointer(pointer);
}

void check_pointer(const char* name, const void* pointer, bool gpu) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0 || pointer == nullptr) {
    throw fa::InputError(std::string(name) + " is null or not aligned to 16 bytes");
  }
  if (on_gpu(pointer) != gpu) {
    throw fa::InputError("q is in " + std::string(gpu ? "GPU" : "host") + " memory and " + name +
                         " is not");
  }
}

void forward(const Builds& builds, const fa::ForwardArgs& args, bool gpu, void* stream) {
  if (gpu) {
    fa::set_gpu_stream(stream);
    builds.gpu(args);
    return;
  }
  const size_t row_bytes = args.head_dim * sizeof(fa::bf16);
  const size_t q_bytes = row_bytes * args.batch_heads * args.len_q;
  const size_t kv_bytes = row_bytes * args.batch_heads * args.len_kv;
  const fa::simt::RegisteredBuffer Q(args.Q, q_bytes, "Q", sizeof(fa::bf16));
  const fa::simt::RegisteredBuffer K(args.K, kv_bytes, "K", sizeof(fa::bf16));
  const fa::simt::RegisteredBuffer V(args.V, kv_bytes, "V", sizeof(fa::bf16));
  const fa::simt::RegisteredBuffer O(args.O, q_bytes, "O", sizeof(fa::bf16));
  builds.emulator(args);  // outside a simt::run a hazard throws
}

}  // namespace

int flash_attention_forward(int chapter, const void* q, const void* k, const void* v, void* o,
                            int64_t batch, int64_t heads, int64_t len_q, int64_t len_kv,
                            int64_t head_dim, double scale, void* stream) {
  try {
    const Builds builds = builds_of(chapter);
    const fa::Shape shape{batch, heads, len_q, len_kv, head_dim};
    if (batch < 1 || heads < 1 || len_q < 1 || len_kv < 1) {
      throw fa::InputError("shape " + fa::to_string(shape) + ": every size must be at least 1");
    }
    fa::check_kernel_shape(shape);
    const bool gpu = on_gpu(q);
    check_pointer("q", q, gpu);
    check_pointer("k", k, gpu);
    check_pointer("v", v, gpu);
    check_pointer("o", o, gpu);
    using fa::bf16;
    forward(builds,
            {static_cast<const bf16*>(q), static_cast<const bf16*>(k),
             static_cast<const bf16*>(v), static_cast<bf16*>(o),
             static_cast<int>(batch * heads), static_cast<int>(len_q), static_cast<int>(len_kv),
             static_cast<int>(head_dim), static_cast<float>(scale), 0, 2},
            gpu, stream);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

const char* flash_attention_error(void) { return last_error.c_str(); }

double flash_attention_mma_limit(void) {
  try {
    return fa::gpu_mma_limit_tflops();
  } catch (const std::exception& error) {
    last_error = error.what();
    return 0;
  }
}
