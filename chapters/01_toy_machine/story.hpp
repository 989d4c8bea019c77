// Runs the chapter's programs in the lesson's order and checks the lesson's claims about them.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ch01 {

// Prints the cost of each program of the lesson, with one sentence each. Returns true if every
// result and every cost agrees with the lesson, including the failures of the programs that must
// fail. Throws fa::InputError if a program of the chapter cannot be read.
bool tell_story(std::ostream& out);

// Returns the fewest cycles for 2 to 8 registers, for both operand rules and for all programs and
// inner products, as rows of cells under a heading.
std::vector<std::vector<std::string>> optimum_table();

// Returns the path of the chapter's program of that name, programs/NAME.txt.
std::string shipped_program_path(const std::string& name);

}  // namespace ch01
