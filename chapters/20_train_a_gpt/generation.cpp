#include "generation.hpp"

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "layers.hpp"

namespace fa::ch20 {
namespace {

constexpr int64_t kPageSize = 16, kSplits = 2, kBlockKv = 16;

}  // namespace

Decoder::Decoder(const TrainingState& trained)
    : config_(trained.recipe.model),
      dim_(config_.channels / config_.heads),
      weights_(trained.weights),
      layout_(parameters(config_)),
      pool_(ch11::ceil_div(config_.context, kPageSize)),
      table_(pool_, 1, pool_.size(), kPageSize),
      logits_(config_.vocabulary) {
  const std::vector<float> pages(pool_.size() * kPageSize * config_.channels);
  K_pages_.assign(config_.layers, pages);
  V_pages_.assign(config_.layers, pages);
}

std::span<const float> Decoder::next(int32_t token) {
  if (table_.length(0) == config_.context) {
    const std::vector<int32_t> kept(tokens_.end() - config_.context / 2, tokens_.end());
    table_.release(0);
    tokens_.clear();
    for (const int32_t one : kept) decode(one);
  }
  decode(token);
  return logits_;
}

// Does what Gpt::forward does, for the last token of its sequence.
void Decoder::decode(int32_t token) {
  const int64_t c = config_.channels, position = table_.length(0);
  if (!table_.append(0, 1)) throw std::logic_error("the pool has a page for every token");
  tokens_.push_back(token);
  const auto weight = [&](size_t i) {
    return Matrix<float>(weights_.data() + layout_[i].offset, layout_[i].rows, layout_[i].cols);
  };
  std::vector<float> x(c), normed(c), scaled(c), qkv(3 * c), o(c), branch(c), hidden(4 * c);
  float deviation;
  const auto norm = [&](size_t gain) {
    layer_norm<float>({x.data(), 1, c}, weight(gain).data, weight(gain + 1).data,
                      {scaled.data(), 1, c}, &deviation, {normed.data(), 1, c});
  };
  const auto apply = [&](std::vector<float>& in, size_t W, std::vector<float>& out) {
    linear<float>({in.data(), 1, std::ssize(in)}, weight(W), weight(W + 1).data,
                  {out.data(), 1, std::ssize(out)});
  };
  for (int64_t j = 0; j < c; ++j) x[j] = weight(0)(token, j) + weight(1)(position, j);
  size_t first = FIRST_BLOCK;
  for (int64_t layer = 0; layer < config_.layers; ++layer, first += PER_BLOCK) {
    norm(first + GAIN_1);
    apply(normed, first + QKV_W, qkv);
    attend(layer, qkv.data(), o.data());
    apply(o, first + OUT_W, branch);
    for (int64_t j = 0; j < c; ++j) x[j] += branch[j];
    norm(first + GAIN_2);
    apply(normed, first + UP_W, hidden);
    gelu<float>({hidden.data(), 1, 4 * c}, {hidden.data(), 1, 4 * c});
    apply(hidden, first + DOWN_W, branch);
    for (int64_t j = 0; j < c; ++j) x[j] += branch[j];
  }
  norm(first + LAST_GAIN);
  apply(normed, first + HEAD_W, logits_);
}

// [anchor: cache]
// Stores K and V of the newest token in its page. Then its query attends to the whole cache.
void Decoder::attend(int64_t layer, const float* qkv, float* o) {
  const ch11::Place place = table_.place(0, table_.length(0) - 1);
  std::vector<float>&K = K_pages_[layer], &V = V_pages_[layer];
  for (int64_t head = 0; head < config_.heads; ++head) {
    const int64_t to = ((place.page * config_.heads + head) * kPageSize + place.row) * dim_;
    std::copy_n(qkv + config_.channels + head * dim_, dim_, K.begin() + to);
    std::copy_n(qkv + 2 * config_.channels + head * dim_, dim_, V.begin() + to);
  }
  const ch11::Step<float> step{.batch = 1,
                               .heads = config_.heads,
                               .kv_heads = config_.heads,
                               .len_q = 1,
                               .dim = dim_,
                               .pages = pool_.size(),
                               .page_size = kPageSize,
                               .columns = table_.columns(),
                               .scale = 1 / std::sqrt(static_cast<float>(dim_)),
                               .Q = qkv,
                               .K_pages = K.data(),
                               .V_pages = V.data(),
                               .table = table_.table().data(),
                               .lengths = table_.lengths().data()};
  std::vector<float> LSE(config_.heads);
  ch11::decode(step, kSplits, kBlockKv, partials_, o, LSE.data());
}
// [/anchor: cache]

int32_t sample(std::span<const float> logits, double temperature, Random& random) {
  const float m = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (const float x : logits) sums.push_back(sum += std::exp((x - m) / temperature));
  const double at = random.uniform() * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), at);
  return static_cast<int32_t>(std::min(found - sums.begin(), std::ssize(sums) - 1));
}

std::string default_prompt(const TrainingState& trained) {
  const bool has_lines = trained.vocabulary.find(U'\n') != std::u32string::npos;
  return encode_utf8(has_lines ? U'\n' : trained.first);
}

std::string generate(const TrainingState& trained, const std::string& prompt, int64_t count,
                     double temperature, int64_t seed) {
  const std::u32string characters = decode_utf8(prompt, "--prompt");
  if (characters.empty()) throw InputError("--prompt: expected at least one character");
  const Vocabulary vocabulary(trained.vocabulary);
  Decoder decoder(trained);
  std::span<const float> logits;
  for (const int32_t token : vocabulary.tokens(characters, "--prompt")) {
    logits = decoder.next(token);
  }
  Random random{static_cast<uint64_t>(seed)};
  std::string text = prompt;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = sample(logits, temperature, random);
    text += encode_utf8(vocabulary.character(token));
    if (i + 1 < count) logits = decoder.next(token);
  }
  return text;
}

}  // namespace fa::ch20
