#include "common/kernels/runner.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/simt/buffer.hpp"

namespace fa {
namespace {

constexpr int UNWRITTEN = 0xff;  // in every byte: a NaN of each type

size_t element_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

// Where a tensor's elements stand in memory: row-major, or with the length before the heads.
TensorRef placed(void* data, Dtype dtype, const std::array<int64_t, 4>& shape, bool by_length) {
  TensorRef tensor{data, dtype, shape, contiguous_strides(shape)};
  const auto [batch, heads, length, dim] = shape;
  if (by_length) tensor.strides = {length * heads * dim, dim, heads * dim, 1};
  return tensor;
}

// Calls work(row of the row-major values, the row in memory), `dim` elements each.
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

// "Global memory" of the emulator for one tensor.
class EmulatorMemory {
 public:
  EmulatorMemory(const char* name, Dtype dtype, size_t elements)
      : bytes_(elements * element_bytes(dtype)),
        data_(::operator new(bytes_ + 1, std::align_val_t(simt::kBufferAlignment))),
        registered_(data_.get(), bytes_, name, element_bytes(dtype)) {
    std::memset(data_.get(), UNWRITTEN, bytes_);
  }
  void* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* p) const {
      ::operator delete(p, std::align_val_t(simt::kBufferAlignment));
    }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
  simt::RegisteredBuffer registered_;
};

void take_options(const KernelChapter& chapter, const KernelRun& run, int (&options)[2]) {
  for (size_t i = 0; i < chapter.options.size(); ++i)
    options[i] = i < run.options.size() ? run.options[i] : chapter.options[i].otherwise;
}

// What the forward pass reads and fills, and how its arguments are made of them.
struct Forward {
  const KernelChapter& chapter;
  const Problem& problem;
  const KernelRun& run;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<float> q_starts, kv_starts;

  Forward(const KernelChapter& chapter_, const Problem& problem_, std::span<float> o,
          std::span<float> lse, const KernelRun& run_)
      : chapter(chapter_), problem(problem_), run(run_) {
    const Shape& s = problem.shape;
    const Dtype dtype = problem.dtype;
    const std::array<int64_t, 4> q{s.batch, s.heads, s.q, s.dim};
    const std::array<int64_t, 4> kv{s.batch, problem.kv_heads(), s.kv, s.dim};
    inputs = {{"Q", dtype, q, problem.q, run.by_length},
              {"K", dtype, kv, problem.k, run.by_length},
              {"V", dtype, kv, problem.v, run.by_length}};
    if (!problem.q_starts.empty()) {
      add_starts("cu_seqlens_q", problem.q_starts, q_starts);
      add_starts("cu_seqlens_k", problem.kv_starts, kv_starts);
    }
    outputs = {{"O", dtype, q, o, run.by_length}};
    if (!lse.empty()) outputs.push_back({"LSE", Dtype::f32, {s.batch, s.heads, s.q, 1}, lse});
  }

  // Whole numbers travel as the bits of fp32, which nothing on the way computes with.
  void add_starts(const char* name, const std::vector<int64_t>& starts, std::vector<float>& bits) {
    for (const int64_t start : starts)
      bits.push_back(std::bit_cast<float>(static_cast<int>(start)));
    inputs.push_back({name, Dtype::f32, {1, 1, 1, static_cast<int64_t>(bits.size())}, bits});
  }

  void launch(const KernelBuild& build, std::span<const TensorRef> tensors) const {
    ForwardArgs args{
        .q = tensors[0], .k = tensors[1], .v = tensors[2], .o = tensors[inputs.size()]};
    if (!q_starts.empty()) {
      args.q_starts = static_cast<const int*>(tensors[3].data);
      args.kv_starts = static_cast<const int*>(tensors[4].data);
      args.sequences = static_cast<int64_t>(q_starts.size()) - 1;
      for (size_t n = 1; n < problem.q_starts.size(); ++n) {
        args.longest_q = std::max(args.longest_q, problem.q_starts[n] - problem.q_starts[n - 1]);
      }
    }
    if (outputs.size() > 1) args.lse = tensors[inputs.size() + 1];
    args.softcap = static_cast<float>(problem.softcap);
    args.alibi = problem.alibi;
    args.scale = static_cast<float>(problem.scale);
    args.window_left = problem.window_left;
    args.window_right = problem.right();
    args.breaks = run.breaks;
    take_options(chapter, run, args.options);
    check_arguments(chapter, args);
    build.forward(args);
  }
};

// The same of the backward pass.
struct Backward {
  const KernelChapter& chapter;
  const Problem& problem;
  const KernelRun& run;
  std::vector<float> workspace;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  Backward(const KernelChapter& chapter_, const Problem& problem_, const BackwardTensors& tensors,
           const KernelRun& run_)
      : chapter(chapter_),
        problem(problem_),
        run(run_),
        workspace(backward_workspace(problem_.shape)) {
    const Shape& s = problem.shape;
    const Dtype dtype = problem.dtype;
    const std::array<int64_t, 4> q{s.batch, s.heads, s.q, s.dim};
    const std::array<int64_t, 4> kv{s.batch, problem.kv_heads(), s.kv, s.dim};
    const std::array<int64_t, 4> rows{s.batch, s.heads, s.q, 1};
    inputs = {{"Q", dtype, q, problem.q, run.by_length},
              {"K", dtype, kv, problem.k, run.by_length},
              {"V", dtype, kv, problem.v, run.by_length},
              {"O", dtype, q, tensors.o, run.by_length},
              {"dO", dtype, q, problem.more.at(0), run.by_length},
              {"LSE", Dtype::f32, rows, tensors.lse}};
    const auto floats = static_cast<int64_t>(workspace.size());
    outputs = {{"dQ", dtype, q, tensors.dq, run.by_length},
               {"dK", dtype, kv, tensors.dk, run.by_length},
               {"dV", dtype, kv, tensors.dv, run.by_length},
               {"workspace", Dtype::f32, {1, 1, 1, floats}, workspace}};
  }

