// Runs programs on the toy machine of chapter 01, which has a few registers.
//
//   ch01_toy_machine                                    the chapter as a story, on real input
//   ch01_toy_machine run programs/element.txt --trace   any trace file, step by step
//   ch01_toy_machine softmax --algorithm online --n 6   the lesson's programs for any n
//   ch01_toy_machine optimum --registers 4              the fewest cycles any program needs
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "breaks/ch01_toy_machine.hpp"
#include "common/breaks.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/json_report.hpp"
#include "generate.hpp"
#include "machine.hpp"
#include "optimum.hpp"
#include "parser.hpp"
#include "report.hpp"
#include "story.hpp"
#include "verify.hpp"

namespace ch01 {
namespace {

// The options of all subcommands that run a program.
struct RunOptions {
  std::map<std::string, std::string> inputs;  // array name → "1,2,3"
  std::vector<std::string> breaks;
  std::int64_t registers = 0;
  bool trace = false;
  bool print = false;
  bool list = false;
  std::string json;
  const fa::Cli* cli_of_inputs = nullptr;

  void add_to(fa::Cli& cli, const std::vector<std::string>& arrays) {
    cli_of_inputs = &cli;
    for (const std::string& name : arrays) {
      cli.text("--" + name, inputs[name], "the numbers of input " + name + ", comma-separated");
    }
    cli.texts("--break", breaks, "remove the instructions marked @NAME (see --list-breaks)");
    cli.integer("--registers", registers, 1, kMaxRegisters,
                "give the machine this many registers instead of the program's own number");
    cli.flag("--list-breaks", list, "print what --break accepts");
    cli.flag("--trace", trace, "print every register after every instruction");
    cli.flag("--print", print, "print the program instead of running it");
    cli.output_file("--json", json, "write cost, steps and result to this file");
  }
};

std::vector<float> parse_list(const std::string& text, const std::string& option) {
  std::vector<float> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const double value = fa::parse_real(text.substr(begin, end - begin), option);
    numbers.push_back(static_cast<float>(value));
    if (!std::isfinite(numbers.back())) {
      throw fa::InputError(option + " " + text.substr(begin, end - begin) +
                           ": too large for fp32, which ends at 3.4e38");
    }
    begin = end + 1;
  }
  return numbers;
}

// Runs a program. `text` is the program as a trace file, for --print.
int run_program(const std::string& text, const std::string& name, const RunOptions& options,
                fa::Invocation& call) {
  Program program = parse_program(text, name);
  if (options.registers) program.registers = static_cast<int>(options.registers);
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, text] : options.inputs) {
    if (options.cli_of_inputs->given("--" + name)) values[name] = parse_list(text, "--" + name);
  }
  set_inputs(program, values);
  program = without(program, options.breaks);
  validate(program);
  if (options.print) {
    if (options.trace || !options.json.empty()) {
      throw fa::InputError(
          "--print shows the program and does not run it: accepted without "
          "--trace and --json");
    }
    const bool as_it_is = values.empty() && options.breaks.empty() && !options.registers;
    std::cout << (as_it_is ? text : program_text(program));
    return fa::kAgreed;
  }
  const Run result = run(program, options.trace || !options.json.empty());
  const Verdict verdict = verify(program, result);
  call.result = {.passed = verdict.passed(),
                 .elements = verdict.compared,
                 .mismatches = verdict.mismatches,
                 .nonfinite = verdict.nonfinite,
                 .max_abs_error = verdict.max_abs_error};
  const int code = verdict.passed() ? fa::kAgreed : fa::kDisagreed;
  if (call.silent) return code;
  std::cout << call.heading;
  if (options.trace) std::cout << table_text(program, result) << '\n';
  std::cout << cost_text(result.cost) << result_text(program, result, verdict);
  if (!options.json.empty()) {
    call.json = options.json;
    call.report = fa::shared_json(json_of(program, result, verdict, options.breaks));
  }
  return code;
}

int print_optimum(int registers, OperandRule rule, Schedule schedule, const std::string& json) {
  const Optimum best = find_optimum(registers, rule, schedule);
  if (best.possible) {
    std::cout << best.cycles << " cycles\n# the fewest of any "
              << (schedule == Schedule::kInner ? "inner-product program: " : "program: ")
              << best.loads << " LOAD, 8 MAC, " << best.stores
              << " STORE; states searched: " << best.states << '\n'
              << optimum_program(best, registers, rule);
  } else {
    std::cout << "impossible: a MAC reads two operands and a partial sum, three registers at once; "
                 "states searched: "
              << best.states << '\n';
  }
  if (!json.empty()) {
    nlohmann::json report = {{"chapter", "01_toy_machine"},
                             {"registers", registers},
                             {"operands", rule == OperandRule::kFixed ? "fixed" : "any"},
                             {"order", schedule == Schedule::kInner ? "inner" : "any"},
                             {"possible", best.possible},
                             {"states", best.states}};
    if (best.possible) {
      const std::string text = optimum_program(best, registers, rule);
      const Program program = parse_program(text, "optimum");
      const Run replay = run(program, true);
      const nlohmann::json replayed = json_of(program, replay, verify(program, replay), {});
      for (const char* key : {"machine", "register_count", "arrays", "steps", "check"}) {
        report[key] = replayed[key];
      }
      report["text"] = text;
      report.update({{"cycles", best.cycles},
                     {"loads", best.loads},
                     {"stores", best.stores},
                     {"macs", 8},
                     {"trace", best.trace}});
    }
    fa::write_json(json, report);
  }
  return fa::kAgreed;
}

