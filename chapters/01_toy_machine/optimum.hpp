// Finds the fewest cycles in which any program multiplies two 2×2 matrices on the MAC machine. The
// top of optimum.cpp describes the search space and proves that no shorter program is outside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"

namespace ch01 {

// The searched programs are all, or only those that finish an element of C before they begin
// another.
enum class Schedule { kAll, kInner };

struct Optimum {
  bool possible = false;           // false if no program with so few registers exists
  int cycles = 0;                  // cycles of the shortest program
  int loads = 0;                   // its LOADs (the number of MACs is always 8)
  int stores = 0;                  // its STOREs, more than 4 if it saves partial sums
  std::vector<std::string> trace;  // one such program, one instruction per element
  std::int64_t states = 0;         // number of states that the search expanded
};

// Searches the programs for `registers` registers. Throws std::invalid_argument outside 2 to 8.
Optimum find_optimum(int registers, OperandRule rule, Schedule schedule = Schedule::kAll);

// Returns the program of an optimum with `possible` as a trace file, without a line `N cycles`.
std::string optimum_program(const Optimum& optimum, int registers, OperandRule rule);

}  // namespace ch01
