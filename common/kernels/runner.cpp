#include "common/kernels/runner.hpp"

#include <algorithm>
#include <bit>
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

// Returns a tensor with its strides: row-major, or the length before the heads if `by_length`.
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

// Memory of one tensor that the emulator treats as global memory.
class EmulatorMemory {
 public:
  EmulatorMemory(const char* name, Dtype dtype, size_t elements)
      : bytes_(elements * element_bytes(dtype)),
        data_(simt::allocate_buffer(bytes_), Free{bytes_}),
        registered_(data_.get(), bytes_, name, element_bytes(dtype)) {
    std::memset(data_.get(), UNWRITTEN, bytes_);
  }
  void* data() const { return data_.get(); }

 private:
  struct Free {
    size_t bytes;
    void operator()(void* p) const { simt::free_buffer(p, bytes); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
  simt::RegisteredBuffer registered_;
};

void take_options(const KernelChapter& chapter, const KernelRun& run, std::span<int> options) {
  for (size_t i = 0; i < chapter.options.size(); ++i)
    options[i] = i < run.options.size() ? run.options[i] : chapter.options[i].otherwise;
}

constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();

// Integers are passed as the bits of fp32 numbers that are only copied.
template <class Integers>
std::vector<float> as_bits(const Integers& numbers) {
  std::vector<float> bits;
  for (const int64_t number : numbers)
    bits.push_back(std::bit_cast<float>(static_cast<int32_t>(number)));
  return bits;
}

// The inputs, outputs and arguments of a forward pass.
struct Forward {
  const KernelChapter& chapter;
  const Problem& problem;
  const KernelRun& run;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<float> q_starts, kv_starts, workspace;

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
      q_starts = as_bits(problem.q_starts);
      kv_starts = as_bits(problem.kv_starts);
      const std::array<int64_t, 4> shape{1, 1, 1, std::ssize(q_starts)};
      inputs.push_back({"cu_seqlens_q", Dtype::f32, shape, q_starts});
      inputs.push_back({"cu_seqlens_k", Dtype::f32, shape, kv_starts});
    }
    outputs = {{"O", dtype, q, o, run.by_length}};
    if (chapter.forward_workspace) {
      workspace.resize((chapter.forward_workspace(s, problem.kv_heads()) + 3) / 4);
      outputs.push_back({"workspace", Dtype::f32, {1, 1, 1, std::ssize(workspace)}, workspace});
    }
    if (!lse.empty()) outputs.push_back({"LSE", Dtype::f32, {s.batch, s.heads, s.q, 1}, lse});
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
    size_t next = inputs.size() + 1;
    if (!workspace.empty()) args.workspace = static_cast<float*>(tensors[next++].data);
    if (next < tensors.size()) args.lse = tensors[next];
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

// The inputs, outputs and arguments of a backward pass.
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
                      .window_left = problem.window_left,
                      .window_right = problem.window_right,
                      .breaks = run.breaks};
    take_options(chapter, run, args.options);
    check_arguments(chapter, args);
    build.backward(args);
  }
};

