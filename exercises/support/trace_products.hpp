#pragma once
// 2×2 products for the tests of 01_toy_machine, with the result of a trace, and its mistakes.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exercises/support/trace.hpp"

namespace exercise {

inline const Inputs kInFile = {{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}};
inline const Inputs kOther = {{"a", {2, -3, 5, 7}}, {"b", {-11, 4, 0.5f, 13}}};

// c_ij = sum of a_ik · b_kj
inline Numbers product(const Inputs& inputs) {
  const std::vector<float>&a = inputs.at("a"), &b = inputs.at("b");
  Numbers c(4);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 2; ++k) c[2 * i + j] += a[2 * i + k] * b[2 * k + j];
    }
  }
  return c;
}

// One factor of a product as a trace forms it, that is, the input that the register held, whether
// an earlier MAC had used it already, and the register's earlier contents.
struct Factor {
  std::string cell;
  bool used = false;
  std::set<std::string> before = {};
};
using Term = std::array<Factor, 2>;  // a's factor first, where there is one

// The products in each cell of the output, and all products that were formed.
struct Formulas {
  std::map<std::string, std::vector<Term>> cells;
  std::set<std::string> formed;
  std::set<std::multiset<std::string>> sums;  // sums of products that a register held at some time
  bool any_operands = false;                  // with two registers for operands, room must be made

  bool uses(const std::string& cell) const {
    return std::any_of(formed.begin(), formed.end(), [&](const std::string& term) {
      return term.find(cell) != std::string::npos;
    });
  }
};

inline std::string term_text(const Term& term) { return term[0].cell + "·" + term[1].cell; }

inline std::string sum_text(const std::vector<Term>& terms) {
  std::string all;
  for (const Term& term : terms) all += (all.empty() ? "" : " + ") + term_text(term);
  return all.empty() ? "nothing" : all;
}

inline Formulas formulas(const ch01::Program& program) {
  struct Value {
    Factor factor;
    std::vector<Term> terms;
  };
  std::vector<Value> registers(program.registers);
  Formulas result;
  result.any_operands = program.operands == ch01::OperandRule::kAny;
  for (const ch01::Instruction& instruction : program.instructions) {
    const auto& r = instruction.registers;
    if (instruction.op == ch01::Op::kLoad) {
      Value& value = registers[r[0]];
      Factor loaded{ch01::cell_symbol(program, instruction.cell), false, value.factor.before};
      if (!value.factor.cell.empty()) loaded.before.insert(value.factor.cell);
      value = {loaded, {}};
    } else if (instruction.op == ch01::Op::kStore) {
      result.cells[ch01::cell_symbol(program, instruction.cell)] = registers[r[0]].terms;
    } else {
      Term term = {registers[r[0]].factor, registers[r[1]].factor};
      if (term[0].cell > term[1].cell) std::swap(term[0], term[1]);
      result.formed.insert(term_text(term));
      Value sum;
      sum.factor.before = registers[r.back()].factor.before;
      if (instruction.op == ch01::Op::kMac) sum.terms = registers[r[2]].terms;
      sum.terms.push_back(term);
      registers[r[0]].factor.used = registers[r[1]].factor.used = true;
      registers[r.back()] = sum;
      std::multiset<std::string> held;
      for (const Term& one : sum.terms) held.insert(term_text(one));
      result.sums.insert(held);
    }
  }
  return result;
}

// For a right trace, true if two consecutive products belong to elements that share neither row nor
// column?
inline bool jumps(const ch01::Program& program) {
  std::vector<std::string> loaded(program.registers, "?00");
  std::string last;
  for (const ch01::Instruction& instruction : program.instructions) {
    const auto& r = instruction.registers;
    if (instruction.op == ch01::Op::kLoad) {
      loaded[r[0]] = ch01::cell_symbol(program, instruction.cell);
    } else if (instruction.op != ch01::Op::kStore) {
      const auto [a, b] = std::minmax(loaded[r[0]], loaded[r[1]]);
      const std::string element{a[1], b[2]};  // a_ik · b_kj belongs to c_ij
      if (!last.empty() && element[0] != last[0] && element[1] != last[1]) return true;
      last = element;
    }
  }
  return false;
}

inline Term term_of(int i, int j, int k) {
  const auto symbol = [](const char* name, int row, int column) {
    return name + std::to_string(row) + std::to_string(column);
  };
  return {Factor{symbol("a", i, k)}, Factor{symbol("b", k, j)}};
}

