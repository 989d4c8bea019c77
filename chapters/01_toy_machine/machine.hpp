// The machine: fp32 registers, DRAM, one instruction a cycle.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program.hpp"
#include "symbol.hpp"

namespace ch01 {

struct Register {
  bool full = false;
  float number = 0;
  Symbol symbol;
};

// The machine after one instruction.
struct Step {
  std::vector<Register> registers;  // [program.registers]
  std::string formula;              // what was computed, where a `-> name` hides it; else empty
};

// What a run costs. One instruction is one cycle; one number is 4 bytes.
struct Cost {
  int cycles = 0;
  int loads = 0;   // DRAM reads
  int stores = 0;  // DRAM writes
  int macs = 0;    // MAC and MAC_Z
  int flops = 0;   // 2 for each MAC, as usual; 1 for each ALU operation; 0 for MOV
  int passes = 0;  // how often the input read most often was read
  int bytes() const { return 4 * (loads + stores); }
  double intensity() const { return static_cast<double>(flops) / bytes(); }  // FLOP per byte moved
};

struct Run {
  std::vector<Step> steps;                 // one per instruction; empty if not asked for
  std::vector<std::vector<float>> memory;  // per array; what was never stored is NaN
  Cost cost;
};

// Replaces input arrays by `values` (array name → one number per cell). Throws fa::InputError for a
// name that is not an input, and for a wrong count.
void set_inputs(Program& program, const std::map<std::string, std::vector<float>>& values);

// Runs the program. It must have passed validate(). `keep_steps` records every register after
// every instruction.
Run run(const Program& program, bool keep_steps);

}  // namespace ch01
