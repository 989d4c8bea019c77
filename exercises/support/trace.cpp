#include "exercises/support/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "common/file.hpp"
#include "exercises/support/todo.hpp"
#include "parser.hpp"

namespace exercise {
namespace {

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// The text with its TODO lines emptied, so that line numbers stay, with the first of them in
// `todo`.
std::string without_todo(const std::string& text, std::string& todo) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) {
    const bool is_todo = trimmed(line).starts_with("TODO(");
    if (is_todo && todo.empty()) todo = trimmed(line);
    result += (is_todo ? "" : line) + "\n";
  }
  return result;
}

// The lines that describe the machine and the task, one after the other.
std::string header(ch01::Program program) {
  program.instructions.clear();
  program.promised_cycles = -1;
  return ch01::program_text(program);
}

}  // namespace

std::string answer_path(const char* copy, const char* stub) {
  if (const char* named = std::getenv("EXERCISE_ANSWER")) return named;
  return std::filesystem::exists(copy) ? copy : stub;
}

Refused::Refused(const std::string& what, const ch01::Program& program) : fa::InputError(what) {
  std::set<int> full;
  for (const ch01::Instruction& instruction : program.instructions) {
    for (int i = 0; i < ch01::info(instruction.op).sources; ++i) {
      if (full.count(instruction.registers[i])) continue;
      op = instruction.op, source = i;
      return;
    }
    if (instruction.writes_register()) full.insert(instruction.destination());
  }
}

Trace::Trace(const std::string& path, const std::string& stub) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::string todo, ignored;
  const std::string text = without_todo(fa::read_file(path), todo);
  if (!todo.empty()) throw Todo(todo);
  program_ = ch01::parse_program(text, name);
  const std::string given = without_todo(fa::read_file(stub), ignored);
  const std::string mine = header(program_), theirs = header(ch01::parse_program(given, name));
  if (mine != theirs) {
    throw fa::InputError(name +
                         ": the lines that begin with a dot describe the exercise; they were\n" +
                         theirs + "and are\n" + mine);
  }
  try {
    ch01::validate(program_);
  } catch (const fa::InputError& error) {
    throw Refused(error.what(), program_);
  }
  cost_ = ch01::run(program_, false).cost;
}

Numbers Trace::output(const Inputs& inputs) const {
  ch01::Program program = program_;
  ch01::set_inputs(program, inputs);
  const ch01::Run result = ch01::run(program, false);
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    if (!program.arrays[i].is_input) return numbers(result.memory[i]);
  }
  return {};
}

int Trace::loads_of(const std::string& cell) const {
  return static_cast<int>(std::count_if(
      program_.instructions.begin(), program_.instructions.end(), [&](const auto& instruction) {
        return instruction.op == ch01::Op::kLoad &&
               ch01::cell_text(program_, instruction.cell) == cell;
      }));
}

void Trace::check_cycles(int best, const std::vector<Suspect>& suspects, int line,
                         const char* file) const {
  const int cycles = cost_.cycles;
  if (cycles < best) {
    MESSAGE("the best known was ", best, " cycles; yours takes ", cycles, ": tell us");
  }
  check(cycles <= best,
        "right, but it takes " + std::to_string(cycles) + " cycles (" +
            std::to_string(cost_.loads) + " LOAD, " + std::to_string(cost_.stores) +
            " STORE); the best known takes " + std::to_string(best),
        suspects, line, file);
}

}  // namespace exercise
