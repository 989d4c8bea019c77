#include "text.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/file.hpp"

namespace fa::ch20 {

std::u32string decode_utf8(std::string_view bytes, const std::string& what) {
  std::u32string text;
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = [&](size_t at) {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0u;
    };
    const unsigned first = byte(i);
    const size_t length = first < 0x80   ? 1
                          : first < 0xc0 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf8 ? 4
                                         : 0;
    char32_t character = length == 1 ? first : first & (0x7fu >> length);
    bool right = length > 0;
    for (size_t k = 1; k < length; ++k) {
      right = right && (byte(i + k) & 0xc0u) == 0x80u;
      character = (character << 6) | (byte(i + k) & 0x3fu);
    }
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // smallest characters with that
                                                                 // number of bytes
    right = right && character >= kLeast[length] && character <= 0x10ffff &&
            (character < 0xd800 || character > 0xdfff);
    if (!right) {
      throw InputError(what + ": byte " + std::to_string(i) +
                       " is not UTF-8: expected a text in UTF-8");
    }
    text += character;
    i += length;
  }
  return text;
}

std::string encode_utf8(char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80u | ((c >> shift) & 0x3fu)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0u | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0u | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0u | (c >> 18)), tail(12), tail(6), tail(0)};
}

Vocabulary::Vocabulary(std::u32string characters) : characters_(std::move(characters)) {}

Vocabulary Vocabulary::of(std::u32string_view text) {
  std::u32string characters(text);
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  return Vocabulary(characters);
}

std::vector<int32_t> Vocabulary::tokens(std::u32string_view text, const std::string& what) const {
  std::vector<int32_t> tokens;
  for (const char32_t c : text) {
    const auto at = std::lower_bound(characters_.begin(), characters_.end(), c);
    if (at == characters_.end() || *at != c) {
      throw InputError(what + ": the model has not seen the character \"" + encode_utf8(c) +
                       "\": expected characters of the text that it was trained on");
    }
    tokens.push_back(static_cast<int32_t>(at - characters_.begin()));
  }
  return tokens;
}

std::string lessons() {
  const std::filesystem::path chapters = std::string(FA_ROOT) + "/chapters";
  std::vector<std::pair<std::string, std::string>> paths;  // in reading order, file
  std::error_code error;
  for (const auto& chapter : std::filesystem::directory_iterator(chapters, error)) {
    const std::string directory = chapter.path().filename().string();
    if (directory == "20_train_a_gpt" || directory == "24_serve_a_gpt") continue;
    for (const auto& page : std::filesystem::directory_iterator(chapter.path(), error)) {
      const std::string name = page.path().filename().string();
      if (!name.ends_with(".md")) continue;
      const std::string place = name == "README.md" ? "1" : name;  // before 2-short-name.md
      paths.emplace_back(chapter.path().filename().string() + "/" + place, page.path().string());
    }
  }
  if (paths.empty()) {
    throw InputError(chapters.string() + ": no lessons there to learn from: give --text FILE");
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& [place, path] : paths) text += read_file(path);
  return text;
}

}  // namespace fa::ch20