inline std::string transposed(const Factor& factor) {
  return {factor.cell[0], factor.cell[2], factor.cell[1]};
}

// The mistake in c_ij, by name, empty if it is right, or wrong without a name.
inline std::string mistake_in(const Formulas& seen, int i, int j) {
  const auto cell = seen.cells.find("c" + std::to_string(i) + std::to_string(j));
  if (cell == seen.cells.end()) return "store-forgotten";
  const std::vector<Term>& terms = cell->second;
  std::multiset<std::string> is, right;
  for (const Term& term : terms) is.insert(term_text(term));
  for (int k = 0; k < 2; ++k) right.insert(term_text(term_of(i, j, k)));
  if (is == right) return "";
  for (int other = 0; other < 4; ++other) {
    std::multiset<std::string> there;
    for (int k = 0; k < 2; ++k) there.insert(term_text(term_of(other / 2, other % 2, k)));
    if (is == there) return "stored-elsewhere";
  }
  if (std::includes(right.begin(), right.end(), is.begin(), is.end())) {
    for (const std::string& term : right)
      if (!is.count(term) && !seen.formed.count(term)) return "term-forgotten";
    return seen.sums.count(right) ? "sum-put-elsewhere" : "sum-begun-again";
  }
  if (std::includes(is.begin(), is.end(), right.begin(), right.end())) return "sum-not-begun";
  if (terms.size() != 2) return "";
  const auto factors = [](const std::vector<Term>& of) {
    std::multiset<std::string> cells;
    for (const Term& term : of)
      for (const Factor& factor : term) cells.insert(factor.cell);
    return cells;
  };
  if (factors(terms) == factors({term_of(i, j, 0), term_of(i, j, 1)})) return "factors-mispaired";
  for (int order = 0; order < 2; ++order) {  // which term is which
    std::set<std::string> kinds;
    for (int k = 0; k < 2; ++k) {
      const Term expected = term_of(i, j, k);
      int wrong = 0;
      for (const Factor& wanted : expected) {  // which of the factors is not there?
        const Term& term = terms[k ^ order];
        if (term[0].cell == wanted.cell || term[1].cell == wanted.cell) continue;
        const Factor& kept = &wanted == &expected[0] ? expected[1] : expected[0];
        const Factor& instead = term[0].cell == kept.cell ? term[1] : term[0];
        ++wrong;
        const bool may_be_early = seen.any_operands || !seen.uses(wanted.cell);
        kinds.insert(may_be_early && instead.before.count(wanted.cell) ? "room-made-too-early"
                     : instead.used                                    ? "stale-operand"
                     : instead.cell == transposed(wanted)              ? "indices-transposed"
                     : seen.formed.count(term_text(expected))          ? "added to another"
                                                                       : "wrong-cell-loaded");
      }
      if (wrong > 1) kinds.insert("too much");
    }
    if (kinds.size() == 1 && !kinds.count("too much")) return *kinds.begin();
    if (kinds == std::set<std::string>{"indices-transposed", "wrong-cell-loaded"})
      return "wrong-cell-loaded";
  }
  return "";
}

inline bool close(double a, double b) { return std::abs(a - b) <= 1e-5 * (1 + std::abs(b)); }

// Every product was formed once, and some were added up in other elements than their own.
inline bool exchanged(const Formulas& seen, int count) {
  std::multiset<std::string> is, right;
  for (int at = 0; at < count; ++at) {
    const auto cell = seen.cells.find("c" + std::to_string(at / 2) + std::to_string(at % 2));
    if (cell == seen.cells.end()) return false;
    for (const Term& term : cell->second) is.insert(term_text(term));
    for (int k = 0; k < 2; ++k) right.insert(term_text(term_of(at / 2, at % 2, k)));
  }
  return is == right;
}

// Every factor is the one that belongs there, or that one with its indices exchanged.
inline bool only_transposed(const Formulas& seen, int count) {
  for (int at = 0; at < count; ++at) {
    const auto cell = seen.cells.find("c" + std::to_string(at / 2) + std::to_string(at % 2));
    if (cell == seen.cells.end() || cell->second.size() != 2) return false;
    bool fits = false;
    for (int order = 0; order < 2; ++order) {  // which term is which
      bool all = true;
      for (int k = 0; k < 2; ++k) {
        const Term wanted = term_of(at / 2, at % 2, k), &term = cell->second[k ^ order];
        for (int f = 0; f < 2; ++f)
          all &= term[f].cell == wanted[f].cell || term[f].cell == transposed(wanted[f]);
      }
      fits |= all;
    }
    if (!fits) return false;
  }
  return true;
}

