// A* search over the states of the MAC machine, from the empty state to the state with all of C in
// DRAM.
//
// A program is any sequence of LOAD, STORE, MAC_Z and MAC on R registers that leaves C = A·B in
// DRAM for every A and B, over the real numbers. A and B are read-only. A program may write and
// read back cells of C, also with an unfinished sum. It may not read a register or a cell of C that
// was never written. Any register may be a destination, also one of the instruction's own operands.
//
// The search leaves out the following programs, because none of them can be shorter:
//   1. The machine has no subtraction and no constants. Every value is therefore a polynomial
//      in the entries of A and B with positive coefficients and no constant term, in which nothing
//      cancels. A value with a monomial that c_ij does not have cannot become part of c_ij. The two
//      monomials of c_ij = a_i0·b_0j + a_i1·b_1j have no common factor, so a product of two values
//      is part of c_ij only if its factors are a_ik and b_kj. The only useful values are therefore
//      the eight inputs and, for each c_ij, its first term, its second term and their sum. (This
//      also excludes Strassen's seven products, which need subtraction.)
//   2. c_ij is stored from one register, whose value came from one MAC_Z and one MAC. Any
//      other MAC, and any value that is overwritten before its use, is superfluous, because the
//      program without it is shorter. A shortest program therefore has 8 MACs, and the search
//      never drops an unsaved sum.
//   3. A term that is saved in DRAM can be saved in its own c_ij, which is unused until c_ij is
//      finished.
//   4. The search does not load an input that is already in a register or that no remaining product
//      needs, because the same program works without that LOAD (with R0 and R1 exchanged on the
//      `fixed` machine). On the `fixed` machine an input outside R0 and R1 cannot be multiplied,
//      because no instruction copies a register.
//
// Two states count as one if they differ only in the order of interchangeable registers, or by an
// exchange of the rows of A, the columns of B, the two values of k, or A and Bᵀ (16 symmetries).
// Every program from one of them translates, cycle by cycle, into a program from the other.
#include "optimum.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>

namespace ch01 {
namespace {

constexpr int kMostRegisters = 8;
constexpr int kMatrixA = 0;
constexpr int kMatrixB = 1;

// The content of a register as a number below 32, which stands for nothing useful, one of the 8
// inputs, or for one of the 4 outputs the term of k = 0, the term of k = 1, or their sum.
using Value = std::uint8_t;
constexpr Value kFree = 0;
constexpr int kSum = 2;
constexpr Value input(int matrix, int row, int column) {
  return static_cast<Value>(1 + 4 * matrix + 2 * row + column);
}
constexpr Value output(int cell, int part) { return static_cast<Value>(9 + 3 * cell + part); }
constexpr bool is_input(Value v) { return v >= 1 && v <= 8; }
constexpr bool is_output(Value v) { return v >= 9; }
constexpr int cell_of(Value v) { return (v - 9) / 3; }
constexpr int part_of(Value v) { return (v - 9) % 3; }

// The content of an output's cell in DRAM, in two bits, which stand for nothing, one term, or the
// finished sum.
constexpr int kNothing = 0;
constexpr int kFinished = 3;
constexpr int parked(int term) { return 1 + term; }

struct State {
  std::array<Value, kMostRegisters> registers{};
  std::array<std::uint8_t, 4> dram{};  // [c00, c01, c10, c11]
  auto operator<=>(const State&) const = default;
};

struct Move {
  std::string instruction;
  State next;
};

std::string name(int r) { return "R" + std::to_string(r); }
std::string address(char matrix, int row, int column) {
  return std::string(1, matrix) + "[" + std::to_string(row) + "][" + std::to_string(column) + "]";
}
std::string cell_address(int cell) { return address('c', cell / 2, cell % 2); }

class Search {
 public:
  Search(int registers, OperandRule rule, Schedule schedule)
      : num_registers_(registers), rule_(rule), schedule_(schedule) {}

  Optimum run();

