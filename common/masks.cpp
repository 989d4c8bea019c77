#include "common/masks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/problem.hpp"
#include "common/text.hpp"

namespace fa {

Keys Problem::keys_of(int64_t batch, int64_t query) const {
  const int64_t length = lengths.empty() ? shape.kv : lengths[batch];
  Keys whole{0, length, query + length - shape.q};  // keys of the query's sequence
  if (!q_starts.empty()) {
    const size_t next =
        std::upper_bound(q_starts.begin(), q_starts.end(), query) - q_starts.begin();
    const int64_t from_end = q_starts[next] - query;
    whole = {kv_starts[next - 1], kv_starts[next], kv_starts[next] - from_end};
  }
  Keys seen = whole;
  if (window_left >= 0) seen.begin = std::max(whole.begin, whole.diagonal - window_left);
  if (right() >= 0) seen.end = std::min(whole.end, whole.diagonal + right() + 1);
  return seen;
}

double alibi_slope(int64_t head, int64_t heads) {
  const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const double step = head < power ? double(head + 1) : double(head - power) + 0.5;
  return std::exp2(-8.0 * step / static_cast<double>(power));
}

// "1,2,3", as the options are typed.
static std::string with_commas(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

void check_mask(const Problem& problem) {
  const Shape& shape = problem.shape;
  if (problem.group < 1 || shape.heads % problem.group != 0) {
    throw InputError(std::to_string(problem.group) + " heads of Q cannot share one of K and V: " +
                     std::to_string(shape.heads) + " is no multiple of it");
  }
  for (const int64_t side : {problem.window_left, problem.window_right}) {
    if (side < -1) {
      throw InputError("--window: a side of " + std::to_string(side) +
                       ": expected a number of keys, or -1 for no limit");
    }
  }
  const auto check_starts = [](const char* option, const std::vector<int64_t>& starts,
                               int64_t length) {
    if (starts.size() >= 2 && starts.front() == 0 && starts.back() == length &&
        std::is_sorted(starts.begin(), starts.end())) {
      return;
    }
    throw InputError(std::string(option) + " " + with_commas(starts) +
                     ": expected numbers that ascend from 0 to " + std::to_string(length) +
                     ", the length of all sequences together");
  };
  if (!problem.lengths.empty() && std::ssize(problem.lengths) != shape.batch) {
    throw InputError("--cache-seqlens " + with_commas(problem.lengths) + ": expected " +
                     std::to_string(shape.batch) + " lengths, one for each sequence");
  }
  for (const int64_t length : problem.lengths) {
    if (length < 0 || length > shape.kv) {
      throw InputError("--cache-seqlens " + with_commas(problem.lengths) +
                       ": expected lengths from 0 to " + std::to_string(shape.kv));
    }
  }
  if (problem.q_starts.empty() && problem.kv_starts.empty()) return;
  if (shape.batch != 1) {
    throw InputError("packed sequences: expected batch 1, not " + std::to_string(shape.batch));
  }
  check_starts("--cu-seqlens-q", problem.q_starts, shape.q);
  check_starts("--cu-seqlens-k", problem.kv_starts, shape.kv);
  if (problem.q_starts.size() != problem.kv_starts.size()) {
    throw InputError("--cu-seqlens-q and --cu-seqlens-k: expected as many numbers of each, not " +
                     std::to_string(problem.q_starts.size()) + " and " +
                     std::to_string(problem.kv_starts.size()));
  }
}

std::string in_words(const Problem& problem) {
  std::string words;
  if (problem.causal) words += problem.tree.empty() ? ", causal" : ", tree";
  if (problem.window_left >= 0 || problem.window_right >= 0) {
    words +=
        ", window " + std::to_string(problem.window_left) + "," + std::to_string(problem.right());
  }
  if (problem.group > 1) {
    words += ", " + std::to_string(problem.kv_heads()) + " heads of K and V";
  }
  if (!problem.q_starts.empty()) {
    words += ", " + std::to_string(problem.q_starts.size() - 1) + " sequences";
  }
  if (problem.softcap > 0) {
    words += text(", softcap %g", problem.softcap);
  }
  if (problem.alibi) words += ", ALiBi";
  return words + (problem.sinks.empty() ? "" : ", sinks");
}

void add_masks(nlohmann::json& report, const Problem& problem) {
  if (problem.group > 1) report["kv_heads"] = problem.kv_heads();
  if (problem.window_left >= 0 || problem.window_right >= 0) {
    report["window"] = {problem.window_left, problem.right()};
  }
  if (!problem.q_starts.empty()) {
    report["cu_seqlens_q"] = problem.q_starts;
    report["cu_seqlens_k"] = problem.kv_starts;
  }
  if (problem.softcap > 0) report["softcap"] = problem.softcap;
  if (problem.alibi) report["alibi"] = true;
  for (const float sink : problem.sinks) report["sinks"].push_back(json_number(sink));
  if (!problem.lengths.empty()) report["cache_seqlens"] = problem.lengths;
  if (!problem.tree.empty()) report["tree"] = problem.tree;
}

void refuse_option(const char* option, uint32_t feature) {
  const bool in_02 = (feature & (CAUSAL | LSE | ALIBI)) != 0;
  throw InputError(std::string(option) + ": not in this chapter; chapter 09 has it" +
                   (in_02 ? ", and in fp32 chapter 02" : ""));
}

constexpr std::pair<uint32_t, const char*> MASK_OPTIONS[] = {
    {CAUSAL, "--causal"},       {WINDOW, "--window"},       {KV_HEADS, "--kv-heads"},
    {PACKED, "--cu-seqlens-q"}, {PACKED, "--cu-seqlens-k"}, {SOFTCAP, "--softcap"},
    {ALIBI, "--alibi"},         {SINKS, "--sinks"}};

void MaskOptions::declare(Cli& cli, uint32_t features, bool refusing) {
  cli_ = &cli;
  features_ = features;
  refusing_ = refusing;
  cli.flag("--causal", causal_, "hide key j from query i when j > i + (Lkv - Lq)");
  const auto knows = [&](uint32_t feature) { return refusing || (features & feature) != 0; };
  if (knows(WINDOW)) {
    cli.text("--window", window_,
             "L,R: query i sees keys i + (Lkv - Lq) - L up to ... + R; -1: no limit");
  }
  if (knows(KV_HEADS)) {
    cli.integer("--kv-heads", kv_heads_, 1, kMostElements, "heads of K and V [as many as of Q]");
  }
  if (knows(PACKED)) {
    cli.text("--cu-seqlens-q", q_starts_,
             "0,a,b,...: sequences packed into one, by where each begins in Q, and the last ends");
    cli.text("--cu-seqlens-k", kv_starts_, "the same of K and V");
  }
  if (knows(SOFTCAP)) {
    cli.real("--softcap", softcap_, "C: scores pass through C tanh(score / C)");
  }
  if (knows(ALIBI)) {
    cli.flag("--alibi", alibi_, "scores fall by 2^(-8 (h + 1) / H) for each key of distance");
  }
  if (knows(SINKS)) {
    cli.text("--sinks", sinks_,
             "F: a .npy file [H] with a logit per head that only the softmax's sum counts; random: "
             "from --seed, near the log-sum-exp of a row");
  }
  for (const auto& [feature, option] : MASK_OPTIONS) {
    if (lacks(feature)) cli.unlist(option);
  }
}

// True if the chapter only refuses this feature's option, by name.
bool MaskOptions::lacks(uint32_t feature) const {
  return (feature == CAUSAL || refusing_) && (features_ & feature) == 0;
}

void MaskOptions::check() const {
  for (const auto& [feature, option] : MASK_OPTIONS) {
    if (lacks(feature) && cli_->given(option)) refuse_option(option, feature);
  }
}

std::vector<int64_t> parse_lengths(const char* option, const std::string& text, const char* what,
                                   int64_t maximum) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split_at_commas(text)) {
    numbers.push_back(
        parse_integer(part, std::string(option) + " " + shown(text) + ": " + what, 0, maximum));
  }
  return numbers;
}

