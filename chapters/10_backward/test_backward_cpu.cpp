// Tests the backward pass on the CPU, that is, gradients against float64 and central differences,
// traffic and memory, and the symptom of each break that the lesson describes.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gradients.hpp"
#include "common/npy.hpp"
#include "cpu_backward.hpp"

using namespace fa::ch10;
using fa::Dtype;
using fa::Problem;
using fa::Shape;

namespace {

struct Result {
  std::vector<float> dQ, dK, dV;
  Report report;
};

Result run(const Problem& problem, const Options& options = {}) {
  const float unwritten = std::nanf("");
  Result result{std::vector<float>(problem.shape.q_elements(), unwritten),
                std::vector<float>(problem.kv_elements(), unwritten),
                std::vector<float>(problem.kv_elements(), unwritten),
                {}};
  result.report = differentiate(problem, options, result.dQ, result.dK, result.dV);
  return result;
}

Problem make(const Shape& shape, Dtype dtype = Dtype::f32, bool causal = false, int64_t group = 1,
             uint64_t seed = 0, double input_scale = 1) {
  Problem problem = fa::random_problem(shape, dtype, seed, input_scale, group);
  problem.causal = causal;
  problem.d_o = fa::random_values(fa::like_q(problem), dtype, seed, 0);
  return problem;
}

Options with(Algorithm algorithm, Tiling tiling = {}, DFrom d_from = DFrom::o) {
  Options options;
  options.algorithm = algorithm;
  options.tiling = tiling;
  options.d_from = d_from;
  return options;
}

Options broken(uint32_t breaks, Tiling tiling = {}) {
  Options options = with(Algorithm::tiled, tiling);
  options.breaks = breaks;
  return options;
}

fa::GradientCheck check(const Problem& problem, const Result& result) {
  return fa::check_gradients(problem, problem.d_o, result.dQ, result.dK, result.dV);
}

void check_agrees(const Problem& problem, const Options& options) {
  CAPTURE(std::string(named(options.algorithm).name));
  CAPTURE(std::string(name(problem.dtype)));
  CAPTURE(to_string(problem.shape));
  CAPTURE(problem.causal);
  CAPTURE(problem.group);
  CAPTURE(options.tiling.block_q);
  CAPTURE(options.tiling.block_kv);
  CAPTURE((options.d_from == DFrom::p));
  const fa::GradientCheck result = check(problem, run(problem, options));
  INFO(fa::describe(result, problem));
  CHECK(result.agrees());
}

int64_t not_finite(const std::vector<float>& values) {
  return std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
}

// A problem in float64, whose inputs can change by less than fp32 resolves.
struct Exact {
  explicit Exact(const Problem& problem)
      : problem(problem),
        Q(problem.q.begin(), problem.q.end()),
        K(problem.k.begin(), problem.k.end()),
        V(problem.v.begin(), problem.v.end()),
        dO(problem.d_o.begin(), problem.d_o.end()),
        O(Q.size()),
        LSE(problem.shape.rows()),
        D(problem.shape.rows()),
        dQ(Q.size()),
        dK(K.size()),
        dV(V.size()) {}

  Tensors<double> tensors() {
    return {problem.shape, problem.group, problem.scale, problem.causal, Q.data(),
            K.data(),      V.data(),      dO.data(),     O.data(),       LSE.data(),
            D.data(),      dQ.data(),     dK.data(),     dV.data()};
  }
  void differentiate(const Options& options) { fa::ch10::differentiate(tensors(), options); }

  // L = Σ dO ∘ O
  double loss() {
    FastMemory<double> fast({1, 1}, problem.shape.dim);
    for (int64_t head = 0; head < problem.shape.batch * problem.shape.heads; ++head) {
      forward(tensors(), head, fast);
    }
    double sum = 0;
    for (size_t i = 0; i < O.size(); ++i) sum += dO[i] * O[i];
    return sum;
  }
  // Returns dL/dA by central differences, where A is Q, K or V.
  std::vector<double> difference(std::vector<double>& A) {
    constexpr double h = 1e-4;
    std::vector<double> result(A.size());
    for (size_t i = 0; i < A.size(); ++i) {
      const double value = A[i];
      A[i] = value + h;
      const double more = loss();
      A[i] = value - h;
      result[i] = (more - loss()) / (2 * h);
      A[i] = value;
    }
    return result;
  }

