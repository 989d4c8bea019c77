// Reads one line of a trace from left to right.
#pragma once

#include <string>
#include <string_view>

#include "program.hpp"

namespace ch01 {

// Throws fa::InputError "name:line:column: message".
[[noreturn]] void fail(const std::string& name, Place place, const std::string& message);

class Scanner {
 public:
  Scanner(std::string_view line, int line_number, const std::string& file_name);

  Place place();        // position of the next token
  bool at_end();        // true if only white space or a comment is left
  bool accept(char c);  // consumes c if it is next
  bool next_is_digit();
  void expect(char c, const std::string& after);
  std::string word();           // letters, digits, '_', '.', '-'; "" if none
  std::string symbol();         // all characters up to white space or a comment
  std::string rest_of_token();  // the next token, for messages
  // Consumes a whole number of at least 0. `what` is its name in messages.
  int whole_number(const std::string& what, int maximum);
  float number(const std::string& what);
  void expect_end();

  [[noreturn]] void fail_here(const std::string& message);
  [[noreturn]] void fail_at(Place place, const std::string& message) const;

 private:
  void skip_space();

  std::string_view line_;
  std::size_t at_ = 0;
  int line_number_;
  const std::string& file_name_;
};

}  // namespace ch01