// The inputs, outputs and arguments of a decoding step.
struct Decode {
  const KernelChapter& chapter;
  const Problem& problem;
  const CacheLayout& cache;
  const KernelRun& run;
  DecodeSplits splits;
  std::vector<int64_t> in_use;            // keys of each sequence, including the new ones
  std::array<int64_t, 4> kv, fresh;       // shapes of the cache and of the new keys
  std::vector<float> k, v, k_new, v_new;  // before the kernels run
  std::vector<float> k_after, v_after;    // after the kernels ran
  std::vector<float> lengths, table, workspace;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  Decode(const KernelChapter& chapter_, const Problem& problem_, const CacheLayout& cache_,
         const DecodeSplits& splits_, const DecodeTensors& tensors, const KernelRun& run_)
      : chapter(chapter_), problem(problem_), cache(cache_), run(run_), splits(splits_) {
    const Shape& s = problem.shape;
    const Dtype dtype = problem.dtype;
    const std::array<int64_t, 4> q{s.batch, s.heads, s.q, s.dim};
    in_use = problem.lengths;
    if (in_use.empty()) in_use.assign(s.batch, s.kv);
    kv = {s.batch, problem.kv_heads(), s.kv, s.dim};
    if (cache.page_size > 0) kv = {cache.pages, problem.kv_heads(), cache.page_size, s.dim};
    fresh = {s.batch, problem.kv_heads(), cache.appended, s.dim};
    k = in_cache(problem.k, cache.appended);
    v = in_cache(problem.v, cache.appended);
    inputs = {{"Q", dtype, q, problem.q, run.by_length},
              {"K", dtype, kv, k, run.by_length},
              {"V", dtype, kv, v, run.by_length}};
    if (cache.appended > 0) {
      k_new = newest(problem.k);
      v_new = newest(problem.v);
      inputs.push_back({"new K", dtype, fresh, k_new, run.by_length});
      inputs.push_back({"new V", dtype, fresh, v_new, run.by_length});
      k_after.resize(k.size());
      v_after.resize(v.size());
      inputs[1].after = k_after;
      inputs[2].after = v_after;
    }
    std::vector<int64_t> old = in_use;
    for (int64_t& length : old) length -= cache.appended;
    lengths = as_bits(old);
    table = as_bits(cache.table);
    add_integers("lengths", lengths);
    if (cache.page_size > 0) add_integers("table", table);
    outputs = {{"O", dtype, q, tensors.o, run.by_length}};
    workspace.resize(decode_workspace(s.rows(), s.dim, splits));
    if (!workspace.empty()) {
      outputs.push_back({"workspace", Dtype::f32, {1, 1, 1, std::ssize(workspace)}, workspace});
    }
    if (!tensors.lse.empty()) {
      outputs.push_back({"LSE", Dtype::f32, {s.batch, s.heads, s.q, 1}, tensors.lse});
    }
  }