  const Problem problem;
  std::vector<double> Q, K, V, dO, O, LSE, D, dQ, dK, dV;
};

int64_t moved(const Bytes& bytes, Tensor tensor) { return bytes[static_cast<size_t>(tensor)]; }

}  // namespace

// ---- correct gradients ----

TEST_CASE("float64: every algorithm is the derivative, by central differences") {
  const struct {
    Shape shape;
    bool causal;
    int64_t group;
  } cases[] = {{{1, 1, 3, 3, 3}, false, 1}, {{2, 2, 4, 7, 5}, false, 2},
               {{1, 2, 5, 5, 4}, true, 1},  {{1, 4, 6, 3, 2}, true, 2},  // three rows see no key
               {{1, 3, 3, 6, 4}, true, 3},  {{1, 1, 1, 1, 4}, false, 1},
               {{1, 1, 1, 5, 1}, false, 1}};
  for (const auto& one : cases) {
    Exact exact(make(one.shape, Dtype::f32, one.causal, one.group));
    const std::vector<double> dQ = exact.difference(exact.Q), dK = exact.difference(exact.K),
                              dV = exact.difference(exact.V);
    const fa::Gradients reference = fa::reference_gradients(exact.problem, exact.problem.d_o);
    for (const AlgorithmName& algorithm : kAlgorithms) {
      for (const DFrom d_from : {DFrom::o, DFrom::p}) {
        CAPTURE(to_string(one.shape));
        CAPTURE(std::string(algorithm.name));
        std::fill(exact.dQ.begin(), exact.dQ.end(), std::nan(""));
        exact.differentiate(with(algorithm.algorithm, {2, 3}, d_from));
        CHECK(fa::largest_difference(exact.dQ, dQ) < 1e-7);
        CHECK(fa::largest_difference(exact.dK, dK) < 1e-7);
        CHECK(fa::largest_difference(exact.dV, dV) < 1e-7);
        CHECK(fa::largest_difference(exact.dQ, reference.dq) < 1e-13);
        CHECK(fa::largest_difference(exact.dK, reference.dk) < 1e-13);
        CHECK(fa::largest_difference(exact.dV, reference.dv) < 1e-13);
      }
    }
  }
}

TEST_CASE("every algorithm, type, mask and group on random ragged shapes") {
  std::mt19937_64 random(1);
  const auto between = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % (most - least + 1));
  };
  for (const AlgorithmName& one : kAlgorithms) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      for (const bool causal : {false, true}) {
        for (int round = 0; round < 4; ++round) {
          const int64_t group = between(1, 3);
          const Shape shape{between(1, 2), group * between(1, 2), between(1, 90), between(1, 90),
                            between(1, 80)};
          const DFrom d_from = round % 2 == 0 ? DFrom::o : DFrom::p;
          check_agrees(make(shape, dtype, causal, group, random()),
                       with(one.algorithm, {between(1, 40), between(1, 40)}, d_from));
        }
      }
    }
  }
}

TEST_CASE("smallest and edge shapes, fp32") {
  for (const AlgorithmName& one : kAlgorithms) {
    for (const bool causal : {false, true}) {
      for (const Shape& shape :
           {Shape{1, 1, 1, 1, 1}, Shape{1, 1, 1, 200, 3}, Shape{2, 1, 65, 1, 2},
            Shape{1, 1, 64, 64, 256}, Shape{1, 1, 129, 63, 1}, Shape{1, 1, 2, 2, 64}}) {
        check_agrees(make(shape, Dtype::f32, causal), with(one.algorithm));
        check_agrees(make(shape, Dtype::f32, causal), with(one.algorithm, one.tiling));
      }
    }
  }
}