 private:
  // Returns a bit mask of the terms of c_cell that are in a register or in DRAM, with bit k for
  // a_ik·b_kj.
  int terms_done(const State& s, int cell) const {
    if (s.dram[cell] == kFinished) return 3;
    int done = s.dram[cell] == kNothing ? 0 : 1 << (s.dram[cell] - 1);
    for (int r = 0; r < num_registers_; ++r) {
      const Value v = s.registers[r];
      if (is_output(v) && cell_of(v) == cell) done |= part_of(v) == kSum ? 3 : 1 << part_of(v);
    }
    return done;
  }

  bool holds(const State& s, Value v) const {
    return std::find(s.registers.begin(), s.registers.begin() + num_registers_, v) !=
           s.registers.begin() + num_registers_;
  }

  // Returns a bit mask with bit v set if a remaining product needs input v.
  int inputs_needed(const State& s) const {
    int needed = 0;
    for (int cell = 0; cell < 4; ++cell) {
      const int done = terms_done(s, cell);
      for (int k = 0; k < 2; ++k) {
        if (done >> k & 1) continue;
        needed |= 1 << input(kMatrixA, cell / 2, k) | 1 << input(kMatrixB, k, cell % 2);
      }
    }
    return needed;
  }

  // Returns a lower bound for the cycles that any program needs from this state, which are its
  // MACs, its final STOREs, and one LOAD for each needed input and each saved term that is in no
  // register.
  int cycles_left_at_least(const State& s) const {
    int cycles = 0;
    for (int cell = 0; cell < 4; ++cell) {
      const int done = terms_done(s, cell);
      cycles += 2 - (done & 1) - (done >> 1) + (s.dram[cell] != kFinished);
      if (s.dram[cell] == parked(0) || s.dram[cell] == parked(1))
        cycles += !holds(s, output(cell, s.dram[cell] - 1));
    }
    const int needed = inputs_needed(s);
    for (Value v = 1; v <= 8; ++v) cycles += (needed >> v & 1) && !holds(s, v);
    return cycles;
  }

  // True if register r can be overwritten without losing work. (An input can be reloaded.)
  bool overwritable(const State& s, int r) const {
    const Value v = s.registers[r];
    if (!is_output(v)) return true;
    return part_of(v) != kSum && s.dram[cell_of(v)] == parked(part_of(v));
  }

  void free_what_is_not_needed(State& s) const;
  State smallest_twin(const State& s) const;
  void append_macs(const State& s, int ra, int rb, std::vector<Move>& moves) const;
  std::vector<Move> moves(const State& s) const;

