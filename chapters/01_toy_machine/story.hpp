// The chapter told by its programs.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ch01 {

// Runs the chapter's programs in the order of the lesson, a sentence each, and prints what they
// cost. True if every result and every cost is what the lesson says, failures of the programs that
// must fail included. Throws fa::InputError if a shipped program cannot be read.
bool tell_story(std::ostream& out);

// The fewest cycles for 2 to 8 registers, both operand rules, all programs and inner products; rows
// of cells under a heading.
std::vector<std::vector<std::string>> optimum_table();

// Where the shipped program of that name lies: programs/NAME.txt beside this source.
std::string shipped_program_path(const std::string& name);

}  // namespace ch01
