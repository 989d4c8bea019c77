#include "exercises/support/verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <ostream>
#include <sstream>

#include "exercises/support/todo.hpp"

namespace exercise {
namespace {

bool agree(double a, double b, double tolerance, bool relative) {
  if (std::isnan(a) || std::isnan(b)) return false;
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * ((relative ? 0 : 1) + std::abs(b));
}

// True if `got` is the mistake's output. Here a NaN agrees with a NaN.
bool predicted(const Numbers& got, const Numbers& output, double tolerance, bool relative) {
  return std::equal(got.begin(), got.end(), output.begin(), output.end(), [&](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || agree(a, b, tolerance, relative);
  });
}

std::string subscript(const Output& output, size_t count, size_t index) {
  if (!output.names.empty()) return output.names[index];
  if (count == 1) return output.name;
  const size_t columns = output.columns ? output.columns : count;
  const std::string row = "[" + std::to_string(index / columns) + "]",
                    column = output.labels.empty() ? "[" + std::to_string(index % columns) + "]"
                                                   : "." + output.labels[index % columns];
  return output.name + (output.columns ? row : "") + column;
}

// The first wrong number with its neighbours in its row, and the expected ones below.
std::string neighbours(const Output& output, const Numbers& got, const Numbers& expected,
                       size_t first) {
  const size_t columns = output.columns ? output.columns : got.size(), row = first / columns;
  const size_t begin = std::max(row * columns, first < 3 ? 0 : first - 3);
  const size_t end = std::min({row * columns + columns, got.size(), begin + 7});
  std::string names = "\n         ", is = "\n  got      ", right = "\n  expected ";
  for (size_t i = begin; i < end; ++i) {
    const std::string cells[] = {subscript(output, got.size(), i), text(got[i]), text(expected[i])};
    size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size() + 2);
    const auto padded = [&](const std::string& cell) {
      return std::string(width - cell.size(), ' ') + cell;
    };
    names += padded(cells[0]);
    is += padded(cells[1]);
    right += padded(cells[2]);
  }
  return names + is + right;
}

// The evidence of the run so far for each mistake that a test knows. Variants of one mistake are
// kept apart, because one of them must explain the whole run.
struct Known {
  std::string name, explanation;
  int variant;
  int explained = 0;           // failures
  bool contradicted = false;   // it would have shown otherwise
  std::string predicted = {};  // all that it leads to, empty if only an answer can tell
};
std::deque<Known> all_known;
std::map<std::pair<std::string, int>, Known*> by_name;  // and variant
int failures = 0;
std::string todo_line;  // the stub's line, if it is still there

// The evidence for each mistake of a list. The variants of a name are numbered, in every call
// alike.
template <class Mistakes>
std::vector<Known*> known(const Mistakes& mistakes) {
  std::map<std::string, int> variants;
  std::vector<Known*> all;
  for (const auto& mistake : mistakes) {
    const int variant = variants[mistake.name]++;
    Known*& one = by_name[{mistake.name, variant}];
    if (!one) one = &all_known.emplace_back(Known{mistake.name, mistake.explanation, variant});
    all.push_back(one);
  }
  return all;
}

// Numbers that agree are the same text, nearly always.
std::string digest(const Numbers& numbers, double tolerance) {
  std::string all;
  for (const double number : numbers) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, tolerance > 0 ? " %.3g" : " %.9g", number);
    all += std::isnan(number) ? " NaN" : buffer;
  }
  return all + "\n";
}

// What a solution's run proves of the mistakes, for prove.py. Each that is told by what it leads to
// is rejected, and leads to something else than the others.
struct Proofs {
  std::vector<std::string> by_answer, by_what_it_shows, unproved;

  Proofs() {
    for (const Known& one : all_known) {
      if (one.predicted.empty()) {
        by_answer.push_back(one.name);
      } else if (!one.contradicted) {
        unproved.push_back("never shows: " + one.name);
      } else {
        by_what_it_shows.push_back(one.name);
      }
      for (const Known& other : all_known) {
        if (&other == &one) break;
        if (other.name != one.name && !one.predicted.empty() && other.predicted == one.predicted)
          unproved.push_back("the same: " + other.name + ", " + one.name);
      }
    }
    for (const std::string& change : unused_changes())
      unproved.push_back("never shows: the change " + change + ", which no answer asks for");
  }
};

void failed(const std::string& message, const std::vector<Suspect>& suspects, int line,
            const char* file) {
  ++failures;
  const std::vector<Known*> all = known(suspects);
  for (size_t i = 0; i < suspects.size(); ++i) all[i]->explained += suspects[i].matches;
  ADD_FAIL_CHECK_AT(file, line, message);
}

// Those that explain every failure, and that nothing right contradicts. With two mistakes at once
// none does, and then no name is better than a wrong one.
std::vector<const Known*> explanations() {
  std::vector<const Known*> whole;
  for (const Known& one : all_known) {
    const bool named = std::any_of(whole.begin(), whole.end(),
                                   [&](const Known* other) { return other->name == one.name; });
    if (failures > 0 && one.explained == failures && !one.contradicted && !named)
      whole.push_back(&one);
  }
  return whole;
}

