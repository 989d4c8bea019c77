#pragma once
// How breaks show themselves: the input that shows each, and the comparison of the broken run with
// the intact one.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace fa {

// A break as its chapter's breaks.json describes it; common/cmake/breaks.py makes the table.
struct BreakDemo {
  const char* name;     // as given to --break
  const char* line;     // what is switched off
  const char* input;    // arguments that show it, separated by single spaces
  const char* counter;  // counter whose change is the symptom; "": the check fails, or a hazard
  bool schedules;       // true if the symptom is other bits under --schedule-seed 1 than under 2
};

struct BreakDemos {
  const char* program = "";             // "ch03_basic_kernel"
  std::span<const BreakDemo> all = {};  // in the order of --list-breaks
  bool run_inputs = true;               // false: --break alone runs the program's default input
  const char* settings = "";  // the program's own options that change neither tensors nor masks
};

// What a run found, for the comparison with another run.
struct RunResult {
  std::string device = "";  // where it ran
  bool passed = false;      // the check against the reference
  int64_t elements = 0;     // compared values
  int64_t mismatches = 0;   // wrong ones, those that are not finite included
  int64_t nonfinite = 0;
  double max_abs_error = 0;
  std::vector<std::string> hazards = {};         // their kinds, one for each report
  std::map<std::string, int64_t> counters = {};  // empty where nothing was counted
  std::vector<std::vector<float>> outputs = {};
};

// One run of a program's body.
struct BreakRun {
  bool silent = false;       // in: print nothing and write no file
  std::string heading = "";  // in: to print first, once the arguments are known to be good
  RunResult result = {};     // out
};
using BreakableBody = std::function<int(int argc, char** argv, BreakRun& run)>;

// Runs a program's body, and makes each break show itself.
//
// With --break NAME and no option that changes tensors or masks, it runs NAME's input, says so,
// runs the intact program on the same input, and prints both results. With an input of the user's
// it prints what the body prints and, if the break does not show, one line with the command that
// does. Returns the body's exit code, or kDisagreed if only a counter or the bits of two schedules
// differ. Throws InputError for the name of a break that the program does not have.
int run_breakable(const BreakDemos& demos, int argc, char** argv, const BreakableBody& body);

// One line for each break, for --list-breaks.
std::string list_breaks(const BreakDemos& demos);

}  // namespace fa
