// Compares both implementations of attention with central differences, with each other, and with
// chapter 10.
#include <cmath>

#include "chapters/10_backward/cpu_schedules.hpp"
#include "common/memory.hpp"
#include "heads.hpp"
#include "self_attention.hpp"
#include "test_gradient.hpp"

using namespace fa::ch20;

namespace {

struct Layer {
  AttentionShape shape;
  std::vector<double> qkv, d_o, o, dqkv;

  explicit Layer(const AttentionShape& shape)
      : shape(shape),
        qkv(normal_values(shape.rows() * 3 * shape.channels(), 1)),
        d_o(normal_values(shape.rows() * shape.channels(), 2)),
        o(d_o.size(), NAN),
        dqkv(qkv.size(), NAN) {}

  Matrix<double> QKV() { return {qkv.data(), shape.rows(), 3 * shape.channels()}; }
  Matrix<double> O() { return {o.data(), shape.rows(), shape.channels()}; }
  Matrix<double> dO() { return {d_o.data(), shape.rows(), shape.channels()}; }
  Matrix<double> dQKV() { return {dqkv.data(), shape.rows(), 3 * shape.channels()}; }

  void run(const AttentionChoice& choice) {
    const auto attention = make_attention<double>(choice, shape);
    attention->forward(QKV(), O());
    attention->backward(QKV(), O(), dO(), dQKV());
  }
};

const AttentionChoice kChoices[] = {{"plain"}, {"tiled", 1}, {"tiled", 3}, {"tiled", 16}};

// The rounding of a score of 1000 changes its weight by 1e-13, and the gradient by 30 times that.
void check_equal(const std::vector<double>& a, const std::vector<double>& b,
                 const std::string& what) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!close(a[i], b[i], 1e-10)) FAIL(what << "[" << i << "]: " << a[i] << " and " << b[i]);
  }
}

}  // namespace

TEST_CASE("attention: dQ, dK and dV are those of central differences") {
  for (const AttentionChoice& choice : kChoices) {
    CAPTURE(choice.name);
    CAPTURE(choice.block);
    Layer layer({2, 2, 7, 3});
    layer.run(choice);
    const auto attention = make_attention<double>(choice, layer.shape);
    check_gradient("dQKV", layer.qkv, layer.dqkv, [&] {
      attention->forward(layer.QKV(), layer.O());
      double loss = 0;
      for (size_t i = 0; i < layer.o.size(); ++i) loss += layer.o[i] * layer.d_o[i];
      return loss;
    });
  }
}

TEST_CASE("attention: plain and tiled agree, whatever the tiles, over the scores' range") {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 1, 1}, {1, 2, 16, 8}, {2, 3, 33, 5}, {1, 1, 64, 16}}) {
    for (const double scale : {1.0, 30.0}) {
      Layer plain(shape);
      for (double& x : plain.qkv) x *= scale;
      plain.run({"plain"});
      for (const int64_t block : {1, 2, 5, 16, 64, 1000}) {
        Layer tiled(shape);
        tiled.qkv = plain.qkv;
        tiled.run({"tiled", block});
        check_equal(tiled.o, plain.o, "O");
        check_equal(tiled.dqkv, plain.dqkv, "dQKV");
      }
    }
  }
}

TEST_CASE("attention: one head agrees with chapter 10") {
  Layer layer({1, 1, 37, 6});
  layer.run({"tiled", 16});
  const int64_t n = layer.shape.length, dim = layer.shape.dim;
  const auto part = [&](const std::vector<double>& all, int64_t which) {  // [n, dim]
    std::vector<double> result;
    for (int64_t i = 0; i < n; ++i) {
      const auto first = all.begin() + (i * 3 + which) * dim;
      result.insert(result.end(), first, first + dim);
    }
    return result;
  };
  const std::vector<double> Q = part(layer.qkv, 0), K = part(layer.qkv, 1), V = part(layer.qkv, 2);
  std::vector<double> O(n * dim), LSE(n), D(n), dQ(n * dim), dK(n * dim), dV(n * dim);
  fa::ch10::FastMemory<double> fast({8, 8}, dim);
  const fa::ch10::Tensors<double> tensors{{1, 1, n, n, dim},
                                          1,
                                          1 / std::sqrt(static_cast<double>(dim)),
                                          true,
                                          Q.data(),
                                          K.data(),
                                          V.data(),
                                          layer.d_o.data(),
                                          O.data(),
                                          LSE.data(),
                                          D.data(),
                                          dQ.data(),
                                          dK.data(),
                                          dV.data()};
  fa::ch10::forward(tensors, 0, fast);
  fa::ch10::Schedule(tensors, {8, 8}, fa::ch10::DFrom::o, fa::ch10::Intact{}, fast).columns(0);
  check_equal(layer.o, O, "O");
  check_equal(part(layer.dqkv, 0), dQ, "dQ");
  check_equal(part(layer.dqkv, 1), dK, "dK");
  check_equal(part(layer.dqkv, 2), dV, "dV");
}

TEST_CASE("attention: plain keeps a matrix a head, tiled a number a row") {
  for (const int64_t length : {64, 128, 256}) {
    const AttentionShape shape{1, 2, length, 8};
    const auto bytes = [&](const AttentionChoice& choice) {
      const fa::MemoryProbe probe;
      const auto attention = make_attention<float>(choice, shape);
      return probe.peak_bytes();
    };
    CHECK(bytes({"plain"}) >= 2 * length * length * 4);
    CHECK(bytes({"tiled", 16}) == attention_bytes({"tiled", 16}, shape, 1));
    CHECK(bytes({"tiled", 16}) <= 2 * (2 * length + 2 * 16 * 16) * 4);
    CHECK(bytes({"ch10"}) == (5 * 8 + 1) * 2 * length * 4);
  }
}

TEST_CASE("attention: each break changes what it should") {
  const AttentionShape shape{1, 2, 37, 8};
  Layer intact(shape);
  intact.run({"tiled", 16});
  for (const fa::Break& one : BREAKS) {
    CAPTURE(one.name);
    Layer broken(shape);
    broken.run({"tiled", 16, one.bit});
    const bool forward = one.bit != NO_D && one.bit != NO_SCALE_IN_DK;
    CHECK((broken.o != intact.o) == forward);
    CHECK(broken.dqkv != intact.dqkv);
    for (const double x : broken.dqkv) CHECK(std::isfinite(x));
  }
  CHECK_THROWS_WITH(make_attention<float>({"plain", 16, NO_D}, shape),
                    "--break: accepted with --attention tiled");
  CHECK_THROWS_WITH(make_attention<float>({"best"}, shape),
                    "--attention best: accepted: plain, tiled, ch10, ch16, ch19, ch22");
}