TEST_CASE("golden cases of reference/make_cases.py: NumPy's gradients") {
  const std::string golden = FA_BINARY_DIR "/golden/";
  std::set<std::string> names;
  for (const auto& entry : nlohmann::json::parse(fa::read_file(golden + "backward.json"))) {
    names.insert(entry["case"].get<std::string>());
  }
  int taken = 0;
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::string path = golden + "backward/" + name + "/";
    const auto about = nlohmann::json::parse(fa::read_file(path + "case.json"));
    if (about.contains("softcap") || name == "bf16_too_sharp") continue;
    ++taken;
    const auto& sizes = about["shape"];
    Problem problem;
    problem.shape = {sizes["batch"], sizes["heads"], sizes["q"], sizes["kv"], sizes["dim"]};
    problem.group = problem.shape.heads / about.value("kv_heads", problem.shape.heads);
    problem.causal = about["causal"];
    problem.scale = about["scale"];
    const std::string dtype = about["dtype"];
    problem.dtype = dtype == "f16" ? Dtype::f16 : dtype == "bf16" ? Dtype::bf16 : Dtype::f32;
    problem.q = fa::read_npy(path + "q.npy").floats();
    problem.k = fa::read_npy(path + "k.npy").floats();
    problem.v = fa::read_npy(path + "v.npy").floats();
    problem.d_o = fa::read_npy(path + "do.npy").floats();
    Exact exact(problem);
    for (const AlgorithmName& one : kAlgorithms) {
      CAPTURE(std::string(one.name));
      exact.differentiate(with(one.algorithm, {16, 8}));
      const std::pair<const char*, const std::vector<double>&> all[] = {
          {"dq.npy", exact.dQ}, {"dk.npy", exact.dK}, {"dv.npy", exact.dV}};
      for (const auto& [file, got] : all) {
        const std::vector<double> expected = fa::read_npy(path + file).doubles();
        double largest = 1;
        for (const double value : expected) largest = std::max(largest, std::abs(value));
        CHECK(fa::largest_difference(got, expected) <= 1e-12 * largest);
      }
      check_agrees(problem, with(one.algorithm, {16, 8}));
    }
  }
  CHECK(taken >= 8);
}

TEST_CASE("one key: P is 1 and dQ = dK = 0, but for rounding") {
  for (const AlgorithmName& one : kAlgorithms) {
    const Result result = run(make({1, 1, 9, 1, 16}), with(one.algorithm));
    CHECK(fa::largest_difference(result.dQ, std::vector<float>(9 * 16)) < 1e-5);
    CHECK(fa::largest_difference(result.dK, std::vector<float>(16)) < 1e-5);
  }
}

TEST_CASE("rows that see no key: dQ is 0, exactly, and dK and dV do without them") {
  Problem tall = make({1, 2, 12, 5, 8}, Dtype::f32, true, 2);  // the first seven queries see no key
  Problem seen = tall;                                         // the last five queries alone
  seen.shape.q = 5;
  for (auto* tensor : {&seen.q, &seen.d_o}) {
    std::vector<float> kept;
    for (int64_t head = 0; head < 2; ++head) {
      const auto begin = tensor->begin() + (head * 12 + 7) * 8;
      kept.insert(kept.end(), begin, begin + 5 * 8);
    }
    *tensor = kept;
  }
  for (const AlgorithmName& one : kAlgorithms) {
    for (const DFrom d_from : {DFrom::o, DFrom::p}) {
      CAPTURE(std::string(one.name));
      const Result all = run(tall, with(one.algorithm, {1, 2}, d_from));
      const Result some = run(seen, with(one.algorithm, {1, 2}, d_from));
      for (int64_t i = 0; i < 7 * 8; ++i) {
        CHECK(all.dQ[i] == 0);
        CHECK(all.dQ[12 * 8 + i] == 0);
      }
      CHECK(all.dK == some.dK);
      CHECK(all.dV == some.dV);
    }
  }
}

TEST_CASE("scale: given, zero, negative; sharp scores") {
  for (const AlgorithmName& one : kAlgorithms) {
    for (const double scale : {0.3, 0.0, -0.4}) {
      Problem problem = make({1, 2, 40, 30, 24}, Dtype::f32, true);
      problem.scale = scale;
      check_agrees(problem, with(one.algorithm, {16, 16}));
    }
    check_agrees(make({1, 2, 40, 50, 64}, Dtype::f32, false, 1, 3, 30),
                 with(one.algorithm, {16, 16}));
  }
}

