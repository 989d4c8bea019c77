#include "cache_attention.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "chapters/11_decoding/chapter.hpp"
#include "chapters/11_decoding/cpu_decode.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/device_array.hpp"
#include "common/kernels/runner.hpp"

namespace fa::ch24 {
namespace {

using ::ch11::KERNEL;
using ch20::Matrix;

constexpr int64_t kCpuSplits = 1, kCpuBlock = 16;

float scale_of(const CacheShape& shape) { return 1 / std::sqrt(static_cast<float>(shape.dim)); }

// Appends the `which`th third of these rows (0: Q, 1: K, 2: V) as [heads, count, dim].
template <class T, class Convert>
void append_heads(std::vector<T>& to, Matrix<const float> QKV, const CacheShape& shape,
                  int64_t which, int64_t first, int64_t count, Convert convert) {
  for (int64_t head = 0; head < shape.heads; ++head)
    for (int64_t row = first; row < first + count; ++row)
      for (int64_t d = 0; d < shape.dim; ++d)
        to.push_back(convert(QKV(row, which * shape.channels() + head * shape.dim + d)));
}

// O of rows [first, first + count) from [heads, count, dim].
template <class T, class Convert>
void store_heads(const T* from, Matrix<float> O, const CacheShape& shape, int64_t first,
                 int64_t count, Convert convert) {
  for (int64_t head = 0; head < shape.heads; ++head)
    for (int64_t row = first; row < first + count; ++row)
      for (int64_t d = 0; d < shape.dim; ++d) O(row, head * shape.dim + d) = convert(*from++);
}

float same(float x) { return x; }
float rounded(float x) { return to_float(to_bf16(x)); }

class CpuAttention : public CacheAttention {
 public:
  explicit CpuAttention(const CacheShape& shape) : shape_(shape) {
    const std::vector<float> pages(shape.pages * shape.page_size * shape.channels(),
                                   std::numeric_limits<float>::quiet_NaN());
    K_.assign(shape.layers, pages);
    V_.assign(shape.layers, pages);
  }

  void attend(int64_t layer, std::span<const Piece> pieces, Matrix<const float> QKV,
              Matrix<float> O) override {
    for (const Piece& piece : pieces) {
      const std::vector<int32_t>& table = piece.sequence->pages;
      const int64_t length = piece.sequence->length, columns = std::ssize(table);
      for (int64_t i = 0; i < piece.count; ++i)
        store(layer, ::ch11::place_of(table, length + i, shape_.page_size),
              QKV.row(piece.first_row + i) + shape_.channels());
      std::vector<float> Q, o(piece.count * shape_.channels()), LSE(shape_.heads * piece.count);
      append_heads(Q, QKV, shape_, 0, piece.first_row, piece.count, same);
      const int32_t keys = static_cast<int32_t>(length + piece.count);
      const ::ch11::Step<float> step{.batch = 1,
                                     .heads = shape_.heads,
                                     .kv_heads = shape_.heads,
                                     .len_q = piece.count,
                                     .dim = shape_.dim,
                                     .pages = shape_.pages,
                                     .page_size = shape_.page_size,
                                     .columns = columns,
                                     .scale = scale_of(shape_),
                                     .Q = Q.data(),
                                     .K_pages = K_[layer].data(),
                                     .V_pages = V_[layer].data(),
                                     .table = table.data(),
                                     .lengths = &keys};
      ::ch11::decode(step, kCpuSplits, kCpuBlock, partials_, o.data(), LSE.data());
      store_heads(o.data(), O, shape_, piece.first_row, piece.count, same);
    }
  }
  std::string device() const override { return "CPU"; }

 private:
  // Stores one token's K and V, which are next to each other in its row of QKV.
  void store(int64_t layer, ::ch11::Place place, const float* kv) {
    for (int64_t head = 0; head < shape_.heads; ++head) {
      const int64_t to =
          ((place.page * shape_.heads + head) * shape_.page_size + place.row) * shape_.dim;
      std::copy_n(kv + head * shape_.dim, shape_.dim, K_[layer].begin() + to);
      std::copy_n(kv + shape_.channels() + head * shape_.dim, shape_.dim, V_[layer].begin() + to);
    }
  }

  const CacheShape shape_;
  std::vector<std::vector<float>> K_, V_;  // per layer: [pages, heads, page_size, dim]
  ::ch11::Partials<float> partials_;
};

class KernelAttention : public CacheAttention {
 public:
  KernelAttention(const CacheShape& shape, bool gpu) : shape_(shape), gpu_(gpu) {
    ::ch11::check_shape({1, shape.heads, 1, shape.context, shape.dim});
    const std::vector<bf16> pages(shape.pages * shape.page_size * shape.channels(),
                                  to_bf16(std::numeric_limits<float>::quiet_NaN()));
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      K_.push_back(std::make_unique<DeviceArray<bf16>>(gpu, pages, "K"));
      V_.push_back(std::make_unique<DeviceArray<bf16>>(gpu, pages, "V"));
    }
  }

  // [anchor: attend]
  // A prompt whose sequence has nothing in the cache goes through chapter 09's kernel, and all
  // other pieces through chapter 11's, those with the same number of new tokens in one call.
  void attend(int64_t layer, std::span<const Piece> pieces, Matrix<const float> QKV,
              Matrix<float> O) override {
    std::map<int64_t, std::vector<Piece>> by_count;
    for (const Piece& piece : pieces) {
      if (piece.sequence->length == 0) {
        prefill(piece, QKV, O);
        decode(layer, {&piece, 1}, 1, QKV, {O.data, 0, O.cols});  // stores K and V
      } else {
        by_count[piece.count].push_back(piece);
      }
    }
    for (const auto& [count, group] : by_count) decode(layer, group, count, QKV, O);
  }
  // [/anchor: attend]

