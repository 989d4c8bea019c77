// A trace as data: which machine, which arrays in DRAM, which instructions. No behaviour.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/breaks.hpp"

namespace ch01 {

// Two machines share registers and DRAM and differ in what they compute.
enum class Machine { kMac, kAlu };

// Which registers a MAC may multiply: R0 and R1 only, or any two.
enum class OperandRule { kFixed, kAny };

enum class Op { kLoad, kStore, kMacZ, kMac, kMax, kSub, kExp, kAdd, kMul, kDiv, kMov };

// How an instruction is written: `sources` registers are read, and one is written (not by STORE).
struct OpInfo {
  Op op;
  const char* name;
  int sources;         // registers read, in front of the destination
  bool on_mac;         // the MAC machine has it
  bool on_alu;         // the ALU machine has it
  const char* syntax;  // for messages
};
std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);

inline constexpr int kMaxRegisters = 128;

// One array in DRAM, row-major. Inputs are read-only and hold `values`; outputs start unwritten.
struct Array {
  std::string name;
  std::vector<int> shape;  // one or two lengths
  bool is_input = true;
  std::vector<float> values;  // inputs: one per cell
  int size() const;
};

// One cell of one array, e.g. a[0][1].
struct Cell {
  int array = 0;  // position in Program::arrays
  int index = 0;  // row-major
};

// Where something stands in the trace file, from 1; for error messages.
struct Place {
  int line = 0;
  int column = 0;
};

struct Instruction {
  Op op = Op::kLoad;
  std::vector<int> registers;           // as written: sources, then the destination
  Cell cell;                            // LOAD and STORE only
  std::string result_name;              // `-> name`: what the table calls the result; or empty
  std::vector<std::string> removed_by;  // `@name`: left out under --break name
  Place place;                          // of the mnemonic
  std::vector<Place> register_places;   // of each register
  Place cell_place;

  bool writes_register() const { return op != Op::kStore; }
  int destination() const { return registers.back(); }
};

// What the outputs are compared with; the formulas stand in verify.cpp.
enum class Check { kMatmul, kSoftmax, kAttention, kRatio, kSum, kVariance };

struct Program {
  std::string name;  // file name or the generator's, for messages
  Machine machine = Machine::kMac;
  int registers = 0;
  OperandRule operands = OperandRule::kFixed;  // MAC machine only
  std::vector<Array> arrays;
  Check check = Check::kMatmul;
  int check_cell = -1;       // only this cell of the output; -1: all of it
  int promised_cycles = -1;  // a line `22 cycles`: run holds it to that
  std::vector<Instruction> instructions;

  const Array* find(const std::string& array) const;  // nullptr if there is none
};

// The named things that a learner can remove, and the values of --break.
std::span<const fa::Break> breaks();

// The check's name as `.check` has it.
const char* check_name(Check check);

// "a[0][1]" and, as a symbol of algebra, "a01" ("a0,12" from two digits on).
std::string cell_text(const Program& program, Cell cell);
std::string cell_symbol(const Program& program, Cell cell);

// The instruction in the notation of the trace files, without name and breaks.
std::string instruction_text(const Program& program, const Instruction& instruction);

// The whole program as a trace file; parse_program of it gives the program back.
std::string program_text(const Program& program);

// The program without the instructions that a break removes. Throws fa::InputError if a name is not
// a break, or removes nothing from this program.
Program without(const Program& program, const std::vector<std::string>& break_names);

}  // namespace ch01
