#include "cpu_backward.hpp"

#include <memory>
#include <new>
#include <string>

#include "common/error.hpp"
#include "common/memory.hpp"
#include "common/parallel.hpp"
#include "cpu_naive.hpp"

namespace fa::ch10 {

const std::vector<AlgorithmName> kAlgorithms = {{Algorithm::naive, "naive", {64, 64}},
                                                {Algorithm::rows, "rows", {1, 1}},
                                                {Algorithm::columns, "columns", {1, 1}},
                                                {Algorithm::tiled, "tiled", {64, 64}}};

const AlgorithmName& named(Algorithm algorithm) {
  return kAlgorithms[static_cast<size_t>(algorithm)];
}

namespace {

int thread_count(const Options& options, int64_t kv_heads) {
  const int threads = options.threads > 0 ? options.threads : hardware_threads();
  return static_cast<int>(std::min<int64_t>(threads, kv_heads));
}

// Returns the bytes of the forward pass, for O, LSE and D.
int64_t forward_bytes(const Problem& problem, int64_t element_bytes) {
  return problem.shape.q_elements() * element_bytes +
         2 * problem.shape.rows() * static_cast<int64_t>(sizeof(float));
}

int64_t needed_bytes(const Problem& problem, const Options& options) {
  const int64_t element_bytes = problem.dtype == Dtype::f32 ? 4 : 2;
  const int threads = thread_count(options, problem.shape.batch * problem.kv_heads());
  const bool matrices = options.algorithm == Algorithm::naive;
  return forward_bytes(problem, element_bytes) +
         threads * FastMemory<float>::bytes(options.tiling, problem.shape.dim) +
         (matrices ? Naive<float>::matrix_bytes(problem.shape) : 0);
}

std::string needs(const Problem& problem, const Options& options) {
  return std::string(named(options.algorithm).name) + " needs " +
         format_bytes(static_cast<double>(needed_bytes(problem, options))) +
         " besides inputs and outputs";
}

template <class T, class Breaks>
Traffic run(const Tensors<T>& tensors, const Options& options, Breaks breaks) {
  const int64_t kv_heads = tensors.kv_heads();
  const int threads = thread_count(options, kv_heads);
  std::vector<FastMemory<T>> fast;
  for (int i = 0; i < threads; ++i) fast.emplace_back(options.tiling, tensors.shape.dim);
  const bool naive = options.algorithm == Algorithm::naive;
  const auto matrices = naive ? std::make_unique<Naive<T>>(tensors) : nullptr;
  parallel_for(tensors.shape.batch * tensors.shape.heads, threads,
               [&](int64_t head, int thread) { forward(tensors, head, fast[thread]); });
  parallel_for(kv_heads, threads, [&](int64_t kv_head, int thread) {
    if (naive) return matrices->run(kv_head, options.tiling, fast[thread]);
    fast[thread].traffic.traced = options.trace && kv_head == 0;
    Schedule schedule(tensors, options.tiling, options.d_from, breaks, fast[thread]);
    options.algorithm == Algorithm::rows ? schedule.rows(kv_head) : schedule.columns(kv_head);
  });
  Traffic traffic;
  for (const FastMemory<T>& one : fast) traffic += one.traffic;
  return traffic;
}

template <class T>
void differentiate_as(const Problem& problem, const Options& options, std::span<float> dQ,
                      std::span<float> dK, std::span<float> dV, int64_t limit, Report& report) {
  const auto convert = [](const std::vector<float>& from) {
    std::vector<T> to(from.size());
    std::transform(from.begin(), from.end(), to.begin(), from_float<T>);
    return to;
  };
  const std::vector<T> Q = convert(problem.q), K = convert(problem.k), V = convert(problem.v),
                       dO = convert(problem.d_o);
  const MemoryProbe probe(limit);
  counted_vector<T> O(problem.shape.q_elements());
  counted_vector<float> LSE(problem.shape.rows()), D(problem.shape.rows());
  report.traffic =
      differentiate(Tensors<T>{problem.shape, problem.group, static_cast<float>(problem.scale),
                               problem.causal, Q.data(), K.data(), V.data(), dO.data(), O.data(),
                               LSE.data(), D.data(), dQ.data(), dK.data(), dV.data()},
                    options);
  report.peak_bytes = probe.peak_bytes();
}

}  // namespace

template <class T>
Traffic differentiate(const Tensors<T>& tensors, const Options& options) {
  return options.breaks == 0 ? run(tensors, options, Intact{})
                             : run(tensors, options, Broken{options.breaks});
}

template Traffic differentiate(const Tensors<double>&, const Options&);

void validate(const Problem& problem, const Options& options) {
  const std::string algorithm = std::string("--algorithm ") + named(options.algorithm).name;
  const Shape& shape = problem.shape;
  if (shape.dim > kLargestDim) {
    throw InputError("D = " + std::to_string(shape.dim) + ": this chapter takes 1 to " +
                     std::to_string(kLargestDim));
  }
  if (problem.window_left >= 0 || problem.window_right >= 0 || !problem.q_starts.empty() ||
      problem.softcap > 0 || problem.alibi || problem.modify_score) {
    throw InputError(algorithm + " takes no mask but causal, and no softcap or ALiBi");
  }
  if (options.algorithm == Algorithm::naive) {
    if (options.breaks != 0) {
      throw InputError(algorithm + " has no breaks: they are in rows, columns and tiled");
    }
    if (options.trace) {
      throw InputError(algorithm + " has no schedule: --trace goes with rows, columns and tiled");
    }
  }
  if (options.algorithm == Algorithm::rows && (options.breaks & BF16_DQ)) {
    throw InputError(algorithm + " adds dQ up in fast memory: bf16-dq is in columns and tiled");
  }
  const auto [block_q, block_kv] = options.tiling;
  const int64_t steps = problem.group * tiles_in(shape.q, block_q) * tiles_in(shape.kv, block_kv);
  if (options.trace && steps > kLongestTrace) {
    throw InputError("--trace: " + std::to_string(steps) + " pairs of tiles; at most " +
                     std::to_string(kLongestTrace) + " are listed");
  }
  validate_tiling(options.tiling, shape.dim);
}

void validate_tiling(Tiling tiling, int64_t dim) {
  const int64_t bytes = FastMemory<float>::bytes(tiling, dim);
  if (bytes > kFastMemoryLimit) {
    throw InputError("--block-q " + std::to_string(tiling.block_q) + " --block-kv " +
                     std::to_string(tiling.block_kv) + " at D = " + std::to_string(dim) +
                     ": the tiles need " + format_bytes(static_cast<double>(bytes)) + ", at most " +
                     format_bytes(static_cast<double>(kFastMemoryLimit)) + " are accepted");
  }
}

Report differentiate(const Problem& problem, const Options& options, std::span<float> dQ,
                     std::span<float> dK, std::span<float> dV) {
  Report report;
  const auto as = [&]<class T>(T) {
    differentiate_as<T>(problem, options, dQ, dK, dV, options.memory_limit, report);
  };
  try {
    switch (problem.dtype) {
      case Dtype::f32:
        as(float());
        break;
      case Dtype::f16:
        as(fp16());
        break;
      case Dtype::bf16:
        as(bf16());
        break;
    }
  } catch (const MemoryLimitExceeded&) {
    throw InputError("--memory-limit: " + needs(problem, options) + ", the limit is " +
                     format_bytes(static_cast<double>(options.memory_limit)));
  } catch (const std::bad_alloc&) {
    throw InputError(needs(problem, options) + ": more than this machine gives");
  }
  return report;
}

}  // namespace fa::ch10
