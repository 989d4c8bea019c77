#include "common/break_demos.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "common/guarded_main.hpp"
#include "common/parse.hpp"
#include "common/text.hpp"
#include "common/words.hpp"

namespace fa {
namespace {

// Options that every program may have and that change neither tensors nor masks.
constexpr const char* SETTINGS =
    "--break --device --dtype --layout --schedule-seed --events --allow-undefined --json --out "
    "--lse --dq "
    "--dk --dv --profile --bench --trace --trace-row";
constexpr const char* SEEDS[] = {"1", "2"};  // two orders of the emulator's threads

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  Words words;
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// An option with its values, or a command, whose `option` is empty.
struct Argument {
  std::string option;
  Words words;
};

std::vector<Argument> grouped(const Words& words) {
  std::vector<Argument> arguments;
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      arguments.push_back({word.substr(0, word.find('=')), {word}});
    } else if (arguments.empty() || arguments.back().option.empty() ||
               (arguments.back().option == "--break" &&
                arguments.back().words.size() + (arguments.back().words[0] != "--break") == 2)) {
      arguments.push_back({"", {word}});
    } else {
      arguments.back().words.push_back(word);
    }
  }
  return arguments;
}

Words flattened(const std::vector<Argument>& arguments) {
  Words words;
  for (const Argument& one : arguments)
    words.insert(words.end(), one.words.begin(), one.words.end());
  return words;
}

// `arguments` without the options that `options` has.
std::vector<Argument> without(std::vector<Argument> arguments, const Words& options) {
  std::erase_if(arguments, [&](const Argument& one) {
    return std::find(options.begin(), options.end(), one.option) != options.end();
  });
  return arguments;
}

std::vector<Argument> with(std::vector<Argument> arguments, const std::vector<Argument>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool has(const std::vector<Argument>& arguments, const char* option, const char* value = "") {
  return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& one) {
    return one.option == option && (*value == '\0' || one.words.back() == value ||
                                    one.words[0].ends_with('=' + std::string(value)));
  });
}

// The breaks that the arguments name.
Words named_breaks(const std::vector<Argument>& arguments) {
  Words names;
  for (const Argument& one : arguments) {
    if (one.option != "--break") continue;
    const size_t equals = one.words[0].find('=');
    if (equals != std::string::npos) names.push_back(one.words[0].substr(equals + 1));
    if (equals == std::string::npos && one.words.size() > 1) names.push_back(one.words[1]);
  }
  return names;
}

// The break of that name, or null.
const BreakDemo* find(const BreakDemos& demos, const std::string& name) {
  for (const BreakDemo& one : demos.all) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

void check_known(const BreakDemos& demos, const Words& names) {
  for (const std::string& name : names) {
    if (find(demos, name) != nullptr) continue;
    std::string listed;
    for (const BreakDemo& one : demos.all)
      listed += (listed.empty() ? "" : ", ") + std::string(one.name);
    throw InputError("--break " + shown(name) + ": accepted: " + listed);
  }
}

// Values of `a` whose bits differ from those of `b`, and all values of `a`.
struct Differences {
  int64_t differing = 0, all = 0;
};
Differences differences(const RunResult& a, const RunResult& b) {
  Differences found;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    for (size_t j = 0; j < a.outputs[i].size(); ++j, ++found.all) {
      const float x = a.outputs[i][j], y = b.outputs[i][j];
      found.differing += !(x == y || (x != x && y != y));
    }
  }
  return found;
}

// A symptom that is too long for its line continues below, after its last semicolon.
std::string in_80_columns(std::string symptom) {
  const size_t last = symptom.rfind("; ");
  if (symptom.size() > 59 && last != std::string::npos)
    symptom.replace(last, 2, ";\n" + std::string(21, ' '));
  return symptom;
}

std::string of(int64_t count, int64_t all) {
  return std::to_string(count) + " of " + std::to_string(all) + " values ";
}

// "2 of 64 values are wrong, largest error 0.31; 1 hazard: read_before_wait"
std::string described(const RunResult& result) {
  std::string text = "the check passes";
  if (result.nonfinite > 0) {
    text = of(result.nonfinite, result.elements) + "are not finite";
  } else if (result.mismatches > 0) {
    text = of(result.mismatches, result.elements) + "are wrong";
  } else if (!result.passed) {
    text = "the check fails";
  }
  if (result.nonfinite == 0 && result.elements > 0) {
    text += fa::text(", largest error %.2g", result.max_abs_error);
  }
  if (result.hazards.empty()) return text;
  const std::set<std::string> kinds(result.hazards.begin(), result.hazards.end());
  text += "; " + std::to_string(result.hazards.size()) +
          (result.hazards.size() == 1 ? " hazard" : " hazards");
  const char* separator = ": ";
  for (const std::string& kind : kinds) text += separator + kind, separator = ", ";
  return text;
}

int64_t counted(const RunResult& result, const char* counter) {
  const auto found = result.counters.find(counter);
  return found == result.counters.end() ? -1 : found->second;
}

class BreakComparison {
 public:
  BreakComparison(const char* program, const ProgramBody& body) : program_(program), body_(body) {}

  int run(const std::vector<Argument>& arguments, Invocation& run) const {
    Words words = flattened(arguments);
    words.insert(words.begin(), program_);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    run.argc = static_cast<int>(words.size());
    run.argv = argv.data();
    return body_(run);
  }