  void launch(const KernelBuild& build, std::span<const TensorRef> t) const {
    BackwardArgs args{.q = t[0],
                      .k = t[1],
                      .v = t[2],
                      .o = t[3],
                      .d_o = t[4],
                      .lse = t[5],
                      .dq = t[6],
                      .dk = t[7],
                      .dv = t[8],
                      .workspace = static_cast<float*>(t[9].data),
                      .scale = static_cast<float>(problem.scale),
                      .causal = problem.causal,
                      .breaks = run.breaks};
    take_options(chapter, run, args.options);
    check_arguments(chapter, args);
    build.backward(args);
  }
};

}  // namespace

EmulatorRun run_on_emulator(std::span<const Input> inputs, std::span<const Output> outputs,
                            const Launch& launch, const simt::Config& config) {
  std::vector<std::unique_ptr<EmulatorMemory>> memory;
  std::vector<TensorRef> tensors;
  const auto add = [&](const auto& tensor) {
    memory.push_back(
        std::make_unique<EmulatorMemory>(tensor.name, tensor.dtype, tensor.values.size()));
    tensors.push_back(placed(memory.back()->data(), tensor.dtype, tensor.shape, tensor.by_length));
  };
  for (const Input& input : inputs) {
    add(input);
    store(input.values, tensors.back());
  }
  for (const Output& output : outputs) add(output);

  EmulatorRun run;
  run.report = simt::run(config, [&] { launch(tensors); });
  for (const simt::Event& event : run.report.events) {  // while the memory has its names
    const auto* source = reinterpret_cast<const void*>(event.source);  // NOLINT: it is only named
    run.sources.push_back(source == nullptr ? "" : simt::describe_address(source));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    load(tensors[inputs.size() + i], outputs[i].values);
  }
  return run;
}

double run_on_gpu(std::span<const Input> inputs, std::span<const Output> outputs,
                  const Launch& launch, int runs) {
  require_gpu();
  std::vector<std::unique_ptr<GpuBuffer>> memory;
  std::vector<TensorRef> tensors;
  std::vector<unsigned char> host;
  const auto add = [&](const auto& tensor) {
    host.resize(tensor.values.size() * element_bytes(tensor.dtype));
    memory.push_back(std::make_unique<GpuBuffer>(host.size(), tensor.name));
    tensors.push_back(placed(memory.back()->data(), tensor.dtype, tensor.shape, tensor.by_length));
  };
  // The same tensor in the host's copy of it.
  const auto on_host = [&](TensorRef tensor) {
    tensor.data = host.data();
    return tensor;
  };
  for (const Input& input : inputs) {
    add(input);
    store(input.values, on_host(tensors.back()));
    memory.back()->upload(host.data());
  }
  for (const Output& output : outputs) {
    add(output);
    std::fill(host.begin(), host.end(), UNWRITTEN);
    memory.back()->upload(host.data());
  }
  const double ms = gpu_time_ms(runs, [&] { launch(tensors); });
  for (size_t i = 0; i < outputs.size(); ++i) {
    host.resize(outputs[i].values.size() * element_bytes(outputs[i].dtype));
    memory[inputs.size() + i]->download(host.data());
    load(on_host(tensors[inputs.size() + i]), outputs[i].values);
  }
  return ms;
}

EmulatorRun forward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                std::span<float> o, std::span<float> lse, const KernelRun& run,
                                const simt::Config& config) {
  const Forward forward(chapter, problem, o, lse, run);
  return run_on_emulator(
      forward.inputs, forward.outputs,
      [&](std::span<const TensorRef> tensors) { forward.launch(*chapter.emulator, tensors); },
      config);
}

double forward_on_gpu(const KernelChapter& chapter, const Problem& problem, std::span<float> o,
                      std::span<float> lse, const KernelRun& run, int runs) {
  if (const std::string why = gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  const Forward forward(chapter, problem, o, lse, run);
  return run_on_gpu(
      forward.inputs, forward.outputs,
      [&](std::span<const TensorRef> tensors) { forward.launch(*chapter.gpu, tensors); }, runs);
}

EmulatorRun backward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                 const BackwardTensors& tensors, const KernelRun& run,
                                 const simt::Config& config) {
  const Backward backward(chapter, problem, tensors, run);
  return run_on_emulator(
      backward.inputs, backward.outputs,
      [&](std::span<const TensorRef> t) { backward.launch(*chapter.emulator, t); }, config);
}

double backward_on_gpu(const KernelChapter& chapter, const Problem& problem,
                       const BackwardTensors& tensors, const KernelRun& run, int runs) {
  if (const std::string why = gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  const Backward backward(chapter, problem, tensors, run);
  return run_on_gpu(
      backward.inputs, backward.outputs,
      [&](std::span<const TensorRef> t) { backward.launch(*chapter.gpu, t); }, runs);
}

}  // namespace fa
