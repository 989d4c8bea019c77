#include "common/kernels/runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/simt/buffer.hpp"

namespace fa {
namespace {

constexpr int UNWRITTEN = 0xff;  // in every byte, which is a NaN in each type

size_t element_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

// Returns a tensor with its strides, which are row-major, or the length before the heads if
// `by_length`.
TensorRef placed(void* data, Dtype dtype, const std::array<int64_t, 4>& shape, bool by_length) {
  TensorRef tensor{data, dtype, shape, contiguous_strides(shape)};
  const auto [batch, heads, length, dim] = shape;
  if (by_length) tensor.strides = {length * heads * dim, dim, heads * dim, 1};
  return tensor;
}

// Calls work(row of the row-major values, row in memory), with `dim` elements in each row.
template <class T, class Value, class Work>
void for_rows(const TensorRef& tensor, std::span<Value> values, Work work) {
  const auto [batch, heads, length, dim] = tensor.shape;
  Value* row = values.data();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i, row += dim) {
        work(row, static_cast<T*>(tensor.data) + b * tensor.strides[0] + h * tensor.strides[1] +
                      i * tensor.strides[2]);
      }
}

template <class T>
void round_into(std::span<const float> values, const TensorRef& tensor) {
  for_rows<T>(tensor, values, [&](const float* row, T* memory) {
    std::transform(row, row + tensor.shape[3], memory, from_float<T>);
  });
}
void store(std::span<const float> values, const TensorRef& tensor) {
  if (tensor.dtype == Dtype::bf16) return round_into<bf16>(values, tensor);
  if (tensor.dtype == Dtype::f16) return round_into<fp16>(values, tensor);
  round_into<float>(values, tensor);
}

template <class T>
void widen_from(const TensorRef& tensor, std::span<float> values) {
  for_rows<T>(tensor, values, [&](float* row, const T* memory) {
    std::transform(memory, memory + tensor.shape[3], row, [](T x) { return to_float(x); });
  });
}
void load(const TensorRef& tensor, std::span<float> values) {
  if (tensor.dtype == Dtype::bf16) return widen_from<bf16>(tensor, values);
  if (tensor.dtype == Dtype::f16) return widen_from<fp16>(tensor, values);
  widen_from<float>(tensor, values);
}

// A tensor in the memory of the GPU or of the emulator.
class EmulatorBuffer final : public DeviceMemory::Buffer {
 public:
  EmulatorBuffer(const char* name, size_t bytes, size_t element)
      : bytes_(bytes),
        data_(simt::allocate_buffer(bytes), Free{bytes}),
        registered_(data_.get(), bytes, name, element) {}
  void* data() const override { return data_.get(); }
  void upload(const void* from) override { std::memcpy(data_.get(), from, bytes_); }
  void download(void* to) const override { std::memcpy(to, data_.get(), bytes_); }

 private:
  struct Free {
    size_t bytes;
    void operator()(void* p) const { simt::free_buffer(p, bytes); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
  simt::RegisteredBuffer registered_;
};

class GpuTensor final : public DeviceMemory::Buffer {
 public:
  GpuTensor(const char* name, size_t bytes) : buffer_(bytes, name) {}
  void* data() const override { return buffer_.data(); }
  void upload(const void* from) override { buffer_.upload(from); }
  void download(void* to) const override { buffer_.download(to); }

 private:
  GpuBuffer buffer_;
};

class EmulatorMemory final : public DeviceMemory {
 public:
  EmulatorRun run(const std::function<void()>& launch, const simt::Config& config) {
    EmulatorRun result;
    result.report = simt::run(config, launch);
    for (const simt::Event& event : result.report.events) {  // before the memory loses its names
      const auto* source = reinterpret_cast<const void*>(event.source);  // NOLINT: it is only named
      result.sources.push_back(source == nullptr ? "" : simt::describe_address(source));
    }
    copy_back();
    return result;
  }