  // How many values differ between two schedules.
  Differences between_schedules(const std::vector<Argument>& arguments) const {
    Invocation runs[2] = {{.silent = true}, {.silent = true}};
    for (int i = 0; i < 2; ++i) {
      run(with(without(arguments, {"--schedule-seed"}),
               {{"--schedule-seed", {"--schedule-seed", SEEDS[i]}}}),
          runs[i]);
    }
    return differences(runs[0].result, runs[1].result);
  }

 private:
  const char* program_;
  const ProgramBody& body_;
};

int written(const Invocation& run, int code) {
  if (!run.json.empty()) write_json(run.json, *run.report);
  return code;
}

std::string described(const Differences& found) {
  return of(found.differing, found.all) + "differ under --schedule-seed 1 and 2";
}

int run_breakable(const BreakDemos& demos, int argc, char** argv, const ProgramBody& body) {
  const std::vector<Argument> given = grouped(Words(argv + 1, argv + argc));
  if (argc == 2 && std::string_view(argv[1]) == "--list-breaks") {
    std::cout << list_breaks(demos);
    return kAgreed;
  }
  const Words names = named_breaks(given);
  const Words settings = split(std::string(SETTINGS) + " " + demos.settings);
  const bool own_input = !without(given, settings).empty();
  const bool is_known = !names.empty() && find(demos, names.front()) != nullptr;
  if (demos.all.empty() || names.empty() || has(given, "--help") || (own_input && !is_known)) {
    Invocation run{argc, argv};  // a command may have a separate --break
    const int code = body(run);
    return written(run, code);
  }
  check_known(demos, names);
  const BreakDemo& demo = *find(demos, names.front());
  std::vector<Argument> broken = given;
  std::string heading;
  if (!own_input) {
    Words options = split(demos.not_taken);
    if (has(given, "--device", "auto")) broken = without(given, {"--device"});  // the input chooses
    for (const Argument& one : broken) options.push_back(one.option);
    const std::vector<Argument> input = without(grouped(split(demo.input)), options);
    broken = with(input, broken);
    heading = wrapped("input: " + joined(flattened(input)) + ", which shows " + demo.name + "\n");
    if (has(broken, "--device", "gpu") && (*demo.counter != '\0' || demo.schedules)) {
      throw InputError(std::string("--break ") + demo.name +
                       ": a GPU run does not show it, because " +
                       (demo.schedules ? "the bits of two schedules differ"
                                       : std::string("the counter ") + demo.counter + " changes") +
                       ": expected --device emulator");
    }
  }
  const BreakComparison comparison(demos.program, body);
  Invocation run{.heading = heading}, intact_run{.silent = true};
  const int code = comparison.run(broken, run);
  const RunResult &result = run.result, &expected = intact_run.result;
  if (own_input && code != kAgreed) return written(run, code);
  std::vector<Argument> intact = without(broken, {"--break", "--allow-undefined"});
  if (result.device == "emulator") {
    intact = with(without(intact, {"--device"}), {{"--device", {"--device", "emulator"}}});
  }

  const bool on_emulator = !has(broken, "--device", "gpu");
  const bool by_counter = *demo.counter != '\0' && on_emulator;
  const bool by_schedules = demo.schedules && on_emulator;
  if (!own_input || by_counter || by_schedules) comparison.run(intact, intact_run);
  std::string before = described(expected), now = described(result);
  nlohmann::json symptom;  // what is printed, and the numbers in it
  bool shows = code != kAgreed;
  if (by_counter) {
    const int64_t was = counted(expected, demo.counter), is = counted(result, demo.counter);
    shows = shows || was != is;
    symptom = {{"intact", {{"counter", was}}}, {"broken", {{"counter", is}}}};
    before += std::string("; ") + demo.counter + " " + std::to_string(was);
    now += std::string("; ") + demo.counter + " " + std::to_string(is);
  }
  if (by_schedules) {
    const Differences were = comparison.between_schedules(intact),
                      are = comparison.between_schedules(broken);
    shows = shows || (were.differing == 0 && are.differing > 0);
    symptom["intact"]["differing"] = were.differing;
    symptom["broken"]["differing"] = are.differing;
    before += "; " + described(were);
    now += "; " + described(are);
  }
  if (!shows) {
    const std::vector<Argument> input = grouped(split(demo.input));
    const bool names_device = !on_emulator || has(input, "--device");
    std::string command = wrapped(
        std::string("  ") + demos.program + " " + joined(flattened(without(input, {"--device"}))) +
            " --break " + demo.name + (names_device ? " --device emulator" : ""),
        78);
    for (size_t end = 0; (end = command.find('\n', end)) != std::string::npos; end += 3) {
      command.insert(end, " \\");
    }
    std::cout << std::string("this input does not show ") + demo.name + "; this one does:\n" +
                     command + "\n";
    return written(run, code);
  }
  std::cout << "  symptom    intact: " + in_80_columns(before) +
                   "\n             broken: " + in_80_columns(now) + "\n";
  symptom["intact"]["text"] = before;
  symptom["broken"]["text"] = now;
  if (run.report) (*run.report)["symptom"] = symptom;
  return written(run, kDisagreed);
}

}  // namespace

int breakable_main(int argc, char** argv, const BreakDemos& demos, const ProgramBody& body) {
  return guarded_main(argc, argv,
                      [&](int, char**) { return run_breakable(demos, argc, argv, body); });
}

std::string list_breaks(const BreakDemos& demos) {
  size_t width = 0;
  for (const BreakDemo& one : demos.all) width = std::max(width, std::string_view(one.name).size());
  std::string text;
  for (const BreakDemo& one : demos.all) {
    std::string name = one.name;
    name.resize(width + 2, ' ');
    text += name + one.line + "\n";
  }
  return text;
}

}  // namespace fa