static const char* const kSumNotBegun =
    "MAC adds to what the register holds, and here that is nothing, or terms of another element; "
    "MAC_Z begins a sum";

// The answer, if the machine takes it.
inline std::optional<Trace> accepted_answer(int line, const char* file) {
  std::optional<Trace> trace;
  std::string why;
  bool sum = false, factor = false;
  try {
    trace = answer();
  } catch (const Refused& refused) {
    why = refused.what();
    sum = refused.empty(ch01::Op::kMac, 2);
    factor = !sum && refused.source >= 0 && refused.op != ch01::Op::kStore;
  }
  check(trace.has_value(), why,
        {{"sum-not-begun", sum, kSumNotBegun},
         {"factor-not-loaded", factor, "a MAC multiplies a register that nothing was loaded into"}},
        line, file);
  return trace;
}

// The first `count` elements of the product, by number, where their errors are classified by the
// formula. A mistake is named if all that are wrong have it.
inline bool check_elements(const Inputs& inputs, int count = 4, int line = __builtin_LINE(),
                           const char* file = __builtin_FILE()) {
  const std::optional<Trace> trace = accepted_answer(line, file);
  if (!trace) return false;
  const Formulas seen = formulas(trace->program());
  const Numbers c = trace->output(inputs), expected = product(inputs);
  std::string message;
  std::set<std::string> mistakes;
  for (int at = 0; at < count; ++at) {
    const int i = at / 2, j = at % 2;
    const std::string mistake = mistake_in(seen, i, j),
                      name = "c" + std::to_string(i) + std::to_string(j);
    const bool ok = close(c[at], expected[at]);
    if (!ok || !mistake.empty()) mistakes.insert(mistake);
    if (ok) continue;
    const auto cell = seen.cells.find(name);
    message += (message.empty() ? "" : "\n") + name + ": expected " + text(expected[at]) +
               ", got " + text(c[at]) + "; it is " +
               (cell == seen.cells.end() ? "not stored" : sum_text(cell->second)) + ", expected " +
               sum_text({term_of(i, j, 0), term_of(i, j, 1)});
  }
  if (exchanged(seen, count) && mistakes.count("stored-elsewhere") == 0)
    mistakes = {"added-to-another-sum"};
  if (mistakes.count("indices-transposed") && only_transposed(seen, count))
    mistakes = {"indices-transposed"};  // kept for another product, it is no stale operand
  const auto all = [&](const char* name) { return mistakes == std::set<std::string>{name}; };
  check(
      message.empty(), message,
      {{"stale-operand", all("stale-operand"),
        "a factor is one that an earlier MAC used, and is still in the register. Load the one "
        "that is needed, or begin with the other term"},
       {"room-made-too-early", all("room-made-too-early"),
        "a factor was in its register once, and was overwritten before its last use"},
       {"indices-transposed", all("indices-transposed"),
        "an index pair is transposed: a row of A runs along its second index, a column of B "
        "along its first"},
       {"wrong-cell-loaded", all("wrong-cell-loaded"),
        "a LOAD brings the wrong cell. c_ij takes row i of A and column j of B"},
       {"factors-mispaired", all("factors-mispaired"),
        "row i of A and column j of B are the right ones, and their numbers were paired wrongly: "
        "a product takes the same k from both, a_ik · b_kj"},
       {"term-forgotten", all("term-forgotten"),
        "a product was never formed: each element is the sum of two"},
       {"sum-begun-again", all("sum-begun-again"),
        "a product was formed and is gone: MAC_Z begins a new sum, MAC adds to it"},
       {"sum-put-elsewhere", all("sum-put-elsewhere"),
        "the whole sum was formed, and is not what is stored: a MAC puts it into the last "
        "register that it names, and STORE writes another"},
       {"sum-not-begun", all("sum-not-begun"), kSumNotBegun},
       {"added-to-another-sum", all("added-to-another-sum"),
        "all products are there, and some went into the register of another element: a_ik · b_kj "
        "belongs to c_ij"},
       {"stored-elsewhere", all("stored-elsewhere"),
        "a sum is right, but is stored in the cell of another element: going round the square you "
        "meet c11 before c10"},
       {"store-forgotten", all("store-forgotten"), "an element was never stored"}},
      line, file);
  return message.empty();
}

}  // namespace exercise