TEST_CASE("neither the number of threads nor that of other heads changes a bit") {
  const Problem problem = make({1, 6, 50, 40, 16}, Dtype::bf16, true, 2);
  for (const AlgorithmName& one : kAlgorithms) {
    Options single = with(one.algorithm, {16, 8}), several = single;
    single.threads = 1;
    several.threads = 3;
    const Result a = run(problem, single), b = run(problem, several);
    CAPTURE(std::string(one.name));
    CHECK(a.dQ == b.dQ);
    CHECK(a.dK == b.dK);
    CHECK(a.dV == b.dV);
    CHECK(a.report.traffic.read == b.report.traffic.read);
    CHECK(a.report.traffic.written == b.report.traffic.written);
  }
}

TEST_CASE("tiled is columns with larger tiles") {
  const Problem problem = make({1, 2, 50, 40, 16}, Dtype::bf16, true);
  CHECK(run(problem, with(Algorithm::tiled, {16, 8})).dQ ==
        run(problem, with(Algorithm::columns, {16, 8})).dQ);
}

// ---- traffic and memory ----

TEST_CASE("traffic: closed formulas, without a mask") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    constexpr int64_t heads = 4, group = 2, lq = 100, lkv = 70, dim = 16;
    constexpr Tiling tiling{32, 20};
    const Problem problem = make({1, heads, lq, lkv, dim}, dtype, false, group);
    const int64_t T = dtype == Dtype::f32 ? 4 : 2, R = 4;  // bytes of an element, and of a sum
    const int64_t Q = heads * lq * dim, K = heads / group * lkv * dim, row = heads * lq;
    const int64_t q_tiles = 4, kv_tiles = 4;
    const int64_t pairs = heads * q_tiles * kv_tiles;
    const auto traffic = [&](Algorithm algorithm, DFrom d_from) {
      return run(problem, with(algorithm, tiling, d_from)).report.traffic;
    };
    for (const int64_t passes : {1, 2}) {
      const DFrom d_from = passes == 1 ? DFrom::o : DFrom::p;
      const Traffic rows = traffic(Algorithm::rows, d_from);
      CHECK(moved(rows.read, Tensor::Q) == Q * T);
      CHECK(moved(rows.read, Tensor::dO) == Q * T);
      CHECK(moved(rows.read, Tensor::O) == (passes == 1 ? Q * T : 0));
      CHECK(moved(rows.read, Tensor::LSE) == row * R);
      CHECK(moved(rows.read, Tensor::D) == 0);
      for (const Tensor one : {Tensor::K, Tensor::V}) {  // once for each tile of queries
        CHECK(moved(rows.read, one) == passes * q_tiles * group * K * T);
      }
      CHECK(moved(rows.written, Tensor::dQ) == Q * T);
      for (const Tensor one : {Tensor::dK, Tensor::dV}) {  // and as sums, and at the end
        CHECK(moved(rows.read, one) == (q_tiles * group + 1) * K * R);
        CHECK(moved(rows.written, one) == (q_tiles * group + 1) * K * R + K * T);
      }
      CHECK(rows.tiles == pairs);
      CHECK(rows.products == (3 + 2 * passes) * pairs);

      const Traffic columns = traffic(Algorithm::columns, d_from);
      const int64_t once = passes == 1 ? 1 : 0;  // for D
      CHECK(moved(columns.read, Tensor::Q) == passes * kv_tiles * Q * T);
      CHECK(moved(columns.read, Tensor::dO) == (passes * kv_tiles + once) * Q * T);
      CHECK(moved(columns.read, Tensor::O) == once * Q * T);
      CHECK(moved(columns.read, Tensor::LSE) == passes * kv_tiles * row * R);
      CHECK(moved(columns.read, Tensor::D) == passes * kv_tiles * row * R);
      CHECK(moved(columns.written, Tensor::D) == (1 + (passes - 1) * kv_tiles) * row * R);
      for (const Tensor one : {Tensor::K, Tensor::V})
        CHECK(moved(columns.read, one) == passes * K * T);
      CHECK(moved(columns.read, Tensor::dQ) == (kv_tiles + 1) * Q * R);
      CHECK(moved(columns.written, Tensor::dQ) == (kv_tiles + 1) * Q * R + Q * T);
      for (const Tensor one : {Tensor::dK, Tensor::dV}) {
        CHECK(moved(columns.read, one) == 0);
        CHECK(moved(columns.written, one) == K * T);
      }
      CHECK(columns.products == (3 + 2 * passes) * pairs);
    }
    const Traffic naive = traffic(Algorithm::naive, DFrom::o);
    const int64_t matrix = heads * lq * lkv * R;
    CHECK(moved(naive.read, Tensor::S) == matrix);
    CHECK(moved(naive.read, Tensor::P) == 2 * matrix);
    CHECK(moved(naive.read, Tensor::dP) == matrix);
    CHECK(moved(naive.read, Tensor::dS) == 2 * matrix);
    for (const Tensor one : {Tensor::S, Tensor::P, Tensor::dP, Tensor::dS}) {
      CHECK(moved(naive.written, one) == matrix);
    }
    CHECK(moved(naive.read, Tensor::Q) == (1 + kv_tiles) * Q * T);
    CHECK(moved(naive.read, Tensor::dO) == (1 + kv_tiles) * Q * T);
    CHECK(moved(naive.read, Tensor::K) == 2 * q_tiles * group * K * T);
    CHECK(moved(naive.read, Tensor::V) == q_tiles * group * K * T);
    CHECK(moved(naive.written, Tensor::dK) == K * T);
    CHECK(naive.products == 5 * pairs);
  }
}

