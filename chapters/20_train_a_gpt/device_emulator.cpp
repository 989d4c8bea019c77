// The GPT's kernels on the emulator, for readers without a GPU and for the tests. The matrix
// products are chapter 20's own on the CPU, in fp32 with the same bf16 factors.

#include "common/half.hpp"
#include "common/kernels/geometry.hpp"
#include "common/simt/simt.hpp"
#include "layers.hpp"

namespace emulator::ch20 {

class Products {
 public:
  // Y [rows, out] = X [rows, in] @ W [in, out] + b
  void linear(const bf16* X, const bf16* W, const bf16* b, bf16* Y, int64_t rows, int64_t in,
              int64_t out) const {
    store(product(X, W, floats(b, out).data(), rows, in, out), Y);
  }
  void linear(const bf16* X, const bf16* W, const float* b, float* Y, int64_t rows, int64_t in,
              int64_t out) const {
    const std::vector<float> y = product(X, W, b, rows, in, out);
    std::copy(y.begin(), y.end(), Y);
  }
  // hidden = X @ W + b, Y = gelu(hidden)
  void linear_gelu(const bf16* X, const bf16* W, const bf16* b, bf16* hidden, bf16* Y, int64_t rows,
                   int64_t in, int64_t out) const {
    std::vector<float> y = product(X, W, floats(b, out).data(), rows, in, out);
    store(y, hidden);
    const fa::ch20::Matrix<float> matrix{y.data(), rows, out};
    fa::ch20::gelu(matrix, matrix);
    store(y, Y);
  }
  // dX [rows, in] = dY [rows, out] @ W.T; with `hidden` [rows, in]: times gelu'(hidden)
  void input_gradient(const bf16* dY, const bf16* W, bf16* dX, const bf16* hidden, int64_t rows,
                      int64_t in, int64_t out) const {
    std::vector<float> dy = floats(dY, rows * out), w = floats(W, in * out), dx(rows * in);
    const fa::ch20::Matrix<float> to{dx.data(), rows, in};
    fa::ch20::add_inner<float>(to, {dy.data(), rows, out}, {w.data(), in, out});
    if (hidden != nullptr) {
      std::vector<float> h = floats(hidden, rows * in);
      fa::ch20::gelu_backward<float>({h.data(), rows, in}, to, to);
    }
    store(dx, dX);
  }
  // dW [in, out] = X.T @ dY, db [out] = colsum dY unless it is null
  void weight_gradient(const bf16* X, const bf16* dY, float* dW, float* db, int64_t rows,
                       int64_t in, int64_t out) const {
    std::vector<float> x = floats(X, rows * in), dy = floats(dY, rows * out), dw(in * out);
    fa::ch20::add_outer<float>({dw.data(), in, out}, {x.data(), rows, in}, {dy.data(), rows, out});
    std::copy(dw.begin(), dw.end(), dW);
    if (db == nullptr) return;
    std::fill_n(db, out, 0.0f);
    for (int64_t i = 0; i < rows * out; ++i) db[i % out] += dy[i];
  }

 private:
  static std::vector<float> floats(const bf16* from, int64_t count) {
    std::vector<float> to(count);
    for (int64_t i = 0; i < count; ++i) to[i] = fa::to_float(from[i]);
    return to;
  }
  static void store(std::span<const float> from, bf16* to) {
    for (const float x : from) *to++ = fa::to_bf16(x);
  }
  static std::vector<float> product(const bf16* X, const bf16* W, const float* b, int64_t rows,
                                    int64_t in, int64_t out) {
    std::vector<float> x = floats(X, rows * in), w = floats(W, in * out), y(rows * out);
    fa::ch20::linear<float>({x.data(), rows, in}, {w.data(), in, out}, b, {y.data(), rows, out});
    return y;
  }
};

}  // namespace emulator::ch20

#include "device_model.hpp"

namespace fa::ch20 {
namespace {

// Each call is a run of the emulator.
class OnEmulator final : public DeviceGpt {
 public:
  OnEmulator(const Recipe& recipe, const AttentionKernels& kernels, bool looks)
      : looks_(looks),
        model_(recipe, kernels, *kernels.forward.emulator, *kernels.backward.emulator) {}
  void put(const TrainingState& state) override { model_.put(state); }
  void get(TrainingState& state) const override { model_.get(state); }
  double gradient(const Batch& batch, std::span<float> gradient) override {
    return run([&] { return model_.gradient(batch, gradient); });
  }
  double step(const Batch& batch, int64_t t) override {
    return run([&] { return model_.step(batch, t); });
  }
  int64_t attention_bytes() const override { return model_.attention_bytes(); }

 private:
  template <class Work>
  double run(Work work) const {
    double result = 0;
    simt::Config config{.hazards = looks_, .counters = false};
    const simt::Report report = simt::run(config, [&] { result = work(); });
    if (!report.hazards.empty()) throw std::runtime_error(report.hazards.front().text);
    return result;
  }

  const bool looks_;
  emulator::ch20::Model model_;
};

}  // namespace

std::unique_ptr<DeviceGpt> make_emulator_gpt(const Recipe& recipe, const AttentionKernels& kernels,
                                             bool looks) {
  emulator::ch20::check_recipe(recipe, kernels);
  return std::make_unique<OnEmulator>(recipe, kernels, looks);
}

}  // namespace fa::ch20
