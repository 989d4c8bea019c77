#pragma once
// The frame of every attention program (chapters 02 and on): options, input, check, report.
// A chapter says what is its own in an AttentionProgram and calls run_attention_program from main.

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

// What the user asked of this run, beyond the problem itself.
struct Request {
  uint32_t breaks = 0;  // mask of AttentionProgram::breaks
  std::string device;   // auto, gpu or emulator; empty where a chapter has no choice
  bool profile = false;
  bool bench = false;
  int64_t schedule_seed = 0;
  int64_t seed = 0;             // of random input; 0 for files
  std::string events;           // path, or empty
  bool i_know = false;          // a break may run where its behaviour is undefined
  std::string layout = "bhld";  // of the tensors in the kernel's memory, or blhd
};

// What a run tells about itself, besides filling the outputs.
struct Outcome {
  std::string device = "cpu";
  std::string title;  // what ran, for people: "tiled, block 64 x 64"
  double time_ms = 0;
  std::string notes;  // further lines for people, each ending in \n: trace, profile, hazards
  JsonPointer hazards, profile;  // as --json has them; null: [] and {}
  bool hazardous = false;        // a hazard was found: exit 1 even if the numbers agree
  std::map<std::string, int64_t> counters = {};  // of the emulator, for comparison with another run
};

struct AttentionProgram {
  std::string name;  // "ch02_tiled_cpu"
  std::string about;
  Shape default_shape;
  std::vector<Break> breaks;
  BreakDemos demos;                  // how each shows itself
  std::vector<Dtype> dtypes;         // the first is the default; with more than one, --dtype
  uint32_t features = CAUSAL | LSE;  // without them --causal and --lse name the chapter that has
  bool has_device = false;           // chapters 03 on: --device --schedule-seed --events

  // The chapter's own options.
  std::function<void(Cli&)> add_options = [](Cli&) {};
  // What those options change in the problem itself.
  std::function<void(Problem&)> prepare = [](Problem&) {};
  // Runs a subcommand that add_options declared; returns the exit code.
  std::function<int(const std::string&)> command;
  // Throws InputError for a problem that this chapter does not take.
  std::function<void(const Problem&)> validate = [](const Problem&) {};
  const Operation* operation = &forward_operation();
  // Fills the operation's outputs, in its order. They arrive full of NaN, so what is not written
  // shows; one whose feature the program lacks is empty.
  std::function<Outcome(const Problem&, const Request&, std::span<std::vector<float>> outputs)> run;
  // Prints measurements; called instead of run's report, after the check, under --bench.
  std::function<void(const Problem&, const Request&)> bench;
  // With no arguments at all: the chapter as a story. Returns the exit code. Optional.
  std::function<int()> story;
};

// Parses, loads or makes the input, runs, checks against float64, reports, writes files.
// Returns 0, 1 or 2 as every program here does; prints `error: …` for 2.
int run_attention_program(const AttentionProgram& program, int argc, char** argv);

// Times are left out of the output when FA_HIDE_TIMES is set: printed output in a lesson must be
// the same on every run.
bool times_hidden();

}  // namespace fa