// The lines that name the mistake.
std::vector<std::string> named(const std::vector<const Known*>& found) {
  std::vector<std::string> lines;
  if (failures > 0 && found.empty() && !all_known.empty())
    lines.push_back("no mistake that is known here explains all of this. Perhaps there are two");
  for (const Known* one : found) {
    const char* begin = found.size() == 1 ? "looks like: " : "could be ";
    lines.push_back(begin + one->name + ": " + one->explanation);
  }
  return lines;
}

struct Listener : doctest::IReporter {
  std::ostream& out;
  explicit Listener(const doctest::ContextOptions& options) : out(*options.cout) {}

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

bool telling = false;  // the reporter "verdict" has been asked for

struct Naming : Listener {
  using Listener::Listener;

  void test_case_exception(const doctest::TestCaseException&) override { ++failures; }
  void test_run_end(const doctest::TestRunStats&) override {
    if (telling) return;
    if (!todo_line.empty()) {
      out << "not written yet: " << todo_line << "\n";
      return;
    }
    for (const std::string& line : named(explanations())) out << line << "\n";
  }
};
REGISTER_LISTENER("naming", 1, Naming);

std::string json(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    char code[8] = {c};
    if (c == '"' || c == '\\') all += '\\';
    if (static_cast<unsigned char>(c) < ' ') std::snprintf(code, sizeof code, "\\u%04x", c);
    all += code;
  }
  return all + '"';
}
std::string json(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + json(text);
  return "[" + all + "]";
}

// --reporters=verdict: for ./learn, the proof and the site. Prints a record {"case": name} when a
// test case starts, because it may end the program, and at the end {"verdict": …}, whose "text" is
// for the learner: doctest's words, shortened to what helps. Records are a JSON text sequence
// (RFC 7464) among what the answer prints.
struct Telling : Listener {
  struct Failed {
    std::string name, said;
  };
  std::vector<Failed> cases;
  std::vector<std::string> remarks;
  std::string name;

  explicit Telling(const doctest::ContextOptions& options) : Listener(options) {
    telling = true;
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // lines are there when the program is stopped
  }

  void say(std::string text, const std::string& logged) {
    if (cases.empty() || cases.back().name != name) cases.push_back({name, ""});
    while (!text.empty() && text.back() == '\n') text.pop_back();
    cases.back().said += (cases.back().said.empty() ? "" : "\n\n") + text + logged;
  }
  void record(const std::string& object) { out << "\x1e" + object + "\n" << std::flush; }
  static std::string logged() {
    std::ostringstream text;
    for (int i = 0; i < get_num_active_contexts(); ++i) {
      text << (i == 0 ? "\n  logged: " : "\n          ");
      get_active_contexts()[i]->stringify(&text);
    }
    return text.str();
  }

  void test_case_start(const doctest::TestCaseData& test) override {
    name = test.m_name;
    record("{\"case\": " + json(name) + "}");
  }
  void test_case_exception(const doctest::TestCaseException& thrown) override {
    const std::string what = thrown.error_string.c_str();
    say((thrown.is_crash ? "test case CRASHED: " : "") + what, "");
  }
  void log_message(const doctest::MessageData& message) override {
    const std::string text = message.m_string.c_str();
    if (message.m_severity & doctest::assertType::is_warn) {
      remarks.push_back(text);
    } else {
      say(text, logged());
    }
  }
  void log_assert(const doctest::AssertData& of) override {
    if (!of.m_failed) return;
    const std::string kind = doctest::assertString(of.m_at);
    say(kind + "( " + of.m_expr + " ) " +
            (of.m_threw ? "THREW exception: " + std::string(of.m_exception.c_str())
                        : "is NOT correct!\n  values: " + kind + "( " + of.m_decomp.c_str() + " )"),
        logged());
  }

