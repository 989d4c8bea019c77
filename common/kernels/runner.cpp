#include "common/kernels/runner.hpp"

#include <algorithm>
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

template <class T>
void round_into(std::span<const float> values, void* memory) {
  std::transform(values.begin(), values.end(), static_cast<T*>(memory), from_float<T>);
}
void store(Dtype dtype, std::span<const float> values, void* memory) {
  if (dtype == Dtype::bf16) return round_into<bf16>(values, memory);
  if (dtype == Dtype::f16) return round_into<fp16>(values, memory);
  round_into<float>(values, memory);
}

template <class T>
void widen_from(const void* memory, std::span<float> values) {
  const T* first = static_cast<const T*>(memory);
  std::transform(first, first + values.size(), values.begin(), [](T x) { return to_float(x); });
}
void load(Dtype dtype, const void* memory, std::span<float> values) {
  if (dtype == Dtype::bf16) return widen_from<bf16>(memory, values);
  if (dtype == Dtype::f16) return widen_from<fp16>(memory, values);
  widen_from<float>(memory, values);
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

TensorRef contiguous(void* data, Dtype dtype, const std::array<int64_t, 4>& shape) {
  return {data, dtype, shape, contiguous_strides(shape)};
}

// What the forward pass reads and fills, and how its arguments are made of them.
struct Forward {
  const KernelChapter& chapter;
  const Problem& problem;
  const ForwardRun& run;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  Forward(const KernelChapter& chapter_, const Problem& problem_, std::span<float> o,
          std::span<float> lse, const ForwardRun& run_)
      : chapter(chapter_), problem(problem_), run(run_) {
    const Shape& s = problem.shape;
    const Dtype dtype = problem.dtype;
    const std::array<int64_t, 4> q{s.batch, s.heads, s.q, s.dim}, kv{s.batch, s.heads, s.kv, s.dim};
    inputs = {{"Q", dtype, q, problem.q}, {"K", dtype, kv, problem.k}, {"V", dtype, kv, problem.v}};
    outputs = {{"O", dtype, q, o}};
    if (!lse.empty()) outputs.push_back({"LSE", Dtype::f32, {s.batch, s.heads, s.q, 1}, lse});
  }

  void launch(const KernelBuild& build, std::span<const TensorRef> tensors) const {
    ForwardArgs args{.q = tensors[0], .k = tensors[1], .v = tensors[2], .o = tensors[3]};
    if (tensors.size() > 4) args.lse = tensors[4];
    args.scale = static_cast<float>(problem.scale);
    if (problem.causal) args.window_right = 0;
    args.breaks = run.breaks;
    for (size_t i = 0; i < chapter.options.size(); ++i) {
      args.options[i] = i < run.options.size() ? run.options[i] : chapter.options[i].otherwise;
    }
    check_arguments(chapter, args);
    build.forward(args);
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
    tensors.push_back(contiguous(memory.back()->data(), tensor.dtype, tensor.shape));
  };
  for (const Input& input : inputs) {
    add(input);
    store(input.dtype, input.values, memory.back()->data());
  }
  for (const Output& output : outputs) add(output);

  EmulatorRun run;
  run.report = simt::run(config, [&] { launch(tensors); });
  for (const simt::Event& event : run.report.events) {  // while the memory has its names
    run.sources.push_back(event.kind == simt::EventKind::kCopyIssue
                              ? simt::describe_address(reinterpret_cast<const void*>(event.source))
                              : "");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    load(outputs[i].dtype, memory[inputs.size() + i]->data(), outputs[i].values);
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
    tensors.push_back(contiguous(memory.back()->data(), tensor.dtype, tensor.shape));
  };
  for (const Input& input : inputs) {
    add(input);
    store(input.dtype, input.values, host.data());
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
    load(outputs[i].dtype, host.data(), outputs[i].values);
  }
  return ms;
}

EmulatorRun forward_on_emulator(const KernelChapter& chapter, const Problem& problem,
                                std::span<float> o, std::span<float> lse, const ForwardRun& run,
                                const simt::Config& config) {
  const Forward forward(chapter, problem, o, lse, run);
  return run_on_emulator(
      forward.inputs, forward.outputs,
      [&](std::span<const TensorRef> tensors) { forward.launch(*chapter.emulator, tensors); },
      config);
}

double forward_on_gpu(const KernelChapter& chapter, const Problem& problem, std::span<float> o,
                      std::span<float> lse, const ForwardRun& run, int runs) {
  if (const std::string why = gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  const Forward forward(chapter, problem, o, lse, run);
  return run_on_gpu(
      forward.inputs, forward.outputs,
      [&](std::span<const TensorRef> tensors) { forward.launch(*chapter.gpu, tensors); }, runs);
}

}  // namespace fa
