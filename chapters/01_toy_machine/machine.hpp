// Runs a program on the toy machine, which has fp32 registers and DRAM and executes one instruction
// per cycle.
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

// The registers after one instruction.
struct Step {
  std::vector<Register> registers;  // [program.registers]
  std::string formula;              // the computed value, if the symbol is a `-> name`; else empty
};

// The cost of a run. One instruction takes one cycle, and one number has 4 bytes.
struct Cost {
  int cycles = 0;
  int loads = 0;   // DRAM reads
  int stores = 0;  // DRAM writes
  int macs = 0;    // MAC and MAC_Z
  int flops = 0;   // 2 per MAC, 1 per other ALU operation, 0 per MOV
  int passes = 0;  // the largest number of reads of one input cell
  int bytes() const { return 4 * (loads + stores); }
  double intensity() const { return static_cast<double>(flops) / bytes(); }  // FLOP per byte moved
};

struct Run {
  std::vector<Step> steps;                 // one per instruction, or empty without keep_steps
  std::vector<std::vector<float>> memory;  // [array][cell], NaN before the first STORE
  Cost cost;
};

// Replaces the values of input arrays. `values` maps an array's name to one number per cell. Throws
// fa::InputError if a name is not an input or if the count is wrong.
void set_inputs(Program& program, const std::map<std::string, std::vector<float>>& values);

// Runs a program that validate() accepted. With `keep_steps`, Run::steps records all registers
// after every instruction.
Run run(const Program& program, bool keep_steps);

}  // namespace ch01
