#pragma once
// Masks and everything else that changes scores, which is the keys that a query sees, softcap,
// ALiBi, shared heads. A program takes their options on its command line by listing their features.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/features.hpp"

namespace fa {

class Cli;
struct Problem;

// The keys [begin, end) that a query may see, and the key at the query's position. The last query
// of a sequence has the position of the sequence's last key. The range can be empty.
struct Keys {
  int64_t begin, end, diagonal;
};

// Packed sequences are stored one after the other in one batch, [1, heads, sum of lengths, dim].
// A query sees only the keys of its sequence. Sequence n is rows [q_starts[n], q_starts[n +
// 1]) of Q, and likewise of K and V.
struct Masks {
  bool causal = false;  // a window_right of 0
  // A query sees the keys from window_left before its own position to window_right after it. -1
  // means no limit.
  int64_t window_left = -1, window_right = -1;
  std::vector<int64_t> q_starts = {}, kv_starts = {};  // starts of sequences, empty if not packed
  std::vector<int64_t> lengths = {};  // [batch]: keys of each sequence, first in K, or empty
  double softcap = 0;  // c: a score s becomes c tanh(s / c) before the mask, unless c is 0
  // [batch, queries]: bit j of a query's word says whether it sees the key at the position of query
  // j. It sees all keys before the queries. Empty if there is no tree.
  std::vector<uint64_t> tree = {};
  bool alibi = false;  // subtract alibi_slope(head) times the distance from each score

  int64_t right() const { return causal ? 0 : window_right; }
};

// Returns ALiBi's slope of a head (Press, Smith and Lewis 2021), as get_slopes in their code. With
// p as the largest power of two that is at most `heads`, the first p slopes are
//   2^(-8 (head + 1) / p).
// Heads p and above have the slopes halfway between these, starting with the first:
//   2^(-8 (head - p + 1/2) / p).
double alibi_slope(int64_t head, int64_t heads);

// Throws InputError if `group` does not divide the heads, a window is neither a length nor -1, the
// starts of packed sequences do not rise from 0 to the lengths of Q and K or differ in number, or a
// sequence with its own length has more keys than K.
void check_mask(const Problem& problem);

// Returns what is not plain about a problem, as text: ", causal, 2 heads of K and V".
std::string in_words(const Problem& problem);
// Adds it to the report.
void add_masks(nlohmann::json& report, const Problem& problem);

// The command line's options for masks and shared heads.
class MaskOptions {
 public:
  // Declares the options of `features`. With `refusing` also the others, which --help does not list
  // and check() refuses with a sentence that names the chapter that has them.
  void declare(Cli& cli, uint32_t features, bool refusing);
  void check() const;
  // Sets the masks of a problem that has its shape. Sets `group` too if the problem has no values,
  // and otherwise checks it.
  void set(Problem& problem) const;
  // Sets the sinks of a problem that has its shape, from --sinks.
  void set_sinks(Problem& problem, uint64_t seed) const;

 private:
  bool given(uint32_t feature, const char* option) const;
  bool lacks(uint32_t feature) const;

  const Cli* cli_ = nullptr;
  uint32_t features_ = 0;
  bool causal_ = false, alibi_ = false, refusing_ = false;
  std::string window_, q_starts_, kv_starts_, sinks_;
  int64_t kv_heads_ = 0;
  double softcap_ = 0;
};

// Throws InputError for an option of a feature that the program lacks.
[[noreturn]] void refuse_option(const char* option, uint32_t feature);

// Parses "a,b,...", the numbers that `what` describes.
std::vector<int64_t> parse_lengths(const char* option, const std::string& text, const char* what,
                                   int64_t maximum);

}  // namespace fa
