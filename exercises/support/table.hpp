#pragma once
// The table of the mistakes that a test knows, with for each mistake its name, how it changes the
// test's own answer, and the sentence for the learner. A test has its own answer once, and that
// answer asks at each place where people go wrong: is("sign-kept") ? dx - slope : std::abs(dx -
// slope)

#include <atomic>
#include <string>
#include <vector>

namespace exercise {

// The changes that one mistake makes to a test's own answer. Without any, that answer is right.
class Changes {
 public:
  Changes() = default;
  // `text`: names, separated by spaces. A name may have a value: "sign-kept step=1e-8".
  explicit Changes(const std::string& text);

  // True if the change of this name is made.
  bool operator()(const char* name) const;
  bool operator()(const std::string& name) const { return (*this)(name.c_str()); }
  // True if one of these is made.
  template <class... Names>
  bool any(Names... names) const {
    return ((*this)(names) || ...);
  }
  // The value of this name, or `default_value` where the mistake gives none.
  double number(const char* name, double default_value) const;
  int integer(const char* name, int default_value) const {
    return static_cast<int>(number(name, default_value));
  }
  int integer(const std::string& name, int default_value) const {
    return integer(name.c_str(), default_value);
  }
  // The same changes and more.
  Changes with(const std::string& text) const;

 private:
  struct Change {
    std::string name;
    double value;
    std::atomic<bool>* asked;  // set when a test's own answer tests it
  };
  const Change* find(const char* name) const;
  std::vector<Change> changes_;
};

// Rows of a table. The text of a mistake is
//
//     name: change; change other-change; step={1e-4,1e-5} change
//       One sentence, or several, in lines that begin with two spaces.
//
// ';' separates variants of one mistake, of which one must explain a whole run. Without ':' there
// is one, and its change has the mistake's name. Each choice of {a,b} gives a variant. A line that
// begins with four spaces continues the line before. "$name = text" lets "$name" stand for the text
// below it.
struct Row {
  std::string name;
  Changes changes;
  std::string explanation;
};
class Table {
 public:
  // Throws std::invalid_argument, with the line, where the text is no table.
  explicit Table(const std::string& text);
  std::vector<Row>::const_iterator begin() const { return rows_.begin(); }
  std::vector<Row>::const_iterator end() const { return rows_.end(); }

 private:
  std::vector<Row> rows_;
};

// The names of changes of which no answer has asked whether they are made, because they are
// misspelled or left over.
std::vector<std::string> unused_changes();

}  // namespace exercise