int print_all_optima() {
  std::cout << aligned(optimum_table(), 1);
  return fa::kAgreed;
}

// Returns the path of a program. `name` is a path, or the name of a chapter's program, such as
// element for programs/element.txt.
std::string find_program(const std::string& name) {
  const std::string shipped = shipped_program_path(name);
  return !std::filesystem::exists(name) && std::filesystem::exists(shipped) ? shipped : name;
}

int run_command(fa::Invocation& call) {
  fa::Cli cli("ch01_toy_machine", "The toy machine: registers, loads and passes, counted.");
  bool list = false;
  cli.flag("--list-breaks", list, "print what --break accepts");
  std::vector<std::string> break_names;  // breakable_main inserts them after the command
  cli.texts("--break", break_names, "run the input that shows what the instructions @NAME do");

  std::string program_name;
  RunOptions run_options, matmul_options, softmax_options, attention_options;
  fa::Cli& run_cli = cli.command("run", "run a trace file");
  run_cli.positional("PROGRAM", program_name, "the trace file, or the name of one in programs/");
  run_options.add_to(run_cli, {"a", "b", "x", "q", "k", "v"});

  std::string order = "inner", algorithm = "safe", operands = "fixed";
  std::int64_t n = 0, dim = 1, registers = 0;
  fa::Cli& matmul_cli = cli.command("matmul", "run an n x n matrix product");
  matmul_cli.choice("--order", order, {"inner", "outer"}, "element by element, or k by k");
  matmul_cli.choice("--operands", operands, {"fixed", "any"}, "which registers a MAC multiplies");
  matmul_cli.integer("--n", n, 1, 8, "size of the matrices; 2 unless given");
  matmul_options.add_to(matmul_cli, {"a", "b"});

  fa::Cli& softmax_cli = cli.command("softmax", "run a softmax of n numbers");
  softmax_cli.choice("--algorithm", algorithm, {"safe", "online"}, "three passes, or two");
  softmax_cli.integer("--n", n, 1, 1024, "how many numbers; 6 unless given");
  softmax_options.add_to(softmax_cli, {"x"});

  fa::Cli& attention_cli = cli.command("attention", "run the attention of one query");
  attention_cli.integer("--n", n, 1, 1024, "how many keys; 6 unless given");
  attention_cli.integer("--dim", dim, 1, 16, "length of q, of a key, of a value; 1 unless given");
  attention_options.add_to(attention_cli, {"q", "k", "v"});

  std::string optimum_json, searched = "any";
  fa::Cli& optimum_cli = cli.command("optimum", "the fewest cycles of any 2 x 2 matrix product");
  optimum_cli.integer("--registers", registers, 2, 8, "registers; without it a table of all");
  optimum_cli.choice("--operands", operands, {"fixed", "any"}, "which registers a MAC multiplies");
  optimum_cli.choice("--order", searched, {"any", "inner"},
                     "all programs, or those that finish an element before the next");
  optimum_cli.output_file("--json", optimum_json, "write the result to this file");

  cli.optional_command();
  const std::string command = cli.parse(call.argc, call.argv);
  if (list || run_options.list || matmul_options.list || softmax_options.list ||
      attention_options.list) {
    std::cout << fa::list_breaks(CH01_BREAKS);
    return fa::kAgreed;
  }
  const OperandRule rule = operands == "any" ? OperandRule::kAny : OperandRule::kFixed;
  const auto size = [&](int otherwise) { return n ? static_cast<int>(n) : otherwise; };
  if (command == "run") {
    const std::string path = find_program(program_name);
    if (!run_options.json.empty()) {
      fa::check_files(std::vector<fa::FileArgument>{{"PROGRAM", path, false},
                                                    {"--json", run_options.json, true}});
    }
    return run_program(fa::read_file(path), path, run_options, call);
  }
  if (command == "matmul") {
    const Order by = order == "inner" ? Order::kInner : Order::kOuter;
    return run_program(matmul_program(by, rule, size(2)), "matmul", matmul_options, call);
  }
  if (command == "softmax") {
    const Softmax by = algorithm == "safe" ? Softmax::kSafe : Softmax::kOnline;
    return run_program(softmax_program(by, size(6)), "softmax", softmax_options, call);
  }
  if (command == "attention") {
    return run_program(attention_program(size(6), static_cast<int>(dim)), "attention",
                       attention_options, call);
  }
  if (command == "optimum") {
    const Schedule schedule = searched == "inner" ? Schedule::kInner : Schedule::kAll;
    if (registers) {
      return print_optimum(static_cast<int>(registers), rule, schedule, optimum_json);
    }
    for (const char* option : {"--operands", "--order", "--json"}) {
      if (optimum_cli.given(option)) {
        throw fa::InputError(std::string("optimum: ") + option + " needs --registers");
      }
    }
    return print_all_optima();
  }
  return tell_story(std::cout) ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace
}  // namespace ch01

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH01_BREAKS, ch01::run_command);
}