 private:
  std::unique_ptr<Buffer> allocate(const char* name, size_t bytes, size_t element) override {
    return std::make_unique<EmulatorBuffer>(name, bytes, element);
  }
};

class GpuMemory final : public DeviceMemory {
 public:
  explicit GpuMemory(const Kernel& kernel) {
    if (const std::string why = gpu_problem(*kernel.gpu); !why.empty()) throw InputError(why);
    require_gpu();
  }
  double run(const std::function<void()>& launch, int runs) {
    const double ms = gpu_time_ms(runs, launch);
    copy_back();
    return ms;
  }

 private:
  std::unique_ptr<Buffer> allocate(const char* name, size_t bytes, size_t) override {
    return std::make_unique<GpuTensor>(name, bytes);
  }
};

void take_options(const Kernel& kernel, const KernelRun& run, std::span<int> options) {
  for (size_t i = 0; i < kernel.options.size(); ++i)
    options[i] = i < run.options.size() ? run.options[i] : kernel.options[i].fallback;
}

std::array<int64_t, 4> shape_of_q(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q, s.dim};
}
std::array<int64_t, 4> shape_of_k(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, problem.kv_heads(), s.kv, s.dim};
}
std::array<int64_t, 4> shape_of_lse(const Problem& problem) {
  const Shape& s = problem.shape;
  return {s.batch, s.heads, s.q, 1};
}

// Returns null if the problem has no sinks.
const float* sinks_of(DeviceMemory& memory, const Problem& problem) {
  if (problem.sinks.empty()) return nullptr;
  const std::array<int64_t, 4> shape{1, 1, 1, problem.shape.heads};
  return static_cast<const float*>(memory.input("sinks", Dtype::f32, shape, problem.sinks).data);
}

ForwardArgs forward_arguments(DeviceMemory& memory, const Kernel& kernel, const Problem& problem,
                              std::span<float> o, std::span<float> lse, const KernelRun& run) {
  const std::array<int64_t, 4> q = shape_of_q(problem), kv = shape_of_k(problem);
  const Dtype dtype = problem.dtype;
  ForwardArgs args{.q = memory.input("Q", dtype, q, problem.q, run.by_length),
                   .k = memory.input("K", dtype, kv, problem.k, run.by_length),
                   .v = memory.input("V", dtype, kv, problem.v, run.by_length),
                   .o = {}};
  const std::vector<int64_t>& starts = problem.q_starts;
  if (!starts.empty()) {
    args.q_starts = memory.integers("cu_seqlens_q", starts);
    args.kv_starts = memory.integers("cu_seqlens_k", problem.kv_starts);
    args.sequences = std::ssize(starts) - 1;
    for (size_t n = 1; n < starts.size(); ++n)
      args.longest_q = std::max(args.longest_q, starts[n] - starts[n - 1]);
  }
  args.o = memory.output("O", dtype, q, o, run.by_length);
  if (kernel.forward_workspace) {
    const int64_t bytes = kernel.forward_workspace(problem.shape, problem.kv_heads());
    args.workspace = memory.workspace((bytes + 3) / 4);
  }
  if (!lse.empty()) args.lse = memory.output("LSE", Dtype::f32, shape_of_lse(problem), lse);
  args.softcap = static_cast<float>(problem.softcap);
  args.alibi = problem.alibi;
  args.sinks = sinks_of(memory, problem);
  args.scale = static_cast<float>(problem.scale);
  args.window_left = problem.window_left;
  args.window_right = problem.right();
  args.breaks = run.breaks;
  take_options(kernel, run, args.options);
  check_arguments(kernel, args);
  return args;
}

BackwardArgs backward_arguments(DeviceMemory& memory, const Kernel& kernel, const Problem& problem,
                                const BackwardTensors& tensors, const KernelRun& run) {
  const std::array<int64_t, 4> q = shape_of_q(problem), kv = shape_of_k(problem);
  const bool packed = !problem.q_starts.empty();
  const int64_t sequences = packed ? std::ssize(problem.q_starts) - 1 : 0;
  const Dtype dtype = problem.dtype;
  BackwardArgs args{
      .q = memory.input("Q", dtype, q, problem.q, run.by_length),
      .k = memory.input("K", dtype, kv, problem.k, run.by_length),
      .v = memory.input("V", dtype, kv, problem.v, run.by_length),
      .o = memory.input("O", dtype, q, tensors.o, run.by_length),
      .d_o = memory.input("dO", dtype, q, problem.d_o, run.by_length),
      .lse = memory.input("LSE", Dtype::f32, shape_of_lse(problem), tensors.lse),
      .dq = memory.output("dQ", dtype, q, tensors.dq, run.by_length),
      .dk = memory.output("dK", dtype, kv, tensors.dk, run.by_length),
      .dv = memory.output("dV", dtype, kv, tensors.dv, run.by_length),
      .workspace =
          memory.workspace(backward_workspace(problem.shape, sequences), tensors.workspace),
      .scale = static_cast<float>(problem.scale),
      .causal = problem.causal,
      .window_left = problem.window_left,
      .window_right = problem.window_right,
      .q_starts = packed ? memory.integers("cu_seqlens_q", problem.q_starts) : nullptr,
      .kv_starts = packed ? memory.integers("cu_seqlens_k", problem.kv_starts) : nullptr,
      .sequences = sequences,
      .sinks = sinks_of(memory, problem),
      .breaks = run.breaks};
  if (!tensors.d_sinks.empty()) {
    const std::array<int64_t, 4> heads{1, 1, 1, problem.shape.heads};
    args.d_sinks =
        static_cast<float*>(memory.output("dsinks", Dtype::f32, heads, tensors.d_sinks).data);
  }
  take_options(kernel, run, args.options);
  check_arguments(kernel, args);
  return args;
}

// The keys and values of a decoding step, as its cache holds them before and after it.
struct Cache {
  const Problem& problem;
  const CacheLayout& layout;
  std::vector<int64_t> in_use;  // keys of each sequence, including the new ones
  std::array<int64_t, 4> shape;
  std::vector<float> k_after, v_after;  // after the kernels ran