  void add_integers(const char* name, const std::vector<float>& bits) {
    inputs.push_back({name, Dtype::f32, {1, 1, 1, std::ssize(bits)}, bits});
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
  std::vector<float> in_cache(const std::vector<float>& from, int64_t appended) const {
    const int64_t dim = problem.shape.dim, heads = problem.kv_heads();
    std::vector<float> to(kv[0] * kv[1] * kv[2] * kv[3], NOTHING);
    for_keys(from, [&](const float* row, int64_t key, int64_t n) {
      if (key >= in_use[n / heads] - appended) return;
      int64_t at = n * problem.shape.kv + key;
      if (cache.page_size > 0) {
        const int64_t page = cache.table[n / heads * cache.columns + key / cache.page_size];
        at = (page * heads + n % heads) * cache.page_size + key % cache.page_size;
      }
      std::copy(row, row + dim, to.begin() + at * dim);
    });
    return to;
  }
  std::vector<float> newest(const std::vector<float>& from) const {
    const int64_t heads = problem.kv_heads();
    std::vector<float> to;
    for_keys(from, [&](const float* row, int64_t key, int64_t n) {
      if (key >= in_use[n / heads] - cache.appended)
        to.insert(to.end(), row, row + problem.shape.dim);
    });
    return to;
  }

  // Returns the number of wrong values in the cache after a run. Compares bits, because places
  // without a key must still hold the same NaN.
  int64_t misplaced() const {
    if (cache.appended == 0) return 0;
    int64_t wrong = 0;
    const auto count = [&](const std::vector<float>& from, const std::vector<float>& got) {
      const std::vector<float> expected = in_cache(from, 0);
      for (size_t i = 0; i < got.size(); ++i)
        wrong += !(got[i] == expected[i]) && !(std::isnan(got[i]) && std::isnan(expected[i]));
    };
    count(problem.k, k_after);
    count(problem.v, v_after);
    return wrong;
  }

  void launch(const KernelBuild& build, std::span<const TensorRef> t) const {
    DecodeArgs args{.q = t[0], .o = t[inputs.size()], .k = t[1], .v = t[2]};
    size_t next = 3;
    if (cache.appended > 0) {
      args.k_new = t[next++];
      args.v_new = t[next++];
    }
    args.lengths = static_cast<const int*>(t[next++].data);
    if (cache.page_size > 0) args.table = static_cast<const int*>(t[next++].data);
    args.table_columns = cache.columns;
    args.longest = *std::max_element(in_use.begin(), in_use.end()) - cache.appended;
    next = inputs.size() + 1;
    if (!workspace.empty()) args.workspace = static_cast<float*>(t[next++].data);
    if (next < t.size()) args.lse = t[next];
    args.scale = static_cast<float>(problem.scale);
    args.causal = problem.causal;
    args.prefix = cache.prefix;
    args.splits = splits;
    args.breaks = run.breaks;
    check_arguments(chapter, args);
    build.decode(args);
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
  for (const simt::Event& event : run.report.events) {  // before the memory loses its names
    const auto* source = reinterpret_cast<const void*>(event.source);  // NOLINT: it is only named
    run.sources.push_back(source == nullptr ? "" : simt::describe_address(source));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].after.empty()) load(tensors[i], inputs[i].after);
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
  // Returns the same tensor in the host's copy of the memory.
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
  const auto back = [&](size_t i, std::span<float> values) {
    host.resize(values.size() * element_bytes(tensors[i].dtype));
    memory[i]->download(host.data());
    load(on_host(tensors[i]), values);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].after.empty()) back(i, inputs[i].after);
  }
  for (size_t i = 0; i < outputs.size(); ++i) back(inputs.size() + i, outputs[i].values);
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
  Backward backward(chapter, problem, tensors, run);
  EmulatorRun result = run_on_emulator(
      backward.inputs, backward.outputs,
      [&](std::span<const TensorRef> t) { backward.launch(*chapter.emulator, t); }, config);
  if (tensors.workspace) *tensors.workspace = std::move(backward.workspace);
  return result;
}

double backward_on_gpu(const KernelChapter& chapter, const Problem& problem,
                       const BackwardTensors& tensors, const KernelRun& run, int runs) {
  if (const std::string why = gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  const Backward backward(chapter, problem, tensors, run);
  return run_on_gpu(
      backward.inputs, backward.outputs,
      [&](std::span<const TensorRef> t) { backward.launch(*chapter.gpu, t); }, runs);
}

EmulatorRun decode_on_emulator(const KernelChapter& chapter, const Problem& problem,
                               const CacheLayout& cache, const DecodeSplits& splits,
                               DecodeTensors& tensors, const KernelRun& run,
                               const simt::Config& config) {
  const Decode decode(chapter, problem, cache, splits, tensors, run);
  EmulatorRun result = run_on_emulator(
      decode.inputs, decode.outputs,
      [&](std::span<const TensorRef> t) { decode.launch(*chapter.emulator, t); }, config);
  tensors.misplaced = decode.misplaced();
  return result;
}

double decode_on_gpu(const KernelChapter& chapter, const Problem& problem, const CacheLayout& cache,
                     const DecodeSplits& splits, DecodeTensors& tensors, const KernelRun& run,
                     int runs) {
  if (const std::string why = gpu_problem(*chapter.gpu); !why.empty()) throw InputError(why);
  const Decode decode(chapter, problem, cache, splits, tensors, run);
  const double ms = run_on_gpu(
      decode.inputs, decode.outputs,
      [&](std::span<const TensorRef> t) { decode.launch(*chapter.gpu, t); }, runs);
  tensors.misplaced = decode.misplaced();
  return ms;
}

}  // namespace fa
