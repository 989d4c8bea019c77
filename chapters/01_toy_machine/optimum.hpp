// The fewest cycles in which any program multiplies two 2×2 matrices on the MAC machine.
//
// The search space and the proof that nothing shorter lies outside it: optimum.cpp, top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"

namespace ch01 {

// Which programs are searched: all, or those that finish an element of C before they begin another.
enum class Schedule { kAll, kInner };

struct Optimum {
  bool possible = false;           // false: no program with so few registers exists
  int cycles = 0;                  // length of the shortest program
  int loads = 0;                   // its LOADs; the MACs are always 8
  int stores = 0;                  // its STOREs; more than 4 means that partial sums were parked
  std::vector<std::string> trace;  // one such program, an instruction per element
  std::int64_t states = 0;         // states that the search looked at
};

// Searches the programs for `registers` (2 to 8) registers. Throws std::invalid_argument outside.
Optimum find_optimum(int registers, OperandRule rule, Schedule schedule = Schedule::kAll);

// The trace of a possible optimum as a program file, after its line `N cycles`.
std::string optimum_program(const Optimum& optimum, int registers, OperandRule rule);

}  // namespace ch01