  Cache(const Problem& problem_, const CacheLayout& layout_)
      : problem(problem_), layout(layout_), in_use(problem_.lengths), shape(shape_of_k(problem_)) {
    if (in_use.empty()) in_use.assign(problem.shape.batch, problem.shape.kv);
    if (layout.page_size > 0)
      shape = {layout.pages, problem.kv_heads(), layout.page_size, problem.shape.dim};
  }

  // Calls work(row of [batch, kv_heads, kv, dim], key, batch_head) for every key in use.
  template <class Work>
  void for_keys(const std::vector<float>& from, Work work) const {
    const int64_t dim = problem.shape.dim, heads = problem.kv_heads();
    for (int64_t n = 0; n < problem.shape.batch * heads; ++n)
      for (int64_t key = 0; key < in_use[n / heads]; ++key)
        work(from.data() + (n * problem.shape.kv + key) * dim, key, n);
  }

  // Returns the cache without the last `appended` keys of each sequence.
  std::vector<float> values(const std::vector<float>& from, int64_t appended) const {
    const int64_t dim = problem.shape.dim, heads = problem.kv_heads();
    std::vector<float> to(shape[0] * shape[1] * shape[2] * shape[3],
                          std::numeric_limits<float>::quiet_NaN());
    for_keys(from, [&](const float* row, int64_t key, int64_t n) {
      if (key >= in_use[n / heads] - appended) return;
      int64_t at = n * problem.shape.kv + key;
      if (layout.page_size > 0) {
        const int64_t page = layout.table[n / heads * layout.columns + key / layout.page_size];
        at = (page * heads + n % heads) * layout.page_size + key % layout.page_size;
      }
      std::copy(row, row + dim, to.begin() + at * dim);
    });
    return to;
  }
  std::vector<float> newest(const std::vector<float>& from) const {
    const int64_t heads = problem.kv_heads();
    std::vector<float> to;
    for_keys(from, [&](const float* row, int64_t key, int64_t n) {
      if (key >= in_use[n / heads] - layout.appended)
        to.insert(to.end(), row, row + problem.shape.dim);
    });
    return to;
  }

