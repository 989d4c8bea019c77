#pragma once
// The judge of exercises whose answer is a trace file, which the toy machine of chapter 01 runs it.

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "exercises/support/verdict.hpp"
#include "machine.hpp"

namespace exercise {

using Inputs = std::map<std::string, std::vector<float>>;

// The machine does not take the answer, and which register is read while it is empty, if one is.
struct Refused : fa::InputError {
  Refused(const std::string& what, const ch01::Program& program);
  ch01::Op op = ch01::Op::kLoad;  // the first instruction that does
  int source = -1;                // which of its operands; -1: that is not why

  bool empty(ch01::Op reader, int operand) const { return op == reader && source == operand; }
};

class Trace {
 public:
  // Reads the answer. Throws Todo with its first TODO line, if one is left, Refused with line and
  // column for what the machine does not accept, and fa::InputError for what is no trace, or if the
  // lines that describe the exercise (.registers, .input, …) are not those of the stub.
  Trace(const std::string& path, const std::string& stub);

  // The output array after a run on these inputs, NaN where nothing was stored.
  Numbers output(const Inputs& inputs) const;

  const ch01::Program& program() const { return program_; }
  const ch01::Cost& cost() const { return cost_; }
  // How many times the cell is loaded, for example "a[0][1]".
  int loads_of(const std::string& cell) const;

  // Correct, but is it short enough? Fails above `best`, the fewest cycles known.
  void check_cycles(int best, const std::vector<Suspect>& suspects = {},
                    int line = __builtin_LINE(), const char* file = __builtin_FILE()) const;

 private:
  ch01::Program program_;
  ch01::Cost cost_;
};

std::string answer_path(const char* copy, const char* stub);

#ifdef EXERCISE_STUB
// The trace to check, which is the file named by the environment's EXERCISE_ANSWER, or your copy,
// or the stub.
inline Trace answer() { return Trace(answer_path(EXERCISE_COPY, EXERCISE_STUB), EXERCISE_STUB); }
#endif

}  // namespace exercise
