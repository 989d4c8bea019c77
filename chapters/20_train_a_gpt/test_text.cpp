// Text: valid and invalid UTF-8, characters as tokens, the lessons.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "text.hpp"

using namespace fa::ch20;

TEST_CASE("text: UTF-8 goes in and comes out, at both ends of each length") {
  const std::u32string text =
      U"\u0001\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff";
  std::string bytes;
  for (const char32_t c : text) bytes += encode_utf8(c);
  CHECK(bytes.size() == 2 * 1 + 2 * 2 + 4 * 3 + 2 * 4);
  CHECK(decode_utf8(bytes, "x") == text);
  CHECK(decode_utf8("", "x").empty());
  CHECK(decode_utf8(std::string(1, '\0'), "x") == std::u32string(1, U'\0'));
}

TEST_CASE("text: what is not UTF-8 is refused, with the byte at which it begins") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x80", "byte 0"},              // the middle of a character
      {"ab\xc3", "byte 2"},            // cut off
      {"\xe2\x82", "byte 0"},          // cut off
      {"\xc3\x28", "byte 0"},          // no second byte
      {"\xc0\xaf", "byte 0"},          // overlong
      {"\xe0\x80\xaf", "byte 0"},      // overlong
      {"\xf0\x80\x80\xaf", "byte 0"},  // overlong
      {"\xed\xa0\x80", "byte 0"},      // a surrogate
      {"\xf4\x90\x80\x80", "byte 0"},  // past U+10FFFF
      {"\xff", "byte 0"},
  };
  for (const auto& [bytes, says] : cases) {
    std::string message;
    try {
      decode_utf8(bytes, "file.txt");
    } catch (const fa::InputError& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find("file.txt: " + says + " is not UTF-8") == 0);
  }
}

TEST_CASE("text: a token is a character's place among the text's characters") {
  const Vocabulary vocabulary = Vocabulary::of(U"banana\u00e9");
  CHECK(vocabulary.characters() == U"abn\u00e9");
  CHECK(vocabulary.size() == 4);
  CHECK(vocabulary.tokens(U"nab\u00e9", "x") == std::vector<int32_t>{2, 0, 1, 3});
  CHECK(vocabulary.character(3) == U'\u00e9');
  CHECK_THROWS_WITH_AS(vocabulary.tokens(U"bat", "--prompt"),
                       doctest::Contains("--prompt: the model has not seen the character \"t\""),
                       fa::InputError);
}

TEST_CASE("text: the lessons are text enough, the same at each call") {
  const std::string text = lessons();
  CHECK(decode_utf8(text, "the lessons").size() > 100'000);
  CHECK(text == lessons());
  size_t place = 0;  // every page of a chapter, in reading order
  for (const char* title : {"# Chapter 01: ", "# Chapter 02: ", "# Chapter 02, page 2: ",
                            "# Chapter 02, page 3: ", "# Chapter 03: "}) {
    CHECK(text.find(title) != std::string::npos);
    CHECK(text.find(title) >= place);
    place = text.find(title);
  }
  CHECK(text.find("# Chapter 20") == std::string::npos);
}
