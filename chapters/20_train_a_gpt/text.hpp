#pragma once
// Text for training, where UTF-8 is decoded to one token per character.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa::ch20 {

// Returns the characters of a text in UTF-8. Throws an InputError that names `what` and the first
// wrong byte, which is cut off, overlong, a surrogate, past U+10FFFF.
std::u32string decode_utf8(std::string_view bytes, const std::string& what);
std::string encode_utf8(char32_t character);

// The distinct characters of a text, in ascending order. A token is an index into it.
class Vocabulary {
 public:
  explicit Vocabulary(std::u32string characters);
  static Vocabulary of(std::u32string_view text);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }
  char32_t character(int32_t token) const { return characters_[token]; }
  // Throws an InputError that names `what` for a character that is not in it.
  std::vector<int32_t> tokens(std::u32string_view text, const std::string& what) const;

 private:
  std::u32string characters_;
};

// All pages of this course's lessons in reading order, in UTF-8. The lessons of this chapter and of
// chapter 24 are left out because they quote what was learned. Throws InputError if the repository
// is not where it was when this was compiled.
std::string lessons();

}  // namespace fa::ch20
