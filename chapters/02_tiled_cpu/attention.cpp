#include "attention.hpp"

#include <cmath>

#include "common/error.hpp"
#include "common/parallel.hpp"
#include "fast.hpp"
#include "ladder.hpp"
#include "naive.hpp"

namespace ch02 {

const std::vector<AlgorithmName> kAlgorithms = {
    {Algorithm::native, "native", "e^x divided by its sum; the score matrix is in memory"},
    {Algorithm::safe, "safe", "subtract the row maximum first, in one more pass"},
    {Algorithm::online, "online", "maximum and sum in the same pass"},
    {Algorithm::two_pass, "two-pass", "scores are computed twice and never stored"},
    {Algorithm::one_pass_normalised, "one-pass-normalised", "o is kept finished at every key"},
    {Algorithm::one_pass, "one-pass", "o is divided by l once, at the end"},
    {Algorithm::tiled, "tiled", "the same recurrence, a tile of keys and queries at a time"},
    {Algorithm::fast, "fast", "the same, on vector registers"},
};

const char* name(Algorithm algorithm) {
  for (const AlgorithmName& one : kAlgorithms) {
    if (one.algorithm == algorithm) return one.name;
  }
  return "?";
}

namespace {

int thread_count(const Options& options) {
  return options.threads > 0 ? options.threads : fa::hardware_threads();
}

SoftmaxRung softmax_rung(Algorithm algorithm) {
  if (algorithm == Algorithm::native) return {native_softmax<float>, 2};
  if (algorithm == Algorithm::safe) return {safe_softmax<float>, 3};
  return {online_softmax<float>, 2};
}

// Returns the bytes that `options.algorithm` allocates for `problem`.
int64_t needed_bytes(const fa::Problem& problem, const Options& options) {
  switch (options.algorithm) {
    case Algorithm::native:
    case Algorithm::safe:
    case Algorithm::online:
      return naive_bytes(problem.shape, options.tiling, thread_count(options));
    case Algorithm::tiled:
      return thread_count(options) * FastMemory::bytes(options.tiling, problem.shape.dim);
    case Algorithm::fast:
      return thread_count(options) * fast_scratch_bytes(problem.shape.dim);
    default:
      return 0;
  }
}

// Returns the message for a memory limit that is too low. It has the required bytes, and the
// largest length that would fit.
std::string over_limit(const fa::Problem& problem, const Options& options) {
  const std::string limit = fa::format_bytes(static_cast<double>(options.memory_limit));
  std::string text = std::string("--memory-limit: ") + name(options.algorithm) + " needs " +
                     fa::format_bytes(static_cast<double>(needed_bytes(problem, options))) +
                     " besides inputs and outputs, the limit is " + limit;
  if (options.algorithm > Algorithm::online) return text;
  fa::Problem shorter;
  shorter.shape = problem.shape;
  shorter.dtype = problem.dtype;
  int64_t fits = 0, too_long = std::max(problem.shape.q, problem.shape.kv) + 1;
  while (too_long - fits > 1) {  // bisection, because the bytes grow with the length
    const int64_t middle = (fits + too_long) / 2;
    shorter.shape.q = shorter.shape.kv = middle;
    (needed_bytes(shorter, options) <= options.memory_limit ? fits : too_long) = middle;
  }
  return text + (fits == 0 ? ": too little for any length"
                           : "; the longest Lq = Lkv that fits is " + std::to_string(fits));
}

template <class T, class Breaks>
void tiled_attention(const Tensors<T>& tensors, const Options& options, Breaks breaks,
                     Report& report) {
  const fa::Shape& shape = tensors.shape;
  const int64_t q_tiles = tiles_in(shape.q, options.tiling.block_q);
  const int64_t work = shape.batch * shape.heads * q_tiles;
  const int threads = static_cast<int>(std::min<int64_t>(thread_count(options), work));
  std::vector<FastMemory> fast;
  for (int i = 0; i < threads; ++i) fast.emplace_back(options.tiling, shape.dim);
  std::vector<Counts> counts(threads);
  Trace trace{options.traced_row.value_or(-1), {}};
  fa::parallel_for(work, threads, [&](int64_t index, int thread) {
    const int64_t head = index / q_tiles;
    const Range queries = tile_range(index % q_tiles, options.tiling.block_q, shape.q);
    with_modifier(options.modifier, shape, head % shape.heads, [&](const auto& modifier) {
      attend_tile(tensors, head, queries, options.tiling, modifier, breaks, fast[thread],
                  counts[thread], trace.row >= 0 ? &trace : nullptr);
    });
  });
  for (const Counts& one : counts) report.counts += one;
  report.trace = std::move(trace.steps);
}

// Returns Σ a[d] · b[d], summed in eight partial sums, because with a single sum each addition
// would wait for the previous one.
float dot(const float* a, const float* b, int64_t count) {
  float sums[8] = {};
  int64_t d = 0;
  for (; d + 8 <= count; d += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[d + lane] * b[d + lane];
  }
  for (; d < count; ++d) sums[0] += a[d] * b[d];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Runs the two-pass and one-pass algorithms in fp32, one query at a time.
void attend_by_query(const fa::Problem& problem, const Options& options, std::span<float> o,
                     std::span<float> lse, Report& report) {
  const fa::Shape& shape = problem.shape;
  const float scale = static_cast<float>(problem.scale);
  fa::parallel_for(shape.rows(), thread_count(options), [&](int64_t row, int) {
    const int64_t head = row / shape.q, query = row % shape.q;
    const fa::View<const float> Q = fa::head(problem.q.data(), head, shape.q, shape.dim);
    const fa::View<const float> K = fa::head(problem.k.data(), head, shape.kv, shape.dim);
    const fa::View<const float> V = fa::head(problem.v.data(), head, shape.kv, shape.dim);
    const std::span O_row = o.subspan(row * shape.dim, shape.dim);
    with_modifier(options.modifier, shape, head % shape.heads, [&](const auto& modifier) {
      const auto score = [&](int64_t key) {
        return modifier(scale * dot(Q.row(query), K.row(key), shape.dim), query, key);
      };
      lse[row] = options.algorithm == Algorithm::two_pass   ? two_pass(score, V, O_row)
                 : options.algorithm == Algorithm::one_pass ? one_pass(score, V, O_row)
                                                            : one_pass_normalised(score, V, O_row);
    });
    for (float& value : O_row) value = fa::round_to(problem.dtype, value);
  });
  const int64_t k_reads = options.algorithm == Algorithm::two_pass ? 2 : 1;
  report.counts.bytes_read = shape.rows() * (1 + (k_reads + 1) * shape.kv) * shape.dim * 4;
  report.counts.bytes_written = shape.rows() * (shape.dim + 1) * 4;
}

template <class T>
void attend_in(const Tensors<T>& tensors, const Options& options, Report& report) {
  if (options.algorithm == Algorithm::tiled) {
    return options.breaks == 0 ? tiled_attention(tensors, options, Intact{}, report)
                               : tiled_attention(tensors, options, Broken{options.breaks}, report);
  }
  report.counts = Naive<T>(tensors, options.tiling, options.modifier,
                           softmax_rung(options.algorithm), thread_count(options))
                      .run();
}

// Returns the problem's values as T. They were already rounded to T, so the conversion is exact.
template <class T>
void attend_converted(const fa::Problem& problem, const Options& options, std::span<float> o,
                      std::span<float> lse, Report& report) {
  const auto convert = [](const std::vector<float>& from) {
    std::vector<T> to(from.size());
    for (size_t i = 0; i < to.size(); ++i) to[i] = fa::from_float<T>(from[i]);
    return to;
  };
  const std::vector<T> q = convert(problem.q), k = convert(problem.k), v = convert(problem.v);
  attend_in(Tensors<T>{problem.shape, static_cast<float>(problem.scale), q.data(), k.data(),
                       v.data(), o.data(), lse.data()},
            options, report);
}

void run(const fa::Problem& problem, const Options& options, std::span<float> o,
         std::span<float> lse, Report& report) {
  switch (options.algorithm) {
    case Algorithm::two_pass:
    case Algorithm::one_pass_normalised:
    case Algorithm::one_pass:
      return attend_by_query(problem, options, o, lse, report);
    case Algorithm::fast:
      return fast_attention(problem.q.data(), problem.k.data(), problem.v.data(), o.data(),
                            lse.data(), problem.shape, problem.scale, problem.causal,
                            options.threads);
    default:
      break;
  }
  switch (problem.dtype) {
    case fa::Dtype::f16:
      return attend_converted<fa::fp16>(problem, options, o, lse, report);
    case fa::Dtype::bf16:
      return attend_converted<fa::bf16>(problem, options, o, lse, report);
    case fa::Dtype::f32:
      break;
  }
  attend_in(Tensors<float>{problem.shape, static_cast<float>(problem.scale), problem.q.data(),
                           problem.k.data(), problem.v.data(), o.data(), lse.data()},
            options, report);
}

}  // namespace

void validate(const fa::Problem& problem, const Options& options) {
  const std::string algorithm = std::string("--algorithm ") + name(options.algorithm);
  if (problem.shape.dim > kLargestDim) {
    throw fa::InputError("D = " + std::to_string(problem.shape.dim) + ": this chapter takes 1 to " +
                         std::to_string(kLargestDim));
  }
  if (options.algorithm == Algorithm::fast && problem.dtype != fa::Dtype::f32) {
    throw fa::InputError(algorithm + " takes --dtype f32 only");
  }
  if (options.algorithm == Algorithm::fast && options.modifier.kind != ModifierChoice::kNone) {
    throw fa::InputError(algorithm + " takes no --modifier but causal");
  }
  if (options.algorithm != Algorithm::tiled && options.breaks != 0) {
    throw fa::InputError(algorithm + " has no breaks: they are in tiled");
  }
  if (options.algorithm != Algorithm::tiled && options.traced_row) {
    throw fa::InputError(algorithm + " has no tiles to trace: --trace goes with tiled");
  }
  if (options.traced_row && *options.traced_row >= problem.shape.rows()) {
    throw fa::InputError("--trace-row " + std::to_string(*options.traced_row) + ": there are " +
                         std::to_string(problem.shape.rows()) + " rows, numbered from 0");
  }
  const int64_t bytes = FastMemory::bytes(options.tiling, problem.shape.dim);
  if (bytes > kFastMemoryLimit) {
    throw fa::InputError("--block-q " + std::to_string(options.tiling.block_q) + " --block-kv " +
                         std::to_string(options.tiling.block_kv) +
                         " at D = " + std::to_string(problem.shape.dim) + ": the tiles need " +
                         fa::format_bytes(static_cast<double>(bytes)) + ", at most " +
                         fa::format_bytes(static_cast<double>(kFastMemoryLimit)) + " are accepted");
  }
}

Report attend(const fa::Problem& problem, const Options& chosen, std::span<float> o,
              std::span<float> lse) {
  Options options = chosen;
  options.modifier.causal = problem.causal;
  Report report;
  fa::MemoryProbe probe(options.memory_limit);
  try {
    run(problem, options, o, lse, report);
  } catch (const fa::MemoryLimitExceeded&) {
    throw fa::InputError(over_limit(problem, options));
  } catch (const std::bad_alloc&) {
    throw fa::InputError(std::string(name(options.algorithm)) + " needs " +
                         fa::format_bytes(static_cast<double>(needed_bytes(problem, options))) +
                         ": more than this machine gives");
  }
  report.peak_bytes = probe.peak_bytes();
  return report;
}

void set_reference_modifier(fa::Problem& problem, const ModifierChoice& choice) {
  const fa::Shape shape = problem.shape;
  const double infinity = std::numeric_limits<double>::infinity();
  if (choice.kind == ModifierChoice::kWindow) {
    problem.modify_score = [=](double score, int64_t, int64_t query, int64_t key) {
      const int64_t distance = (query - shape.q) - (key - shape.kv);  // from the ends
      return distance >= 0 && distance < choice.window ? score : -infinity;
    };
  } else if (choice.kind == ModifierChoice::kAlibi) {
    problem.modify_score = [=](double score, int64_t head, int64_t query, int64_t key) {
      const double distance = std::abs(double((query - shape.q) - (key - shape.kv)));
      return score - distance * fa::alibi_slope(head, shape.heads);
    };
  }
}

}  // namespace ch02
