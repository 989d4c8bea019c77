#pragma once
// The steps of an attention program (chapters 02 and later) that are the same in every chapter,
// namely parse the command line, make the tensors, report. A chapter's main.cpp calls them, and
// runs and checks its own algorithm in between.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/break_demos.hpp"
#include "common/breaks.hpp"
#include "common/check.hpp"
#include "common/cli.hpp"
#include "common/features.hpp"
#include "common/json_report.hpp"
#include "common/problem.hpp"

namespace fa {

enum Pass : uint32_t { FORWARD = 1u << 0, BACKWARD = 1u << 1 };

// The options and inputs that a program accepts.
struct Program {
  std::string name;  // "ch02_tiled_cpu"
  std::string about;
  Shape default_shape;
  std::vector<Break> breaks;
  std::vector<Dtype> dtypes;         // the first is the default; --dtype if there are several
  uint32_t features = CAUSAL | LSE;  // bits of Feature
  uint32_t passes = FORWARD;         // bits of Pass, which decide the tensors it reads and writes
  bool has_device = false;           // chapters 03 on: --device --schedule-seed --events
  std::span<const IntegerOption> options = {};
  // Throws InputError if the chapter does not support the shape. Null supports every shape.
  void (*check_shape)(const Shape&) = nullptr;
};

// A parsed command line.
class Arguments {
 public:
  // `declare` adds options and subcommands of the chapter. Throws InputError.
  Arguments(Invocation& call, const Program& program, const std::function<void(Cli&)>& declare);
  Arguments(const Arguments&) = delete;

  bool given(const char* option) const { return cli_.given(option); }

  Invocation& call;
  const Program program;
  std::string command;              // the chosen subcommand, which has its own options, or ""
  std::vector<std::string> breaks;  // names
  uint32_t break_bits = 0;          // the chosen bits of Program::breaks
  std::string device;               // auto, gpu or emulator, empty if the program has no choice
  std::vector<int> options;         // values of Program::options
  bool profile = false, bench = false;
  bool allow_undefined = false;  // runs a break on the GPU although its behaviour is undefined
  std::string layout = "bhld";   // memory layout of the kernel's tensors, or blhd
  std::string events, json;      // paths, or empty
  int64_t seed = 0, schedule_seed = 0;
  Dtype dtype = Dtype::f32;
  std::string shape;
  MaskOptions masks;
  std::map<std::string, std::string> files;  // path of a tensor by its option, such as "--q"
  double scale = 0, input_scale = 1, v_scale = 1, ramp = 0;

 private:
  void declare(const std::function<void(Cli&)>& own);
  void check();

  Cli cli_;
  std::string dtype_;
  std::vector<int64_t> options_;
  bool list_breaks_ = false;
};

// Parses a command line. --help prints and ends the program.
inline Arguments parse(Invocation& call, const Program& program,
                       const std::function<void(Cli&)>& declare = {}) {
  return Arguments(call, program, declare);
}

// Loads or generates Q, K and V (and dO, for a backward pass), and fills the outputs of the
// program's passes with NaN. `validate` throws InputError if the chapter does not support the
// problem, and is called first for a problem without values. `prepare` changes the values.
Tensors make_tensors(const Arguments& args,
                     const std::function<void(const Problem&)>& validate = {},
                     const std::function<void(Problem&)>& prepare = {});

// The result of a run apart from the tensors.
struct Run {
  std::string device = "cpu";
  std::string title;  // name of the algorithm and its settings: "tiled, block 64 x 64"
  double time_ms = 0;
  std::string notes;  // further lines of output, each ending in \n, such as trace, profile, hazards
  JsonPointer hazards, profile;  // as in --json; null: [] and {}
  bool hazardous = false;        // a hazard was found, so exit 1 even if the numbers agree
  // For comparison with another run, the emulator's counters, and fp32 numbers before their
  // rounding.
  std::map<std::string, int64_t> counters = {};
  std::vector<float> unrounded = {};
  std::function<void()> bench = {};  // prints measurements after a run that passed, with --bench
};

// Prints the report and writes the files. Returns the exit code.
int report(const Arguments& args, Tensors& tensors, const Run& run, const Verdict& verdict);

// True if FA_HIDE_TIMES is set. The output then contains no times, because printed output in a
// lesson must be the same in every run.
bool times_hidden();

}  // namespace fa