  // Returns the number of wrong values in the cache after a run. Compares bits, because places
  // without a key must still hold the same NaN.
  int64_t misplaced() const {
    if (layout.appended == 0) return 0;
    int64_t wrong = 0;
    const auto count = [&](const std::vector<float>& from, const std::vector<float>& got) {
      const std::vector<float> expected = values(from, 0);
      for (size_t i = 0; i < got.size(); ++i)
        wrong += !(got[i] == expected[i]) && !(std::isnan(got[i]) && std::isnan(expected[i]));
    };
    count(problem.k, k_after);
    count(problem.v, v_after);
    return wrong;
  }
};

DecodeArgs decode_arguments(DeviceMemory& memory, const Kernel& kernel, Cache& cache,
                            const DecodeSplits& splits, const DecodeTensors& tensors,
                            const KernelRun& run) {
  const Problem& problem = cache.problem;
  const CacheLayout& layout = cache.layout;
  const Shape& s = problem.shape;
  const std::array<int64_t, 4> q = shape_of_q(problem);
  const std::array<int64_t, 4> fresh{s.batch, problem.kv_heads(), layout.appended, s.dim};
  const Dtype dtype = problem.dtype;
  const std::vector<float> k = cache.values(problem.k, layout.appended),
                           v = cache.values(problem.v, layout.appended);
  DecodeArgs args{.q = memory.input("Q", dtype, q, problem.q, run.by_length),
                  .o = {},
                  .k = memory.input("K", dtype, cache.shape, k, run.by_length),
                  .v = memory.input("V", dtype, cache.shape, v, run.by_length)};
  if (layout.appended > 0) {
    args.k_new = memory.input("new K", dtype, fresh, cache.newest(problem.k), run.by_length);
    args.v_new = memory.input("new V", dtype, fresh, cache.newest(problem.v), run.by_length);
    cache.k_after.resize(k.size());
    cache.v_after.resize(v.size());
    memory.copy_back_to(args.k, cache.k_after);
    memory.copy_back_to(args.v, cache.v_after);
  }
  std::vector<int64_t> old = cache.in_use;
  for (int64_t& length : old) length -= layout.appended;
  args.lengths = memory.integers("lengths", old);
  if (layout.page_size > 0) {
    args.table = memory.integers("table", {layout.table.begin(), layout.table.end()});
  }
  args.o = memory.output("O", dtype, q, tensors.o, run.by_length);
  if (const int64_t floats = decode_workspace(s.rows(), s.dim, splits); floats > 0) {
    args.workspace = memory.workspace(floats);
  }
  if (!tensors.lse.empty()) {
    args.lse = memory.output("LSE", Dtype::f32, shape_of_lse(problem), tensors.lse);
  }
  args.table_columns = layout.columns;
  args.longest = *std::max_element(old.begin(), old.end());
  args.scale = static_cast<float>(problem.scale);
  args.causal = problem.causal;
  args.prefix = layout.prefix;
  args.splits = splits;
  args.sinks = sinks_of(memory, problem);
  args.tree = memory.words("tree", problem.tree);
  args.breaks = run.breaks;
  check_arguments(kernel, args);
  return args;
}

}  // namespace

TensorRef DeviceMemory::add(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape,
                            bool by_length) {
  const auto elements = static_cast<size_t>(elements_of(shape));
  buffers_.push_back(allocate(name, elements * element_bytes(dtype), element_bytes(dtype)));
  host_.assign(elements * element_bytes(dtype), UNWRITTEN);
  return placed(buffers_.back()->data(), dtype, shape, by_length);
}

TensorRef DeviceMemory::input(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape,
                              std::span<const float> values, bool by_length) {
  const TensorRef tensor = add(name, dtype, shape, by_length);
  store(values, on_host(tensor));
  buffers_.back()->upload(host_.data());
  return tensor;
}

TensorRef DeviceMemory::output(const char* name, Dtype dtype, const std::array<int64_t, 4>& shape,
                               std::span<float> values, bool by_length) {
  const TensorRef tensor = add(name, dtype, shape, by_length);
  buffers_.back()->upload(host_.data());
  copy_back_to(tensor, values);
  return tensor;
}

float* DeviceMemory::workspace(int64_t floats, std::vector<float>* after) {
  const TensorRef tensor = add("workspace", Dtype::f32, {1, 1, 1, floats}, false);
  buffers_.back()->upload(host_.data());
  if (after) {
    after->resize(floats);
    copy_back_to(tensor, *after);
  }
  return static_cast<float*>(tensor.data);
}