TEST_CASE("traffic: a causal mask skips the tiles that it hides") {
  constexpr int64_t n = 8, length = 16 * n;  // tiles in a row, of 16
  const Problem problem = make({1, 1, length, length, 8}, Dtype::f32, true);
  for (const Algorithm algorithm : {Algorithm::rows, Algorithm::columns}) {
    const Traffic traffic = run(problem, with(algorithm, {16, 16})).report.traffic;
    CHECK(traffic.tiles == n * (n + 1) / 2);
    CHECK(traffic.tiles_skipped == n * (n - 1) / 2);
  }
  const Traffic rows = run(problem, with(Algorithm::rows, {16, 16})).report.traffic;
  CHECK(moved(rows.read, Tensor::K) == n * (n + 1) / 2 * 16 * 8 * 4);
  const Traffic columns = run(problem, with(Algorithm::columns, {16, 16})).report.traffic;
  CHECK(moved(columns.read, Tensor::Q) == n * (n + 1) / 2 * 16 * 8 * 4);
}

TEST_CASE("memory: tiles and O, LSE, D; four matrices more for naive") {
  const auto peak = [](Algorithm algorithm, int64_t length) {
    Options options = with(algorithm, {64, 64});
    options.threads = 1;
    return run(make({1, 1, length, length, 64}), options).report.peak_bytes;
  };
  const int64_t tiles = FastMemory<float>::bytes({64, 64}, 64);
  for (const int64_t length : {64, 128, 256, 512}) {
    const int64_t linear = tiles + length * (64 + 2) * 4;
    for (const Algorithm one : {Algorithm::rows, Algorithm::columns, Algorithm::tiled}) {
      CHECK(peak(one, length) == linear);
    }
    CHECK(peak(Algorithm::naive, length) == linear + 4 * length * length * 4);
  }
}

TEST_CASE("memory limit: what is needed is enough, a byte less is a sentence") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const AlgorithmName& one : kAlgorithms) {
      const Problem problem = make({1, 2, 80, 90, 16}, dtype);
      Options options = with(one.algorithm);
      options.memory_limit = run(problem, options).report.peak_bytes;
      CHECK_NOTHROW(run(problem, options));
      --options.memory_limit;
      CHECK_THROWS_WITH_AS(run(problem, options), doctest::Contains("besides inputs and outputs"),
                           fa::InputError);
    }
  }
}

