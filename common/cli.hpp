#pragma once
// Command lines, as a thin layer over CLI11, which only cli.cpp includes because it compiles
// slowly. parse.hpp parses the numbers strictly.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/parse.hpp"

namespace fa {

// A program's own option whose value is a whole number. 0 to 1 is a switch. If 0 is accepted, it
// means off, or that the program chooses.
struct IntegerOption {
  const char* name;  // "--stages"
  int min, max, fallback;
  const char* about;
  const char* title;  // comes after the number: "3 stages"; without it if a switch is on; may be
                      // empty
};

class Cli {
 public:
  Cli(const std::string& program, const std::string& about);
  ~Cli();
  Cli(const Cli&) = delete;

  // Adds a subcommand, which accepts only its own options. The user must then name a subcommand,
  // unless optional_command() was called.
  Cli& command(const std::string& name, const std::string& about);
  void optional_command();

  // A target keeps its value unless the option is given.
  void text(const std::string& option, std::string& target, const std::string& help);
  // A file that the program reads or writes. parse() calls check_files for those that are given.
  void input_file(const std::string& option, std::string& target, const std::string& help);
  void output_file(const std::string& option, std::string& target, const std::string& help);
  void choice(const std::string& option, std::string& target,
              const std::vector<std::string>& accepted, const std::string& help);
  void texts(const std::string& option, std::vector<std::string>& target, const std::string& help);
  void integer(const std::string& option, int64_t& target, int64_t minimum, int64_t maximum,
               const std::string& help);
  void real(const std::string& option, double& target, const std::string& help);
  void flag(const std::string& option, bool& target, const std::string& help);
  void positional(const std::string& name, std::string& target, const std::string& help);
  // Leaves an option out of --help, because the program takes it only to say that it is elsewhere.
  void unlist(const std::string& option);

  // True if the user gave the option.
  bool given(const std::string& option) const;

  // Returns the name of the chosen subcommand, or "". Prints the help and exits with 0 on --help.
  // Throws InputError with one sentence for any error.
  std::string parse(int argc, char** argv);

 private:
  struct Impl;
  explicit Cli(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fa
