#include "checkpoint.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "common/file.hpp"
#include "limits.hpp"

namespace fa::ch20 {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

constexpr std::string_view kMagic = "flash attention, chapter 20, checkpoint 1\n";

template <class T>
void append(std::string& bytes, const T* values, size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}
template <class T>
void append(std::string& bytes, const std::vector<T>& values) {
  append(bytes, values.data(), values.size());
}

// The unread rest of a file. Throws Short when a read goes past the end.
struct Reader {
  struct Short {};
  std::string_view bytes;

  std::string_view take(size_t count) {
    if (count > bytes.size()) throw Short();
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  template <class T>
  std::vector<T> values(int64_t count) {
    if (count < 0 || static_cast<size_t>(count) > bytes.size() / sizeof(T)) throw Short();
    std::vector<T> result(count);
    std::memcpy(result.data(), take(count * sizeof(T)).data(), count * sizeof(T));
    return result;
  }
};

int64_t within(const nlohmann::json& header, const char* key, Limits limits) {
  const auto& value = header.at(key);
  if (!value.is_number_integer()) throw Reader::Short();
  const int64_t number = value.get<int64_t>();
  if (number < limits.min || number > limits.max) throw Reader::Short();
  return number;
}

}  // namespace

void save_checkpoint(const std::string& path, const TrainingState& state) {
  const Config& model = state.recipe.model;
  std::string characters;
  for (const char32_t c : state.vocabulary) characters += encode_utf8(c);
  const std::string header = nlohmann::json{
      {"context", model.context},
      {"layers", model.layers},
      {"heads", model.heads},
      {"channels", model.channels},
      {"batch", state.recipe.batch},
      {"learning_rate", state.recipe.learning_rate},
      {"warm_up", state.recipe.warm_up},
      {"vocabulary", characters},
      {"first", encode_utf8(state.first)},
      {"text", state.text},
      {"seed", state.seed},
      {"random", state.random.state},
      {"steps", state.steps()}}.dump();
  std::string bytes(kMagic);
  const uint64_t header_bytes = header.size();
  append(bytes, &header_bytes, 1);
  bytes += header;
  append(bytes, state.losses);
  append(bytes, state.weights);
  append(bytes, state.moment);
  append(bytes, state.square);
  const uint64_t hash = fingerprint(bytes);
  append(bytes, &hash, 1);
  write_file(path, bytes);
}

TrainingState load_checkpoint(const std::string& path) {
  const std::string file = read_file(path);
  if (!std::string_view(file).starts_with(kMagic)) {
    throw InputError(path + ": is no checkpoint of this chapter: expected a file that `train " +
                     "--checkpoint` wrote");
  }
  const auto damaged = [&] {
    return InputError(path + ": is damaged: expected the checkpoint as it was written");
  };
  Reader reader{file};
  TrainingState state;
  try {
    const std::string_view checked = reader.bytes.substr(0, file.size() - sizeof(uint64_t));
    uint64_t hash;
    std::memcpy(&hash, file.data() + checked.size(), sizeof hash);
    if (fingerprint(checked) != hash) throw damaged();
    reader.bytes = checked;
    reader.take(kMagic.size());
    const uint64_t header_bytes = reader.values<uint64_t>(1)[0];
    const nlohmann::json header = nlohmann::json::parse(reader.take(header_bytes));
    Config& model = state.recipe.model;
    model.context = within(header, "context", kContext);
    model.layers = within(header, "layers", kLayers);
    model.heads = within(header, "heads", kHeads);
    model.channels = within(header, "channels", kChannels);
    state.recipe.batch = within(header, "batch", kBatch);
    state.recipe.warm_up = within(header, "warm_up", kWarmUp);
    state.recipe.learning_rate = header.at("learning_rate").get<double>();
    state.vocabulary = decode_utf8(header.at("vocabulary").get<std::string>(), path);
    model.vocabulary = std::ssize(state.vocabulary);
    if (model.channels % model.heads != 0 || model.vocabulary < 1 ||
        !std::is_sorted(state.vocabulary.begin(), state.vocabulary.end())) {
      throw damaged();
    }
    // Older checkpoints have no "first".
    const std::string first = header.value("first", encode_utf8(state.vocabulary.front()));
    state.first = Vocabulary::of(decode_utf8(first, path)).characters().front();
    state.text = header.at("text").get<uint64_t>();
    state.seed = within(header, "seed", kSeed);
    state.random.state = header.at("random").get<uint64_t>();
    const int64_t weights = parameter_count(model);
    state.losses = reader.values<double>(within(header, "steps", kSteps));
    state.weights = reader.values<float>(weights);
    state.moment = reader.values<float>(weights);
    state.square = reader.values<float>(weights);
    if (!reader.bytes.empty()) throw damaged();
  } catch (const Reader::Short&) {
    throw damaged();
  } catch (const nlohmann::json::exception&) {
    throw damaged();
  }
  return state;
}

}  // namespace fa::ch20