TEST_CASE("trace: one inner product and two outer ones, and the other way round") {
  const Problem problem = make({1, 1, 3, 4, 2});
  const auto steps = [&](Algorithm algorithm) {
    Options options = with(algorithm, {1, 1});
    options.trace = true;
    std::vector<Step> result;
    for (const Step& step : run(problem, options).report.traffic.steps) {
      if (std::string(step.phase) == "gradient") result.push_back(step);
    }
    return result;
  };
  const auto has = [](const Bytes& bytes, Tensor tensor) { return moved(bytes, tensor) != 0; };
  const std::vector<Step> rows = steps(Algorithm::rows), columns = steps(Algorithm::columns);
  REQUIRE(rows.size() == 12);
  REQUIRE(columns.size() == 12);
  for (int64_t i = 0; i < 12; ++i) {
    CHECK(rows[i].queries.begin == i / 4);
    CHECK(rows[i].keys.begin == i % 4);
    CHECK(has(rows[i].loads, Tensor::dK));
    CHECK(has(rows[i].stores, Tensor::dV));
    CHECK(has(rows[i].loads, Tensor::Q) == (i % 4 == 0));
    CHECK(has(rows[i].stores, Tensor::dQ) == (i % 4 == 3));  // complete

    CHECK(columns[i].keys.begin == i / 3);
    CHECK(columns[i].queries.begin == i % 3);
    CHECK(has(columns[i].loads, Tensor::dQ));
    CHECK(has(columns[i].stores, Tensor::dQ));
    CHECK(has(columns[i].loads, Tensor::K) == (i % 3 == 0));
    CHECK(has(columns[i].stores, Tensor::dK) == (i % 3 == 2));
    CHECK(has(columns[i].stores, Tensor::dV) == (i % 3 == 2));
  }
}

// ---- breaks ----

TEST_CASE("a break mask without bits gives the intact result, bit for bit") {
  const Problem problem = make({1, 2, 100, 130, 32}, Dtype::bf16, true);
  const Result intact = run(problem), unused = run(problem, broken(1u << 31));
  CHECK(intact.dQ == unused.dQ);
  CHECK(intact.dK == unused.dK);
  CHECK(intact.dV == unused.dV);
}

TEST_CASE("no-d: dQ is off by scale D sum_j P_ij K_j, dV is right; harmless where D is 0") {
  Exact exact(make({1, 1, 20, 30, 8}));
  exact.differentiate(with(Algorithm::tiled));
  const std::vector<double> dQ = exact.dQ, dV = exact.dV;
  exact.differentiate(broken(fa::NO_D));
  CHECK(exact.dV == dV);
  Exact mean(exact.problem);  // its V is K, so its O is Σ_j P_ij K_j
  mean.V = mean.K;
  mean.loss();
  for (int64_t i = 0; i < 20 * 8; ++i) {
    const double error = exact.problem.scale * exact.D[i / 8] * mean.O[i];
    CHECK(exact.dQ[i] - dQ[i] == doctest::Approx(error).epsilon(1e-9));
  }
  const Problem problem = make({1, 1, 64, 64, 32});
  const fa::GradientCheck result = check(problem, run(problem, broken(fa::NO_D)));
  CHECK_FALSE(result.dq.agrees());
  CHECK_FALSE(result.dk.agrees());
  CHECK(result.dv.agrees());
  CHECK(result.dq.values.nonfinite == 0);
  CHECK(result.dq.values.relative_error > 1);  // the error is larger than the gradient

  // V = 1 1 … 1 and Σ dO = 0, so O = 1 and D = 0.
  Problem harmless = make({1, 1, 16, 16, 4});
  std::fill(harmless.v.begin(), harmless.v.end(), 1.0f);
  for (size_t i = 0; i < harmless.d_o.size(); ++i) harmless.d_o[i] = i % 2 == 0 ? 1 : -1;
  CHECK(run(harmless, broken(fa::NO_D)).dQ == run(harmless).dQ);
}

