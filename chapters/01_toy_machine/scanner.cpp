#include "scanner.hpp"

#include <cctype>
#include <cmath>

#include "common/cli.hpp"
#include "common/error.hpp"

namespace ch01 {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

}  // namespace

void fail(const std::string& name, Place place, const std::string& message) {
  std::string shown = message.substr(0, 300);  // keep the message on one line
  for (char& c : shown) {
    if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  throw fa::InputError(name + ":" + std::to_string(place.line) + ":" +
                       std::to_string(place.column) + ": " + shown);
}

Scanner::Scanner(std::string_view line, int line_number, const std::string& file_name)
    : line_(line.substr(0, line.find('#'))), line_number_(line_number), file_name_(file_name) {}

void Scanner::skip_space() {
  while (at_ < line_.size() && is_space(line_[at_])) ++at_;
}

// Columns count characters, not bytes. UTF-8 continuation bytes have the form 10xxxxxx.
Place Scanner::place() {
  skip_space();
  int column = 1;
  for (std::size_t i = 0; i < at_; ++i) column += (line_[i] & 0xC0) != 0x80;
  return {line_number_, column};
}

bool Scanner::at_end() {
  skip_space();
  return at_ == line_.size();
}

bool Scanner::accept(char c) {
  if (at_end() || line_[at_] != c) return false;
  ++at_;
  return true;
}

bool Scanner::next_is_digit() {
  return !at_end() && std::isdigit(static_cast<unsigned char>(line_[at_]));
}

void Scanner::expect(char c, const std::string& after) {
  if (!accept(c)) fail_here(std::string("expected '") + c + "' after " + after);
}

std::string Scanner::word() {
  skip_space();
  const std::size_t begin = at_;
  while (at_ < line_.size() && is_word(line_[at_])) ++at_;
  return std::string(line_.substr(begin, at_ - begin));
}

std::string Scanner::symbol() {
  skip_space();
  const std::size_t begin = at_;
  while (at_ < line_.size() && !is_space(line_[at_])) ++at_;
  return std::string(line_.substr(begin, at_ - begin));
}

std::string Scanner::rest_of_token() {
  const std::size_t begin = at_;
  std::string text = symbol();
  at_ = begin;
  return text;
}

int Scanner::whole_number(const std::string& what, int maximum) {
  const Place here = place();
  const std::size_t begin = at_;
  while (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_]))) ++at_;
  const std::string digits(line_.substr(begin, at_ - begin));
  if (digits.empty()) fail_at(here, "expected " + what + ", a whole number");
  if (digits.size() > 9 || std::stoi(digits) > maximum) {
    fail_at(here, what + " " + digits + ": at most " + std::to_string(maximum));
  }
  return std::stoi(digits);
}

float Scanner::number(const std::string& what) {
  const Place here = place();
  std::size_t end = at_;
  while (end < line_.size() && line_[end] != ',' && !is_space(line_[end])) ++end;
  const std::string text(line_.substr(at_, end - at_));
  at_ = end;
  try {
    const double value = fa::parse_real(text, what);
    if (std::isfinite(static_cast<float>(value))) return static_cast<float>(value);
  } catch (const fa::InputError&) {
  }
  fail_at(here, what + " '" + text + "': expected a finite number that fp32 can hold");
}

void Scanner::expect_end() {
  if (!at_end()) fail_here("unexpected '" + rest_of_token() + "' at the end of the line");
}

void Scanner::fail_here(const std::string& message) {
  const Place here = place();
  fail(file_name_, here, at_end() ? message + ", found the end of the line" : message);
}

void Scanner::fail_at(Place place, const std::string& message) const {
  fail(file_name_, place, message);
}

}  // namespace ch01