bool MaskOptions::given(uint32_t feature, const char* option) const {
  return (features_ & feature) && cli_->given(option);
}

void MaskOptions::set(Problem& problem) const {
  const bool from_files = !problem.q.empty();
  if (from_files && problem.group > 1 && !(features_ & KV_HEADS)) {
    throw InputError("K and V have fewer heads than Q: that comes with chapter 09");
  }
  if (given(KV_HEADS, "--kv-heads")) {
    const std::string what = "--kv-heads " + std::to_string(kv_heads_);
    if (from_files && kv_heads_ != problem.kv_heads()) {
      throw InputError(what + ": the files have " + std::to_string(problem.kv_heads()));
    }
    if (problem.shape.heads % kv_heads_ != 0) {
      throw InputError(what + ": expected a divisor of " + std::to_string(problem.shape.heads) +
                       ", the heads of Q");
    }
    problem.group = problem.shape.heads / kv_heads_;
  }
  problem.causal = causal_;
  if (given(WINDOW, "--window")) {
    const std::vector<std::string> sides = split_at_commas(window_);
    const std::string what = "--window " + shown(window_);
    if (sides.size() != 2) throw InputError(what + ": expected two numbers L,R");
    problem.window_left = parse_integer(sides[0], what + ": L", -1, kMostElements);
    problem.window_right = parse_integer(sides[1], what + ": R", -1, kMostElements);
  }
  if (given(PACKED, "--cu-seqlens-q") != given(PACKED, "--cu-seqlens-k")) {
    throw InputError("--cu-seqlens-q and --cu-seqlens-k go together: give both");
  }
  if (given(PACKED, "--cu-seqlens-q")) {
    problem.q_starts = parse_lengths("--cu-seqlens-q", q_starts_, "start", problem.shape.q);
    problem.kv_starts = parse_lengths("--cu-seqlens-k", kv_starts_, "start", problem.shape.kv);
  }
  if (given(SOFTCAP, "--softcap")) {
    if (!(softcap_ > 0)) throw InputError("--softcap: expected a number above 0");
    problem.softcap = softcap_;
  }
  problem.alibi = alibi_;
  check_mask(problem);
}

void MaskOptions::set_sinks(Problem& problem, uint64_t seed) const {
  if (!given(SINKS, "--sinks")) return;
  problem.sinks =
      sinks_ == "random" ? random_sinks(problem, seed) : load_sinks(sinks_, problem.shape.heads);
}

}  // namespace fa
