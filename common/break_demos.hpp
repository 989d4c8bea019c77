#pragma once
// Makes breaks show their effect. It runs the input that shows a break and compares the broken run
// with the intact one.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/json_report.hpp"

namespace fa {

// A break as the chapter's breaks.json describes it. common/cmake/breaks.py generates the table.
struct BreakDemo {
  const char* name;     // as given to --break
  const char* line;     // what the break switches off
  const char* input;    // arguments of an input that shows it, separated by single spaces
  const char* counter;  // the counter that changes; "": the check fails or a hazard is found
  bool schedules;       // the symptom is that --schedule-seed 1 and 2 give different bits
};

struct BreakDemos {
  const char* program = "";             // "ch03_basic_kernel"
  std::span<const BreakDemo> all = {};  // in the order of --list-breaks
  const char* not_taken = "";  // options of the inputs that this run does not take: "--ranks"
  const char* settings = "";   // options of the program that change neither tensors nor masks
};

// Result of a run, to be compared with another run.
struct RunResult {
  std::string device = "";  // where it ran
  bool passed = false;      // whether the check against the reference passed
  int64_t elements = 0;     // number of compared values
  int64_t mismatches = 0;   // wrong values, including those that are not finite
  int64_t nonfinite = 0;
  double max_abs_error = 0;
  std::vector<std::string> hazards = {};         // one kind per report
  std::map<std::string, int64_t> counters = {};  // empty if nothing was counted
  std::vector<std::vector<float>> outputs = {};
};

// One call of a program's body.
struct Invocation {
  int argc = 0;
  char** argv = nullptr;
  bool silent = false;       // the body prints nothing and writes no file
  std::string heading = "";  // text to print first, after the arguments have been checked
  // The body sets these.
  RunResult result = {};
  std::string json = "";  // where the report goes; "": nowhere
  JsonPointer report = {};
};
using ProgramBody = std::function<int(Invocation& call)>;

// Runs a program's body so that each break shows its effect.
//
// With --break NAME and no option that changes tensors or masks, it runs the input of NAME and says
// so, runs the intact program on the same input, and prints both results. With an input from the
// user it prints what the body prints. If the break has no effect there, it adds one line with a
// command that shows it. It writes the body's report, with "symptom" {intact, broken} where it
// printed both. Returns the body's exit code, or kDisagreed if only a counter or the bits
// of two schedules differ. An exception becomes `error: …` and exit code 2, as in guarded_main.
int breakable_main(int argc, char** argv, const BreakDemos& demos, const ProgramBody& body);

// Returns one line per break, for --list-breaks.
std::string list_breaks(const BreakDemos& demos);

}  // namespace fa
