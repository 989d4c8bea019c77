#include <doctest/doctest.h>

#include <string>
#include <tree_mask.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  std::vector<uint64_t> tree_words(const std::vector<int>& parents) const {
    std::vector<uint64_t> words(parents.size());
    for (int i = 0; i < static_cast<int>(parents.size()); ++i) {
      const int parent = parents[i] < 0 && is("no-parent-is-token-0") ? 0 : parents[i];
      const uint64_t own = uint64_t{1} << i;
      uint64_t above = 0;
      if (parent >= 0) above = is("only-the-parent") ? uint64_t{1} << parent : words[parent];
      if (parent >= 0 && is("itself-is-hidden")) above |= uint64_t{1} << parent;
      if (is("all-earlier-tokens")) above = own - 1;
      if (is("only-itself")) above = 0;
      if (is("siblings-see-each-other"))
        for (int j = 0; j < i; ++j)
          if (parents[j] == parents[i]) above |= uint64_t{1} << j;
      words[i] = above | (is("itself-is-hidden") ? 0 : own);
      if (is("thirty-two-bits")) words[i] = above | static_cast<uint32_t>(own);
      if (is("shifted-int"))  // x86 shifts by i % 32, and the sign fills the upper half
        words[i] = above | static_cast<uint64_t>(int64_t{static_cast<int32_t>(1u << i % 32)});
    }
    if (is("descendants-for-ancestors")) {
      std::vector<uint64_t> down(words.size());
      for (size_t i = 0; i < words.size(); ++i)
        for (size_t j = 0; j < words.size(); ++j) down[i] |= (words[j] >> i & 1) << j;
      return down;
    }
    return words;
  }
  bool sees(const std::vector<uint64_t>& words, int len_kv, int token, int key) const {
    const int tokens = static_cast<int>(words.size());
    const int first = is("tokens-at-the-start") ? 0
                      : is("one-key-too-early") ? len_kv - tokens - 1
                                                : len_kv - tokens;
    if (is("tokens-at-the-start") && key >= tokens) return true;
    if (key < first) return !is("cache-is-hidden");
    const int bit = is("bit-is-the-key") ? key % 64 : key - first;
    if (is("row-and-bit-exchanged")) return bit < tokens && (words[bit] >> token & 1) != 0;
    return bit < 64 && (words[token] >> bit & 1) != 0;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  std::vector<uint64_t> tree_words(const std::vector<int>& parents) const {
    return ::tree_words(parents);
  }
  bool sees(const std::vector<uint64_t>& words, int len_kv, int token, int key) const {
    return ::sees(words, len_kv, token, key);
  }
};

static const exercise::Table MISTAKES(R"(
all-earlier-tokens
  a token sees all earlier tokens, as in a chain. It should see only its ancestors and itself
only-the-parent
  a token sees its parent, but not the parent's parent. The parent's word has them all
only-itself
  a token sees no ancestor. Its parent's word belongs to its word
itself-is-hidden
  a token does not see itself. Bit i of token i should be set
siblings-see-each-other
  tokens with the same parent see each other. They are different guesses for one place
descendants-for-ancestors
  a token sees its descendants. It should see its ancestors
no-parent-is-token-0
  a token without a parent was given token 0 as its parent. It sees no other new token
thirty-two-bits
  the bits of tokens 32 and later are lost, because the shifted 1 has 32 bits. Shift uint64_t{1}
shifted-int
  the shifted 1 is an int, which has no bit for tokens 32 and later. Shift uint64_t{1}
cache-is-hidden
  the keys before the new tokens are hidden. Every new token sees them
tokens-at-the-start
  the new tokens were taken to be the first keys. They are the last ones of len_kv
one-key-too-early
  the new tokens were taken to begin one key too early. They begin at len_kv - the number of words
bit-is-the-key
  the key was taken for the bit. The bit is the key minus the number of keys before the new tokens
row-and-bit-exchanged
  the word of the key's token was read. The word of the token that looks has the bit
)");

static void check_tree(const std::vector<int>& parents) {
  const int tokens = static_cast<int>(parents.size());
  exercise::check_output<Way, Answer>({"word", tokens, 0}, MISTAKES, [&](const auto& way) {
    Numbers bits;
    for (const uint64_t word : way.tree_words(parents))
      for (int bit = 0; bit < tokens; ++bit) bits.push_back(static_cast<double>(word >> bit & 1));
    return bits;
  });
  for (const int len_kv : {tokens, tokens + 3, tokens + 70})
    exercise::check_output<Way, Answer>(
        {"len_kv " + std::to_string(len_kv) + ", sees", len_kv, 0}, MISTAKES, [&](const auto& way) {
          const std::vector<uint64_t> words = Way{}.tree_words(parents);
          Numbers result;
          for (int token = 0; token < tokens; ++token)
            for (int key = 0; key < len_kv; ++key)
              result.push_back(way.sees(words, len_kv, token, key));
          return result;
        });
}

TEST_CASE("one token") { check_tree({-1}); }
TEST_CASE("the README's: -1, 0, 0, 1, 1") { check_tree({-1, 0, 0, 1, 1}); }
TEST_CASE("a chain of 4") { check_tree({-1, 0, 1, 2}); }
TEST_CASE("two roots: -1, -1, 0, 1, 3, 2") { check_tree({-1, -1, 0, 1, 3, 2}); }
TEST_CASE("64 tokens, three children each") {
  std::vector<int> parents(64, -1);
  for (int i = 1; i < 64; ++i) parents[i] = (i - 1) / 3;
  check_tree(parents);
}
