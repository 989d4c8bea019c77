#include "exercises/support/verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ostream>

namespace exercise {
namespace {

bool agree(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return false;
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

// Is `got` what the mistake predicts? Here a NaN agrees with a NaN.
bool predicted(const Numbers& got, const Numbers& output, double tolerance) {
  return std::equal(got.begin(), got.end(), output.begin(), output.end(), [&](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || agree(a, b, tolerance);
  });
}

std::string subscript(const Output& output, size_t count, size_t index) {
  if (count == 1) return output.name;
  const size_t columns = output.columns ? output.columns : count;
  const std::string row = "[" + std::to_string(index / columns) + "]",
                    column = output.labels.empty() ? "[" + std::to_string(index % columns) + "]"
                                                   : "." + output.labels[index % columns];
  return output.name + (output.columns ? row : "") + column;
}

// Is `got` what one of the mistakes of that name leads to? Would each of them have shown?
struct Seen {
  bool matches = false, visible = true;
};
Seen seen_as(const std::string& name, const std::vector<Mistake>& mistakes, const Output& output,
             const Numbers& got, const Numbers& expected) {
  Seen seen;
  for (const Mistake& mistake : mistakes) {
    if (mistake.name != name) continue;
    const bool visible = !predicted(mistake.output, expected, 10 * output.tolerance);
    seen.matches |= visible && predicted(got, mistake.output, output.tolerance);
    seen.visible &= visible;
  }
  return seen;
}

// What the run so far says about each mistake that a test knows.
struct Known {
  std::string name, explanation;
  bool matched = false;        // it explains a failure
  bool matched_first = false;  // it explains the first failure that a mistake explains
  bool contradicted = false;   // it would have shown otherwise
};
std::vector<Known> all_known;

Known& known(const std::string& name, const std::string& explanation) {
  for (Known& one : all_known) {
    if (one.name == name) return one;
  }
  return all_known.emplace_back(Known{name, explanation});
}

void failed(const std::string& message, const std::vector<Suspect>& suspects, int line,
            const char* file) {
  const bool first = std::none_of(all_known.begin(), all_known.end(),
                                  [](const Known& one) { return one.matched; });
  for (const Suspect& suspect : suspects) {
    Known& one = known(suspect.name, suspect.explanation);
    one.matched |= suspect.matches;
    one.matched_first |= suspect.matches && first;
    one.contradicted |= !suspect.matches;
  }
  ADD_FAIL_CHECK_AT(file, line, message);
}

// Those that explain the whole run; if none does (two mistakes at once), the first failure.
std::vector<const Known*> explanations() {
  std::vector<const Known*> whole, first;
  for (const Known& one : all_known) {
    if (one.matched && !one.contradicted) whole.push_back(&one);
    if (one.matched_first) first.push_back(&one);
  }
  return whole.empty() ? first : whole;
}

struct Naming : doctest::IReporter {
  std::ostream& out;
  explicit Naming(const doctest::ContextOptions& options) : out(*options.cout) {}

  void test_run_end(const doctest::TestRunStats&) override {
    const auto found = explanations();
    const char* begin = found.size() == 1 ? "looks like: " : "could be ";
    for (const Known* one : found) out << begin << one->name << ": " << one->explanation << "\n";
  }
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
REGISTER_LISTENER("naming", 1, Naming);

}  // namespace

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
    CHECK(ok);
  } else {
    failed(message, suspects, line, file);
  }
}

void check_output(const Output& output, const Numbers& got, const Numbers& expected,
                  const std::vector<Mistake>& mistakes, int line, const char* file) {
  if (got.size() != expected.size()) {
    return failed(output.name + " has " + std::to_string(got.size()) + " numbers, expected " +
                      std::to_string(expected.size()),
                  {}, line, file);
  }
  size_t wrong = 0, not_finite = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;) {
    if (agree(got[i], expected[i], output.tolerance)) continue;
    ++wrong;
    not_finite += !std::isfinite(got[i]);
    first = i;
  }
  std::vector<Suspect> suspects;  // one for each name, whichever of its variants
  for (const Mistake& mistake : mistakes) {
    const auto [matches, visible] = seen_as(mistake.name, mistakes, output, got, expected);
    if (wrong == 0 && visible) known(mistake.name, mistake.explanation).contradicted = true;
    suspects.push_back({mistake.name, matches, mistake.explanation});
  }
  if (wrong == 0) {
    CHECK(wrong == 0);
    return;
  }
  std::string message = subscript(output, got.size(), first) + ": expected " +
                        text(expected[first]) + ", got " + text(got[first]);
  if (got.size() > 1) {
    message +=
        "\n" + std::to_string(wrong) + " of " + std::to_string(got.size()) + " numbers are wrong";
    if (not_finite) message += ", " + std::to_string(not_finite) + " of them NaN or Inf";
  }
  failed(message, suspects, line, file);
}

std::vector<float> random_numbers(int count, int seed, float scale) {
  std::vector<float> result;
  uint64_t state = 0x9E3779B97F4A7C15u * static_cast<uint64_t>(seed + 1);
  for (int i = 0; i < count; ++i) {
    double sum = -6;  // twelve uniform numbers: close to normal, and no library's own formula
    for (int k = 0; k < 12; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 11) * 0x1p-53;
    }
    result.push_back(scale * static_cast<float>(sum));
  }
  return result;
}

}  // namespace exercise