  std::string device() const override { return gpu_ ? gpu_name() : "emulator"; }
  int64_t hazards() const override { return hazards_; }

 private:
  // O of a whole prompt, with causal attention to itself.
  void prefill(const Piece& piece, Matrix<const float> QKV, Matrix<float> O) {
    Problem prompt;
    prompt.shape = {1, shape_.heads, piece.count, piece.count, shape_.dim};
    prompt.dtype = Dtype::bf16;
    prompt.scale = scale_of(shape_);
    prompt.causal = true;
    std::vector<float>* const tensors[] = {&prompt.q, &prompt.k, &prompt.v};
    for (int64_t i = 0; i < 3; ++i)
      append_heads(*tensors[i], QKV, shape_, i, piece.first_row, piece.count, rounded);
    std::vector<float> o(prompt.q.size());
    if (gpu_) {
      forward_on_gpu(::ch09::KERNEL, prompt, o);
    } else {
      hazards_ += std::ssize(forward_on_emulator(::ch09::KERNEL, prompt, o).report.hazards);
    }
    store_heads(o.data(), O, shape_, piece.first_row, piece.count, same);
  }

  // Appends all new tokens of the pieces to the cache, and attends with the last `queries` of each.
  // O without rows is not written.
  void decode(int64_t layer, std::span<const Piece> pieces, int64_t queries,
              Matrix<const float> QKV, Matrix<float> O) {
    const int64_t batch = std::ssize(pieces), count = pieces[0].count;
    std::vector<bf16> q, k, v;
    std::vector<int> lengths, table;
    int64_t longest = 0, columns = 0;
    for (const Piece& piece : pieces)
      columns = std::max<int64_t>(columns, std::ssize(piece.sequence->pages));
    for (const Piece& piece : pieces) {
      const int64_t end = piece.first_row + count;
      append_heads(q, QKV, shape_, 0, end - queries, queries, to_bf16);
      append_heads(k, QKV, shape_, 1, piece.first_row, count, to_bf16);
      append_heads(v, QKV, shape_, 2, piece.first_row, count, to_bf16);
      lengths.push_back(static_cast<int>(piece.sequence->length));
      longest = std::max(longest, piece.sequence->length);
      table.insert(table.end(), piece.sequence->pages.begin(), piece.sequence->pages.end());
      table.resize(std::ssize(lengths) * columns, ::ch11::kNoPage);
    }
    const Shape shape{batch, shape_.heads, queries, longest + count, shape_.dim};
    const DecodeSplits splits =
        ::ch11::choose_splits(shape, shape_.heads, longest + count, 0,
                              gpu_ ? gpu_multiprocessors() : ::ch11::kMultiprocessors);
    DeviceArray<bf16> Q(gpu_, q, "Q"), K_new(gpu_, k, "new K"), V_new(gpu_, v, "new V");
    DeviceArray<bf16> result(gpu_, std::ssize(q), "O");
    DeviceArray<int> device_lengths(gpu_, lengths, "lengths"), device_table(gpu_, table, "table");
    DeviceArray<float> workspace(gpu_, decode_workspace(shape.rows(), shape_.dim, splits) + 1,
                                 "workspace");
    const auto tensor = [&](void* data, int64_t a, int64_t length) {
      const std::array<int64_t, 4> sizes{a, shape_.heads, length, shape_.dim};
      return TensorRef{data, Dtype::bf16, sizes, contiguous_strides(sizes)};
    };
    const DecodeArgs args{.q = tensor(Q.data(), batch, queries),
                          .o = tensor(result.data(), batch, queries),
                          .k = tensor(K_[layer]->data(), shape_.pages, shape_.page_size),
                          .v = tensor(V_[layer]->data(), shape_.pages, shape_.page_size),
                          .k_new = tensor(K_new.data(), batch, count),
                          .v_new = tensor(V_new.data(), batch, count),
                          .lengths = device_lengths.data(),
                          .table = device_table.data(),
                          .table_columns = columns,
                          .longest = longest,
                          .workspace = workspace.data(),
                          .scale = scale_of(shape_),
                          .splits = splits};
    check_arguments(KERNEL, args);
    if (gpu_) {
      KERNEL.gpu->decode(args);
    } else {
      hazards_ += std::ssize(simt::run({}, [&] { KERNEL.emulator->decode(args); }).hazards);
    }
    if (O.rows == 0) return;
    const std::vector<bf16> o = result.values();
    for (int64_t n = 0; n < batch; ++n)
      store_heads(o.data() + n * shape_.channels() * queries, O, shape_,
                  pieces[n].first_row + count - queries, queries,
                  [](bf16 x) { return to_float(x); });
  }

  const CacheShape shape_;
  const bool gpu_;
  std::vector<std::unique_ptr<DeviceArray<bf16>>> K_, V_;  // per layer, as on the CPU
  int64_t hazards_ = 0;
};

}  // namespace

std::unique_ptr<CacheAttention> make_cache_attention(const std::string& device,
                                                     const CacheShape& shape) {
  if (device == "cpu") return std::make_unique<CpuAttention>(shape);
  return std::make_unique<KernelAttention>(shape, device == "gpu");
}

}  // namespace fa::ch24