const int* DeviceMemory::integers(const char* name, const std::vector<int64_t>& values) {
  const std::vector<int32_t> narrow(values.begin(), values.end());
  const TensorRef tensor = add(name, Dtype::f32, {1, 1, 1, std::ssize(values)}, false);
  buffers_.back()->upload(narrow.data());
  return static_cast<const int*>(tensor.data);
}

const uint64_t* DeviceMemory::words(const char* name, const std::vector<uint64_t>& values) {
  if (values.empty()) return nullptr;
  const TensorRef tensor = add(name, Dtype::f32, {1, 1, std::ssize(values), 2}, false);
  buffers_.back()->upload(values.data());
  return static_cast<const uint64_t*>(tensor.data);
}

void DeviceMemory::copy_back_to(const TensorRef& tensor, std::span<float> values) {
  results_.push_back({tensor, values});
}

TensorRef DeviceMemory::on_host(TensorRef tensor) {
  tensor.data = host_.data();
  return tensor;
}

void DeviceMemory::copy_back() {
  for (const auto& [tensor, values] : results_) {
    for (const auto& buffer : buffers_) {
      if (buffer->data() != tensor.data) continue;
      host_.resize(values.size() * element_bytes(tensor.dtype));
      buffer->download(host_.data());
      load(on_host(tensor), values);
    }
  }
}

EmulatorRun forward_on_emulator(const Kernel& kernel, const Problem& problem, std::span<float> o,
                                std::span<float> lse, const KernelRun& run,
                                const simt::Config& config) {
  EmulatorMemory memory;
  const ForwardArgs args = forward_arguments(memory, kernel, problem, o, lse, run);
  return memory.run([&] { kernel.emulator->forward(args); }, config);
}

double forward_on_gpu(const Kernel& kernel, const Problem& problem, std::span<float> o,
                      std::span<float> lse, const KernelRun& run, int runs) {
  GpuMemory memory(kernel);
  const ForwardArgs args = forward_arguments(memory, kernel, problem, o, lse, run);
  return memory.run([&] { kernel.gpu->forward(args); }, runs);
}

EmulatorRun backward_on_emulator(const Kernel& kernel, const Problem& problem,
                                 const BackwardTensors& tensors, const KernelRun& run,
                                 const simt::Config& config) {
  EmulatorMemory memory;
  const BackwardArgs args = backward_arguments(memory, kernel, problem, tensors, run);
  return memory.run([&] { kernel.emulator->backward(args); }, config);
}

double backward_on_gpu(const Kernel& kernel, const Problem& problem, const BackwardTensors& tensors,
                       const KernelRun& run, int runs) {
  GpuMemory memory(kernel);
  const BackwardArgs args = backward_arguments(memory, kernel, problem, tensors, run);
  return memory.run([&] { kernel.gpu->backward(args); }, runs);
}

EmulatorRun decode_on_emulator(const Kernel& kernel, const Problem& problem,
                               const CacheLayout& layout, const DecodeSplits& splits,
                               DecodeTensors& tensors, const KernelRun& run,
                               const simt::Config& config) {
  Cache cache(problem, layout);
  EmulatorMemory memory;
  const DecodeArgs args = decode_arguments(memory, kernel, cache, splits, tensors, run);
  EmulatorRun result = memory.run([&] { kernel.emulator->decode(args); }, config);
  tensors.misplaced = cache.misplaced();
  return result;
}

double decode_on_gpu(const Kernel& kernel, const Problem& problem, const CacheLayout& layout,
                     const DecodeSplits& splits, DecodeTensors& tensors, const KernelRun& run,
                     int runs) {
  Cache cache(problem, layout);
  GpuMemory memory(kernel);
  const DecodeArgs args = decode_arguments(memory, kernel, cache, splits, tensors, run);
  const double ms = memory.run([&] { kernel.gpu->decode(args); }, runs);
  tensors.misplaced = cache.misplaced();
  return ms;
}

}  // namespace fa
