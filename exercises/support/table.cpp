#include "exercises/support/table.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

namespace exercise {
namespace {

// For each name of a change, true if an answer has tested it.
std::map<std::string, std::atomic<bool>>& asked() {
  static std::map<std::string, std::atomic<bool>> all;
  return all;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Each choice from the braces: "a={1,2} b" gives "a=1 b" and "a=2 b".
std::vector<std::string> expanded(const std::string& text) {
  const size_t open = text.find('{'), close = text.find('}');
  if (open == std::string::npos) return {trimmed(text)};
  if (close == std::string::npos) throw std::invalid_argument("a brace is not closed: " + text);
  std::vector<std::string> all;
  std::istringstream choices(text.substr(open + 1, close - open - 1) + ",");
  for (std::string one; std::getline(choices, one, ',');)
    for (const std::string& rest : expanded(text.substr(close + 1)))
      all.push_back(trimmed(text.substr(0, open) + one +
                            (text.substr(close + 1, 1) == " " ? " " : "") + rest));
  return all;
}

}  // namespace

Changes::Changes(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    double value = 1;
    if (equals != std::string::npos) {
      char* end = nullptr;
      value = std::strtod(word.c_str() + equals + 1, &end);
      if (*end || end == word.c_str() + equals + 1)
        throw std::invalid_argument("no number: " + word);
    }
    changes_.push_back({name, value, &asked()[name]});
  }
}

const Changes::Change* Changes::find(const char* name) const {
  for (const Change& change : changes_) {
    if (change.name[0] != name[0] || change.name != name) continue;
    if (!*change.asked) *change.asked = true;
    return &change;
  }
  return nullptr;
}

bool Changes::operator()(const char* name) const { return find(name) != nullptr; }

double Changes::number(const char* name, double default_value) const {
  const Change* change = find(name);
  return change ? change->value : default_value;
}

Changes Changes::with(const std::string& text) const {
  Changes all = *this;
  const Changes more(text);
  all.changes_.insert(all.changes_.end(), more.changes_.begin(), more.changes_.end());
  return all;
}

Table::Table(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> rows;  // name and changes, explanation
  std::vector<std::pair<std::string, std::string>> texts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const bool is_text = line[0] == '$';
    if (line[0] != ' ') {
      if (!is_text) rows.push_back({line, ""});
      if (is_text)
        texts.push_back({line.substr(0, line.find(' ')), line.substr(line.find('=') + 2)});
    } else if (rows.empty()) {
      throw std::invalid_argument("expected the name of a mistake: " + line);
    } else if (line.substr(0, 4) == "    ") {
      rows.back().first += " " + trimmed(line);
    } else {
      rows.back().second += (rows.back().second.empty() ? "" : " ") + trimmed(line);
    }
  }
  for (auto& [head, explanation] : rows) {
    for (const auto& [name, meaning] : texts)
      for (size_t at = 0; (at = head.find(name)) != std::string::npos;)
        head.replace(at, name.size(), meaning);
    const std::string name = head.substr(0, head.find(':'));
    if (name.find(' ') != std::string::npos || explanation.empty())
      throw std::invalid_argument("expected 'name: changes' and a sentence: " + head);
    std::istringstream variants(name.size() == head.size() ? name : head.substr(name.size() + 1));
    for (std::string variant; std::getline(variants, variant, ';');)
      for (const std::string& changes : expanded(variant))
        rows_.push_back({name, Changes(changes), explanation});
  }
}

std::vector<std::string> unused_changes() {
  std::vector<std::string> names;
  for (const auto& [name, is_asked] : asked())
    if (!is_asked) names.push_back(name);
  return names;
}

}  // namespace exercise
