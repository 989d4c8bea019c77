#pragma once
// Runs an attention program (chapters 02 and later): options, input, check, report. A chapter
// describes itself in an AttentionProgram and calls run_attention_program from main.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/break_demos.hpp"
#include "common/breaks.hpp"
#include "common/cli.hpp"
#include "common/features.hpp"
#include "common/json_report.hpp"
#include "common/operation.hpp"
#include "common/problem.hpp"

namespace fa {

// The options of a run apart from the problem.
struct Request {
  uint32_t breaks = 0;  // bit mask of AttentionProgram::breaks
  std::string device;   // auto, gpu or emulator; empty if the program has no choice
  bool profile = false;
  bool bench = false;
  int64_t schedule_seed = 0;
  int64_t seed = 0;             // of random input; 0 for files
  std::string events;           // path, or empty
  bool i_know = false;          // allow a break with undefined behaviour
  std::string layout = "bhld";  // memory layout of the kernel's tensors, or blhd
};

// The result of a run besides the outputs.
struct Outcome {
  std::string device = "cpu";
  std::string title;  // name of the algorithm and its settings: "tiled, block 64 x 64"
  double time_ms = 0;
  std::string notes;  // further lines of output, each ending in \n: trace, profile, hazards
  JsonPointer hazards, profile;  // as in --json; null: [] and {}
  bool hazardous = false;        // a hazard was found: exit 1 even if the numbers agree
  // For comparison with another run: the emulator's counters, and fp32 numbers before their
  // rounding.
  std::map<std::string, int64_t> counters = {};
  std::vector<float> unrounded = {};
};

struct AttentionProgram {
  std::string name;  // "ch02_tiled_cpu"
  std::string about;
  Shape default_shape;
  std::vector<Break> breaks;
  BreakDemos demos;                  // how to show each break
  std::vector<Dtype> dtypes;         // the first is the default; --dtype if there are several
  uint32_t features = CAUSAL | LSE;  // of Feature; --causal and --lse need their bits
  bool has_device = false;           // chapters 03 on: --device --schedule-seed --events

  // Adds the chapter's own options.
  std::function<void(Cli&)> add_options = [](Cli&) {};
  // Applies those options to the problem.
  std::function<void(Problem&)> prepare = [](Problem&) {};
  // Runs a subcommand that add_options declared, and returns the exit code.
  std::function<int(const std::string&)> command;
  // Throws InputError if the chapter does not support the problem.
  std::function<void(const Problem&)> validate = [](const Problem&) {};
  const Operation* operation = &forward_operation();
  // Fills the operation's outputs, in its order. They are full of NaN before, so an unwritten
  // element is visible. An output whose feature the program lacks is empty.
  std::function<Outcome(const Problem&, const Request&, std::span<std::vector<float>> outputs)> run;
  // Prints measurements instead of the report, after the check, with --bench.
  std::function<void(const Problem&, const Request&)> bench;
  // Runs the chapter as a story, without any arguments, and returns the exit code. Optional.
  std::function<int()> story;
};

// Parses the options, loads or generates the input, runs the program, checks the result against
// float64, prints the report and writes the files. Returns 0, 1 or 2 like every program, and prints
// `error: …` with 2.
int run_attention_program(const AttentionProgram& program, int argc, char** argv);

// True if FA_HIDE_TIMES is set. The output then contains no times, because printed output in a
// lesson must be the same in every run.
bool times_hidden();

}  // namespace fa