TEST_CASE("no-scale-in-dk: dK is off by 1 / scale and nothing else is; harmless at scale 1") {
  const Problem problem = make({1, 2, 40, 50, 64});
  const Result intact = run(problem), wrong = run(problem, broken(fa::NO_SCALE_IN_DK));
  CHECK(wrong.dQ == intact.dQ);
  CHECK(wrong.dV == intact.dV);
  for (size_t i = 0; i < wrong.dK.size(); ++i) CHECK(wrong.dK[i] == 8 * intact.dK[i]);  // √64
  CHECK_FALSE(check(problem, wrong).passed());
  const Problem one = make({1, 2, 40, 50, 1});
  CHECK(run(one, broken(fa::NO_SCALE_IN_DK)).dK == run(one).dK);
}

TEST_CASE("unmasked-backward: wrong under a causal mask, harmless without one") {
  const Problem causal = make({1, 1, 100, 100, 16}, Dtype::f32, true);
  const fa::GradientCheck result = check(causal, run(causal, broken(fa::UNMASKED_BACKWARD)));
  CHECK_FALSE(result.dq.agrees());
  CHECK_FALSE(result.dk.agrees());
  CHECK_FALSE(result.dv.agrees());
  CHECK(result.dq.values.nonfinite == 0);

  // Also with a partial last tile, where K and V are zero, so that they add zero.
  const Problem plain = make({1, 1, 100, 100, 16});
  const Result intact = run(plain), unmasked = run(plain, broken(fa::UNMASKED_BACKWARD));
  CHECK(unmasked.dQ == intact.dQ);
  CHECK(unmasked.dK == intact.dK);
}

TEST_CASE("unmasked-backward: 0 * Inf is NaN once a row's LSE is below -88.7") {
  for (const float score : {-88.0f, -89.0f}) {  // score of every existing key
    Problem problem = make({1, 1, 1, 3, 1});
    problem.scale = 1;
    problem.q = {1};
    problem.k = {score, score, score};
    const Result intact = run(problem, with(Algorithm::tiled, {1, 4}));
    CHECK(not_finite(intact.dQ) == 0);
    // LSE = score + ln 3. The fourth key of the tile does not exist and has the score 0.
    problem.k = {score - std::log(3.0f), score - std::log(3.0f), score - std::log(3.0f)};
    const Result wrong = run(problem, broken(fa::UNMASKED_BACKWARD, {1, 4}));
    CHECK(std::isnan(wrong.dQ[0]) == (score == -89.0f));  // Inf · (0 of K's tail)
    CHECK(not_finite(wrong.dV) == 0);                     // the tail's own rows are never stored
    CHECK(not_finite(run(problem, broken(fa::UNMASKED_BACKWARD, {1, 3})).dQ) == 0);  // no tail
  }
  // Under a causal mask, a hidden key can have any score, so that dV becomes Inf.
  Problem causal = make({1, 1, 2, 2, 1}, Dtype::f32, true);
  causal.scale = 1;
  causal.q = {1, 1};
  causal.k = {-50, 50};
  const Result wrong = run(causal, broken(fa::UNMASKED_BACKWARD));
  CHECK(not_finite(wrong.dV) == 1);
  CHECK(not_finite(run(causal).dV) == 0);
}

TEST_CASE("lse-of-empty-row: NaN wherever an empty row shares a tile with one that is not") {
  // The 30 empty rows are in the first tile of 64 queries, which then sees all of its keys, the
  // first 64.
  const Problem tall = make({1, 1, 130, 100, 8}, Dtype::f32, true);
  const Result wrong = run(tall, broken(fa::LSE_OF_EMPTY_ROW));
  CHECK(not_finite(wrong.dQ) == 30 * 8);
  CHECK(not_finite(wrong.dK) == 64 * 8);
  CHECK(not_finite(wrong.dV) == 64 * 8);
  CHECK(check(tall, run(tall)).passed());

  // No effect if whole tiles are empty, because those are skipped, or if no row is empty.
  const Result whole = run(tall, broken(fa::LSE_OF_EMPTY_ROW, {30, 64}));
  CHECK(check(tall, whole).passed());
  const Problem wide = make({1, 1, 100, 130, 8}, Dtype::f32, true);
  CHECK(run(wide, broken(fa::LSE_OF_EMPTY_ROW)).dQ == run(wide).dQ);
}