  void test_run_end(const doctest::TestRunStats& run) override {
    const bool right = cases.empty() && run.numTestCasesFailed == 0 && run.numAsserts > 0;
    const std::vector<const Known*> found = explanations();
    std::vector<std::string> mistakes;
    for (const Known* one : found) mistakes.push_back(one->name);
    std::string verdict = right ? "right" : "wrong", text;
    if (!todo_line.empty()) {
      verdict = "not written yet";
      text = "\n\n  " + todo_line + "\n";
    } else if (right) {
      text = " (" + std::to_string(run.numTestCasesPassingFilters) + " test cases)\n";
      for (const std::string& remark : remarks) text += remark + "\n";
    } else {
      text = failed_cases(run);
      for (const std::string& line : named(found)) text += "\n  " + line + "\n";
    }
    const Proofs proofs;
    record("{\"verdict\": " + json(verdict) + ", \"todo\": " + json(todo_line) +
           ", \"mistakes\": " + json(mistakes) + ", \"named\": " + json(named(found)) +
           ", \"text\": " + json(verdict + text) +
           ", \"told_by_an_answer\": " + json(proofs.by_answer) + ", \"told_by_what_it_shows\": " +
           json(proofs.by_what_it_shows) + ", \"unproved\": " + json(proofs.unproved) + "}");
  }
  std::string failed_cases(const doctest::TestRunStats& run) {
    const unsigned all = run.numTestCasesPassingFilters;
    std::string text = " (" + std::to_string(all - run.numTestCasesFailed) + " of " +
                       std::to_string(all) + " test cases pass)\n\n";
    const bool same = cases.size() > 1 && std::all_of(cases.begin(), cases.end(), [&](auto& one) {
                        return one.said == cases[0].said;
                      });
    if (!same && !cases.empty()) text += "  " + cases[0].name + "\n";
    std::istringstream lines(cases.empty() ? "" : cases[0].said);
    for (std::string line; std::getline(lines, line);) text += (same ? "  " : "    ") + line + "\n";
    for (size_t i = 1; i < cases.size() && !same; ++i)
      text += (i == 1 ? "  also: " : "; ") + cases[i].name;
    return text + (cases.size() > 1 && !same ? "\n" : "");
  }
};
REGISTER_REPORTER("verdict", 1, Telling);

REGISTER_EXCEPTION_TRANSLATOR(const Todo& todo) {
  if (todo_line.empty()) todo_line = todo.what();  // the first that is left
  return todo.what();
}

}  // namespace

void todo(const char* what) { throw Todo(what); }

std::string text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  char buffer[32];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  std::snprintf(buffer, sizeof buffer, whole ? "%.0f" : "%.6g", value);
  return buffer;
}

void check(bool ok, const std::string& message, const std::vector<Suspect>& suspects, int line,
           const char* file) {
  if (ok) {
    known(suspects);
    CHECK(ok);
  } else {
    failed(message, suspects, line, file);
  }
}

void check_shown(bool ok, const std::string& message, const std::string& shown,
                 const std::vector<Look>& looks, int line, const char* file) {
  const std::vector<Known*> all = known(looks);
  std::vector<Suspect> suspects;
  for (size_t i = 0; i < looks.size(); ++i) {
    const bool matches = looks[i].shown == shown;
    all[i]->predicted += looks[i].shown + "\n";
    if (ok && !matches) all[i]->contradicted = true;
    suspects.push_back({looks[i].name, matches, looks[i].explanation});
  }
  check(ok, message, suspects, line, file);
}

std::string difference(const Output& output, const Numbers& got, const Numbers& expected) {
  if (got.size() != expected.size()) {
    return output.name + " has " + std::to_string(got.size()) + " numbers, expected " +
           std::to_string(expected.size());
  }
  size_t wrong = 0, not_finite = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;) {
    if (agree(got[i], expected[i], output.tolerance, output.relative)) continue;
    ++wrong;
    not_finite += !std::isfinite(got[i]);
    first = i;
  }
  if (wrong == 0) return "";
  std::string message = subscript(output, got.size(), first) + ": expected " +
                        text(expected[first]) + ", got " + text(got[first]);
  if (got.size() > 1) {
    message += neighbours(output, got, expected, first) + "\n" + std::to_string(wrong) + " of " +
               std::to_string(got.size()) + " numbers are wrong";
    if (not_finite) message += ", " + std::to_string(not_finite) + " of them NaN or Inf";
  }
  return message;
}

void check_output(const Output& output, const Numbers& got, const Numbers& expected,
                  const std::vector<Mistake>& mistakes, int line, const char* file) {
  const std::string message = difference(output, got, expected);
  const std::vector<Known*> all = known(mistakes);
  std::vector<Suspect> suspects;
  for (size_t i = 0; i < mistakes.size(); ++i) {
    const Mistake& mistake = mistakes[i];
    const auto shows = [&](double factor) {
      return !predicted(mistake.output, expected, factor * output.tolerance, output.relative);
    };
    all[i]->predicted += digest(mistake.output, output.tolerance);
    // A right answer contradicts what would show clearly, while a wrong one is explained by what
    // shows.
    if (message.empty() && shows(10)) all[i]->contradicted = true;
    const bool explains =
        shows(1) && predicted(got, mistake.output, output.tolerance, output.relative);
    suspects.push_back({mistake.name, explains, mistake.explanation});
  }
  check(message.empty(), message, suspects, line, file);
}

std::vector<float> random_numbers(int count, int seed, float scale) {
  std::vector<float> result;
  uint64_t state = 0x9E3779B97F4A7C15u * static_cast<uint64_t>(seed + 1);
  for (int i = 0; i < count; ++i) {
    double sum = -6;  // twelve uniform numbers, close to normal, and no library's own formula
    for (int k = 0; k < 12; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 11) * 0x1p-53;
    }
    result.push_back(scale * static_cast<float>(sum));
  }
  return result;
}

}  // namespace exercise