  int num_registers_;
  OperandRule rule_;
  Schedule schedule_;
};

void Search::free_what_is_not_needed(State& s) const {
  const int needed = inputs_needed(s);
  for (int r = 0; r < num_registers_; ++r) {
    Value& v = s.registers[r];
    if (is_input(v) && !(needed >> v & 1)) v = kFree;
  }
}

// Returns the image of a state under one of the 16 symmetries.
State image(const State& s, bool rows, bool columns, bool ks, bool transpose) {
  State t;
  const auto map_cell = [&](int cell) {
    const int i = cell / 2 ^ rows, j = cell % 2 ^ columns;
    return transpose ? 2 * j + i : 2 * i + j;
  };
  for (int r = 0; r < kMostRegisters; ++r) {
    const Value v = s.registers[r];
    if (is_input(v)) {
      const bool b = v > 4;
      int row = (v - 1) / 2 % 2, column = (v - 1) % 2;
      row ^= b ? ks : rows;
      column ^= b ? columns : ks;
      t.registers[r] = transpose ? input(!b, column, row) : input(b, row, column);
    } else if (is_output(v)) {
      const int part = part_of(v) == kSum ? kSum : part_of(v) ^ ks;
      t.registers[r] = output(map_cell(cell_of(v)), part);
    }
  }
  for (int cell = 0; cell < 4; ++cell) {
    const int held = s.dram[cell];
    const bool term = held == parked(0) || held == parked(1);
    t.dram[map_cell(cell)] = static_cast<std::uint8_t>(term && ks ? 3 - held : held);
  }
  return t;
}

// insertion sort, because g++ 12 warns about std::sort on eight bytes
void sort_registers(State& s, int begin, int end) {
  for (int i = begin + 1; i < end; ++i) {
    for (int j = i; j > begin && s.registers[j] < s.registers[j - 1]; --j) {
      std::swap(s.registers[j], s.registers[j - 1]);
    }
  }
}

// Returns the same representative for all states that differ by a symmetry or by the order of
// interchangeable registers.
State Search::smallest_twin(const State& s) const {
  State best;
  for (int symmetry = 0; symmetry < 16; ++symmetry) {
    State t = image(s, symmetry & 1, symmetry & 2, symmetry & 4, symmetry & 8);
    // On the fixed machine only R0 and R1, the operands, are interchangeable with each other.
    const int operands = rule_ == OperandRule::kFixed ? std::min(2, num_registers_) : 0;
    sort_registers(t, 0, operands);
    sort_registers(t, operands, num_registers_);
    if (symmetry == 0 || t < best) best = t;
  }
  return best;
}

// Appends every MAC_Z and MAC with operands ra and rb, if these hold a_ik and b_kj.
void Search::append_macs(const State& s, int ra, int rb, std::vector<Move>& moves) const {
  const Value a = s.registers[ra], b = s.registers[rb];
  if (!is_input(a) || !is_input(b) || a > 4 || b <= 4) return;
  const int i = (a - 1) / 2, k = (a - 1) % 2, j = (b - 5) % 2;
  if ((b - 5) / 2 != k) return;
  const int cell = 2 * i + j, done = terms_done(s, cell);
  if (done >> k & 1) return;
  if (schedule_ == Schedule::kInner && done == 0) {
    for (int other = 0; other < 4; ++other) {
      const int begun = terms_done(s, other);
      if (begun == 1 || begun == 2) return;
    }
  }
  // The fixed machine's syntax has R0 first, and the order does not change a product.
  const std::string operands = name(std::min(ra, rb)) + ", " + name(std::max(ra, rb)) + ", ";

  int addend = 0;  // the register with the other term
  if (done != 0) {
    while (addend < num_registers_ && s.registers[addend] != output(cell, 1 - k)) ++addend;
    if (addend == num_registers_) return;  // saved in DRAM and loaded first
  }
  for (int rd = 0; rd < num_registers_; ++rd) {
    if (!overwritable(s, rd) && !(done != 0 && rd == addend)) continue;
    Move move{
        done ? "MAC " + operands + name(addend) + ", " + name(rd) : "MAC_Z " + operands + name(rd),
        s};
    if (done) {
      move.next.registers[addend] = kFree;
      move.next.dram[cell] = kNothing;
    }
    move.next.registers[rd] = output(cell, done ? kSum : k);
    moves.push_back(std::move(move));
  }
}

std::vector<Move> Search::moves(const State& s) const {
  std::vector<Move> moves;
  const auto load = [&](Value v, const std::string& from, int rd) {
    if (!overwritable(s, rd)) return;
    Move move{"LOAD " + from + ", " + name(rd), s};
    move.next.registers[rd] = v;
    moves.push_back(std::move(move));
  };
  const bool fixed = rule_ == OperandRule::kFixed;
  const int num_operands = fixed ? std::min(2, num_registers_) : num_registers_;
  const int needed = inputs_needed(s);
  for (Value v = 1; v <= 8; ++v) {
    if (!(needed >> v & 1) || holds(s, v)) continue;
    const std::string from = address(v <= 4 ? 'a' : 'b', (v - 1) / 2 % 2, (v - 1) % 2);
    for (int rd = 0; rd < num_operands; ++rd) load(v, from, rd);
  }
  for (int cell = 0; cell < 4; ++cell) {
    const int held = s.dram[cell];
    if (held == kNothing || held == kFinished || holds(s, output(cell, held - 1))) continue;
    for (int rd = 0; rd < num_registers_; ++rd) {
      load(output(cell, held - 1), cell_address(cell), rd);
    }
  }
  for (int ra = 0; ra < num_operands; ++ra) {
    for (int rb = 0; rb < num_operands; ++rb) append_macs(s, ra, rb, moves);
  }
  for (int r = 0; r < num_registers_; ++r) {
    const Value v = s.registers[r];
    if (!is_output(v)) continue;
    const int cell = cell_of(v);
    Move move{"STORE " + name(r) + ", " + cell_address(cell), s};
    if (part_of(v) == kSum) {
      move.next.dram[cell] = kFinished;
      move.next.registers[r] = kFree;
    } else {
      if (s.dram[cell] != kNothing) continue;
      move.next.dram[cell] = static_cast<std::uint8_t>(parked(part_of(v)));
    }
    moves.push_back(std::move(move));
  }
  for (Move& move : moves) free_what_is_not_needed(move.next);
  return moves;
}

std::uint64_t pack(const State& s) {
  std::uint64_t bits = 0;
  for (const Value v : s.registers) bits = bits << 5 | v;
  for (const std::uint8_t d : s.dram) bits = bits << 2 | d;
  return bits;
}

State unpack(std::uint64_t bits) {
  State s;
  for (int cell = 3; cell >= 0; --cell, bits >>= 2) s.dram[cell] = bits & 3;
  for (int r = kMostRegisters - 1; r >= 0; --r, bits >>= 5) s.registers[r] = bits & 31;
  return s;
}

Optimum Search::run() {
  struct Reached {
    int cycles;
    std::uint64_t parent;
  };
  std::unordered_map<std::uint64_t, Reached> reached;
  std::vector<std::vector<std::pair<std::uint64_t, int>>> queue;  // by cycles so far + lower bound
  const auto push = [&](const State& s, int cycles, std::uint64_t parent) {
    const std::uint64_t key = pack(s);
    const auto [found, is_new] = reached.try_emplace(key, Reached{cycles, parent});
    if (!is_new && found->second.cycles <= cycles) return;
    found->second = {cycles, parent};
    const std::size_t total = static_cast<std::size_t>(cycles + cycles_left_at_least(s));
    if (queue.size() <= total) queue.resize(total + 1);
    queue[total].emplace_back(key, cycles);
  };

  Optimum result;
  const State start;
  push(start, 0, pack(start));
  for (std::size_t total = 0; total < queue.size() && !result.possible; ++total) {
    while (!queue[total].empty() && !result.possible) {
      const auto [key, cycles] = queue[total].back();
      queue[total].pop_back();
      if (reached.at(key).cycles != cycles)
        continue;  // a shorter path to this state was found
                   // later
      const State s = unpack(key);
      ++result.states;
      if (cycles_left_at_least(s) == 0) {
        result.possible = true;
        result.cycles = cycles;
        // Follow the representatives back to the start, then replay the path with real registers.
        std::vector<std::uint64_t> path;
        for (std::uint64_t at = key; at != pack(start); at = reached.at(at).parent) {
          path.push_back(at);
        }
        State here = start;
        for (auto next = path.rbegin(); next != path.rend(); ++next) {
          for (const Move& move : moves(here)) {
            if (pack(smallest_twin(move.next)) != *next) continue;
            result.trace.push_back(move.instruction);
            here = move.next;
            break;
          }
        }
        break;
      }
      for (const Move& move : moves(s)) push(smallest_twin(move.next), cycles + 1, key);
    }
  }
  for (const std::string& instruction : result.trace) {
    result.loads += instruction.starts_with("LOAD");
    result.stores += instruction.starts_with("STORE");
  }
  return result;
}

}  // namespace

Optimum find_optimum(int registers, OperandRule rule, Schedule schedule) {
  if (registers < 2 || registers > kMostRegisters) {
    throw std::invalid_argument("the search covers 2 to 8 registers");
  }
  return Search(registers, rule, schedule).run();
}

std::string optimum_program(const Optimum& optimum, int registers, OperandRule rule) {
  std::string text = ".machine mac\n.registers " + std::to_string(registers) + "\n.operands " +
                     (rule == OperandRule::kFixed ? "fixed" : "any") +
                     "\n.input a[2][2] = 1, 2, 3, 4\n.input b[2][2] = 5, 6, 7, 8\n"
                     ".output c[2][2]\n.check matmul\n\n";
  for (const std::string& instruction : optimum.trace) text += instruction + "\n";
  return text;
}

}  // namespace ch01