TEST_CASE("bf16-dq: the more key tiles, the worse; harmless with one") {
  const auto compared = [](int64_t keys, int64_t block_kv, uint32_t breaks) {
    const Problem problem = make({1, 1, 64, keys, 64}, Dtype::bf16);
    const fa::GradientCheck result = check(problem, run(problem, broken(breaks, {64, block_kv})));
    CHECK(result.dk.agrees());
    CHECK(result.dv.agrees());
    return result.dq;
  };
  // The terms of dQ have both signs, so its errors grow like a random walk.
  const double exact = compared(2048, 64, 0).values.rms_error;
  const double tiles_32 = compared(2048, 64, fa::BF16_DQ).values.rms_error / exact;
  const double tiles_2048 = compared(2048, 1, fa::BF16_DQ).values.rms_error / exact;
  CAPTURE(tiles_32);
  CAPTURE(tiles_2048);
  CHECK(tiles_32 > 1.05);
  CHECK(tiles_32 < 1.5);  // not detected, because it is within twice plain attention's error
  CHECK(compared(2048, 64, fa::BF16_DQ).agrees());
  CHECK(tiles_2048 > 3);
  CHECK_FALSE(compared(2048, 1, fa::BF16_DQ).agrees());
  CHECK(compared(2048, 1, 0).agrees());

  const Problem problem = make({1, 1, 64, 64, 64}, Dtype::bf16);  // scale 1/8, exact in bf16
  CHECK(run(problem, broken(fa::BF16_DQ)).dQ == run(problem).dQ);
}

TEST_CASE("bf16-dq: terms of one sign, and the sum stands still") {
  // V = K = −1, 1, −1, 1, … and Q = 0, so P = 1/L, O = D = 0, and every key adds 1/L to dQ = 1.
  // When the sum is 256 terms, another term is half a unit in its last place, a tie that rounds to
  // even.
  constexpr int64_t keys = 1 << 14;
  Problem problem = make({1, 1, 1, keys, 1}, Dtype::bf16);
  problem.q = {0};
  problem.d_o = {1};
  for (int64_t j = 0; j < keys; ++j) problem.k[j] = problem.v[j] = j % 2 == 0 ? -1 : 1;
  CHECK(run(problem).dQ[0] == doctest::Approx(1));
  CHECK(run(problem, broken(fa::BF16_DQ, {1, 64})).dQ[0] == doctest::Approx(1));  // 256 tiles
  CHECK(run(problem, broken(fa::BF16_DQ, {1, 1})).dQ[0] == 256.0f / keys);
  CHECK(run(problem, broken(fa::BF16_DQ, {1, 16})).dQ[0] == 256.0f * 16 / keys);
}

// ---- refused arguments ----

TEST_CASE("what is refused is refused with a sentence") {
  const auto says = [](const Problem& problem, const Options& options, const char* words) {
    CHECK_THROWS_WITH_AS(validate(problem, options), doctest::Contains(words), fa::InputError);
  };
  const Problem problem = make({1, 1, 8, 8, 4});
  says(make({1, 1, 2, 2, 257}), {}, "1 to 256");
  Options naive = with(Algorithm::naive);
  naive.breaks = fa::NO_D;
  says(problem, naive, "no breaks");
  naive.breaks = 0;
  naive.trace = true;
  says(problem, naive, "--trace");
  Options rows = with(Algorithm::rows);
  rows.breaks = fa::BF16_DQ;
  says(problem, rows, "bf16-dq");
  says(problem, with(Algorithm::tiled, {1024, 1024}), "--block-q 1024");
  Problem windowed = problem;
  windowed.window_left = 3;
  says(windowed, {}, "no mask but causal");
  Options traced = with(Algorithm::columns, {1, 1});
  traced.trace = true;
  says(make({1, 1, 200, 200, 4}), traced, "at most 16384");
}
