// A parsed trace, which has the machine, the arrays in DRAM and the instructions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/breaks.hpp"

namespace ch01 {

// The two machines have the same registers and DRAM but different instructions.
enum class Machine { kMac, kAlu };

// The registers that a MAC may multiply, either only R0 and R1, or any two.
enum class OperandRule { kFixed, kAny };

enum class Op { kLoad, kStore, kMacZ, kMac, kMax, kSub, kExp, kAdd, kMul, kDiv, kMov };

// The format of an instruction. It reads `sources` registers and writes one (STORE writes none).
struct OpInfo {
  Op op;
  const char* name;
  int sources;         // registers read, written before the destination
  bool on_mac;         // available on the MAC machine
  bool on_alu;         // available on the ALU machine
  const char* syntax;  // for error messages
};
std::span<const OpInfo> all_ops();
const OpInfo& info(Op op);

inline constexpr int kMaxRegisters = 128;

// One array in DRAM, row-major. Inputs are read-only and start with `values`. Outputs start
// unwritten.
struct Array {
  std::string name;
  std::vector<int> shape;  // one or two lengths
  bool is_input = true;
  std::vector<float> values;  // one per cell, inputs only
  int size() const;
};

// One cell of one array, e.g. a[0][1].
struct Cell {
  int array = 0;  // index into Program::arrays
  int index = 0;  // row-major
};

// A position in the trace file for error messages, counted from 1.
struct Place {
  int line = 0;
  int column = 0;
};

struct Instruction {
  Op op = Op::kLoad;
  std::vector<int> registers;           // in the order of the text, sources, then the destination
  Cell cell;                            // LOAD and STORE only
  std::string result_name;              // `-> name`: the table's name of the result, or empty
  std::vector<std::string> removed_by;  // `@name`: omitted with --break name
  Place place;                          // position of the mnemonic
  std::vector<Place> register_places;   // position of each register
  Place cell_place;

  bool writes_register() const { return op != Op::kStore; }
  int destination() const { return registers.back(); }
};

// The formula that the outputs are compared with. verify.hpp lists them.
enum class Check { kMatmul, kSoftmax, kAttention, kRatio, kSum, kVariance };

struct Program {
  std::string name;  // file name or the generator's name, for messages
  Machine machine = Machine::kMac;
  int registers = 0;
  OperandRule operands = OperandRule::kFixed;  // MAC machine only
  std::vector<Array> arrays;
  Check check = Check::kMatmul;
  int check_cell = -1;       // the only output cell to compare, or -1 for all
  int promised_cycles = -1;  // from a line `22 cycles`: the required cost, or -1
  std::vector<Instruction> instructions;

  const Array* find(const std::string& array) const;  // nullptr if there is none
};

// Returns the named parts of a program that a learner can remove, the values of --break.
std::span<const fa::Break> breaks();

// Returns the check's name in a `.check` line.
const char* check_name(Check check);

// Return a cell's name as "a[0][1]", or as the symbol "a01" ("a0,12" if an index has two digits).
std::string cell_text(const Program& program, Cell cell);
std::string cell_symbol(const Program& program, Cell cell);

// Returns the instruction in the notation of trace files, without its `-> name` and `@name`.
std::string instruction_text(const Program& program, const Instruction& instruction);

// Returns the whole program as a trace file. parse_program of that text returns the same program.
std::string program_text(const Program& program);

// Returns the program without the instructions that the breaks remove. Throws fa::InputError if a
// name is not a break, or if it removes nothing from this program.
Program without(const Program& program, const std::vector<std::string>& break_names);

}  // namespace ch01
