#include "generate.hpp"

#include <vector>

namespace ch01 {
namespace {

std::string R(int r) { return "R" + std::to_string(r); }
std::string at(const std::string& array, int i) { return array + "[" + std::to_string(i) + "]"; }
std::string at(const std::string& array, int i, int j) {
  return at(array, i) + "[" + std::to_string(j) + "]";
}

// Collects the lines of a trace file.
class Trace {
 public:
  void line(const std::string& text) { text_ += text + "\n"; }
  // Appends one instruction. `suffix` follows the operands, for example `-> c00` or `@no-max`.
  void op(const std::string& name, const std::vector<std::string>& operands,
          const std::string& suffix = "") {
    text_ += name;
    for (std::size_t i = 0; i < operands.size(); ++i) text_ += (i ? ", " : " ") + operands[i];
    text_ += (suffix.empty() ? "" : " " + suffix) + "\n";
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

// Returns the initialiser of an input whose values are first, first + 1, …
std::string counting(int first, int count) {
  std::string text = " = ";
  for (int i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(first + i);
  return text;
}

void matmul_header(Trace& t, const std::string& idea, int registers, OperandRule rule, int n) {
  t.line("# " + idea);
  t.line(".machine mac");
  t.line(".registers " + std::to_string(registers));
  t.line(std::string(".operands ") + (rule == OperandRule::kFixed ? "fixed" : "any"));
  t.line(".input " + at("a", n, n) + counting(1, n * n));
  t.line(".input " + at("b", n, n) + counting(n * n + 1, n * n));
  t.line(".output " + at("c", n, n));
  t.line(".check matmul");
}

// Appends the multiplication for term number `term` of the n terms of c_ij. The first term uses
// MAC_Z, because the sum in R(sum) starts from zero there.
void multiply_add(Trace& t, int term, int n, int ra, int rb, int sum, int i, int j) {
  const std::string name =
      term == n - 1 ? "-> c" + std::to_string(i) + std::to_string(j) : std::string();
  if (term == 0) {
    t.op("MAC_Z", {R(ra), R(rb), R(sum)}, name);
  } else {
    t.op("MAC", {R(ra), R(rb), R(sum), R(sum)}, name);
  }
}

// Visits the elements of C row by row, every second row from right to left, so that consecutive
// elements share a row of A or a column of B. Every second element adds its terms in reverse order,
// so that it starts with an operand that the element before it left in a register.
std::string inner_fixed(int n) {
  Trace t;
  matmul_header(t, "inner product: finish one element of C, then the next", 3, OperandRule::kFixed,
                n);
  std::string in_r0, in_r1;
  for (int step = 0; step < n * n; ++step) {
    const int i = step / n, j = i % 2 ? n - 1 - step % n : step % n;
    t.line("# c" + std::to_string(i) + std::to_string(j));
    for (int term = 0; term < n; ++term) {
      const int k = step % 2 ? n - 1 - term : term;
      if (in_r0 != at("a", i, k)) t.op("LOAD", {in_r0 = at("a", i, k), R(0)});
      if (in_r1 != at("b", k, j)) t.op("LOAD", {in_r1 = at("b", k, j), R(1)});
      multiply_add(t, term, n, 0, 1, 2, i, j);
    }
    t.op("STORE", {R(2), at("c", i, j)});
  }
  return t.text();
}

// Keeps B in registers R1 and above and the current row of A in the registers after it, so that
// every input is loaded once.
std::string inner_any(int n) {
  Trace t;
  matmul_header(t, "inner product with free operands: every input is loaded once", n * n + n + 1,
                OperandRule::kAny, n);
  const auto b = [&](int k, int j) { return 1 + k * n + j; };
  const auto a = [&](int k) { return 1 + n * n + k; };
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      t.line("# c" + std::to_string(i) + std::to_string(j));
      for (int k = 0; k < n; ++k) {
        if (j == 0) t.op("LOAD", {at("a", i, k), R(a(k))});
        if (i == 0) t.op("LOAD", {at("b", k, j), R(b(k, j))});
        multiply_add(t, k, n, a(k), b(k, j), 0, i, j);
      }
      t.op("STORE", {R(0), at("c", i, j)});
    }
  }
  return t.text();
}

std::string outer_fixed(int n) {
  Trace t;
  matmul_header(t, "outer product: one k after the other, every element of C at once", n * n + 2,
                OperandRule::kFixed, n);
  for (int k = 0; k < n; ++k) {
    t.line("# column " + std::to_string(k) + " of A times row " + std::to_string(k) + " of B");
    std::string in_r0, in_r1;
    for (int step = 0; step < n * n; ++step) {
      const int i = step / n, j = i % 2 ? n - 1 - step % n : step % n;
      if (in_r0 != at("a", i, k)) t.op("LOAD", {in_r0 = at("a", i, k), R(0)});
      if (in_r1 != at("b", k, j)) t.op("LOAD", {in_r1 = at("b", k, j), R(1)});
      multiply_add(t, k, n, 0, 1, 2 + i * n + j, i, j);
    }
  }
  for (int i = 0; i < n * n; ++i) t.op("STORE", {R(2 + i), at("c", i / n, i % n)});
  return t.text();
}

std::string outer_any(int n) {
  Trace t;
  matmul_header(t, "outer product with free operands: every input is loaded once", n * n + n + 1,
                OperandRule::kAny, n);
  for (int k = 0; k < n; ++k) {
    t.line("# column " + std::to_string(k) + " of A times row " + std::to_string(k) + " of B");
    for (int i = 0; i < n; ++i) {
      t.op("LOAD", {at("a", i, k), R(0)});
      for (int j = 0; j < n; ++j) {
        if (i == 0) t.op("LOAD", {at("b", k, j), R(1 + j)});
        multiply_add(t, k, n, 0, 1 + j, 1 + n + i * n + j, i, j);
      }
    }
  }
  for (int i = 0; i < n * n; ++i) t.op("STORE", {R(1 + n + i), at("c", i / n, i % n)});
  return t.text();
}

void softmax_header(Trace& t, const std::string& idea, int registers, int n) {
  t.line("# " + idea);
  t.line(".machine alu");
  t.line(".registers " + std::to_string(registers));
  t.line(".input " + at("x", n) + counting(1, n));
  t.line(".output " + at("out", n));
  t.line(".check softmax");
}

// Appends the last pass of both programs. It reads x_i again, because out_i depends on the maximum
// and the sum of all numbers.
void normalise(Trace& t, int n) {
  t.line("# pass: divide. R1 = m, R2 = s");
  for (int i = 0; i < n; ++i) {
    t.op("LOAD", {at("x", i), R(0)});
    t.op("SUB", {R(0), R(1), R(0)}, "@no-max");
    t.op("EXP", {R(0), R(0)});
    t.op("DIV", {R(0), R(2), R(0)});
    t.op("STORE", {R(0), at("out", i)});
  }
}

std::string safe_softmax(int n) {
  Trace t;
  softmax_header(t, "safe softmax: maximum, sum, division; three passes over x", 3, n);
  t.line("# pass: the maximum m, in R1");
  t.op("LOAD", {at("x", 0), R(1)}, "-> m0 @no-max");
  for (int i = 1; i < n; ++i) {
    t.op("LOAD", {at("x", i), R(0)}, "@no-max");
    t.op("MAX", {R(0), R(1), R(1)}, "-> m" + std::to_string(i) + " @no-max");
  }
  t.line("# pass: the sum s of e^(x − m), in R2");
  for (int i = 0; i < n; ++i) {
    t.op("LOAD", {at("x", i), R(0)});
    t.op("SUB", {R(0), R(1), R(0)}, "@no-max");
    t.op("EXP", {R(0), R(0)});
    if (i == 0) {
      t.op("MOV", {R(0), R(2)}, "-> s0");
    } else {
      t.op("ADD", {R(2), R(0), R(2)}, "-> s" + std::to_string(i));
    }
  }
  normalise(t, n);
  return t.text();
}

// Appends the step for number j: m, s := m', s·e^(m − m') + e^(x − m') with m' = max(m, x).
// Registers: x in R0, m in R1, s in R2, the correction factor in R3.
// [anchor: online_step]
void online_step(Trace& t, int j) {
  t.op("MOV", {R(1), R(3)}, "@no-max");  // the old maximum
  t.op("MAX", {R(1), R(0), R(1)}, "-> m" + std::to_string(j) + " @no-max");
  t.op("SUB", {R(3), R(1), R(3)}, "@no-max");  // m − m', never above 0
  t.op("SUB", {R(0), R(1), R(0)}, "@no-max");  // x − m', never above 0
  t.op("EXP", {R(3), R(3)}, "@no-max");        // the correction factor
  t.op("EXP", {R(0), R(0)});
  t.op("MUL", {R(2), R(3), R(2)}, "@no-max @no-rescale");
  t.op("ADD", {R(2), R(0), R(2)}, "-> s" + std::to_string(j));
}
// [/anchor: online_step]

// Appends the step for the first number, where m = x and s = e^0.
void online_start(Trace& t) {
  t.op("MOV", {R(0), R(1)}, "-> m0 @no-max");
  t.op("SUB", {R(0), R(1), R(0)}, "@no-max");
  t.op("EXP", {R(0), R(0)});
  t.op("MOV", {R(0), R(2)}, "-> s0");
}

std::string online_softmax(int n) {
  Trace t;
  softmax_header(t, "online softmax: maximum and sum in one pass, division in a second", 4, n);
  t.line("# pass: m in R1 and s in R2 together, R3 corrects s when m grows");
  for (int i = 0; i < n; ++i) {
    t.op("LOAD", {at("x", i), R(0)});
    if (i == 0) {
      online_start(t);
    } else {
      online_step(t, i);
    }
  }
  normalise(t, n);
  return t.text();
}

}  // namespace

std::string matmul_program(Order order, OperandRule operands, int n) {
  const bool fixed = operands == OperandRule::kFixed;
  if (order == Order::kInner) return fixed ? inner_fixed(n) : inner_any(n);
  return fixed ? outer_fixed(n) : outer_any(n);
}

std::string softmax_program(Softmax algorithm, int n) {
  return algorithm == Softmax::kSafe ? safe_softmax(n) : online_softmax(n);
}

std::string attention_program(int n, int dim) {
  Trace t;
  const int temporary = 4, q = 5, o = 5 + dim;
  t.line("# attention of one query, online softmax fused with V: one pass over K and V");
  t.line("# R0 = score, then weight p; R1 = m; R2 = s; R3 corrects; q from R5; o from R" +
         std::to_string(o));
  t.line(".machine alu");
  t.line(".registers " + std::to_string(o + dim));
  t.line(".input " + at("q", dim) + counting(1, dim));
  t.line(".input " + at("k", n, dim) + counting(1, n * dim));
  t.line(".input " + at("v", n, dim) + counting(1, n * dim));
  t.line(".output " + at("o", dim));
  t.line(".check attention");
  for (int i = 0; i < dim; ++i) t.op("LOAD", {at("q", i), R(q + i)});
  for (int j = 0; j < n; ++j) {
    t.line("# key " + std::to_string(j));
    for (int i = 0; i < dim; ++i) {
      const int product = i ? temporary : 0;
      const std::string score = i == dim - 1 ? "-> x" + std::to_string(j) : "";
      t.op("LOAD", {at("k", j, i), R(product)});
      t.op("MUL", {R(product), R(q + i), R(product)}, i ? "" : score);
      if (i) t.op("ADD", {R(0), R(temporary), R(0)}, score);
    }
    if (j == 0) {
      online_start(t);
    } else {
      online_step(t, j);
    }
    for (int i = 0; i < dim; ++i) {
      std::string sum = "-> o" + std::to_string(j);
      if (dim > 1) sum += "[" + std::to_string(i) + "]";
      if (j) t.op("MUL", {R(o + i), R(3), R(o + i)}, "@no-max @no-rescale");
      t.op("LOAD", {at("v", j, i), R(temporary)});
      t.op("MUL", {R(0), R(temporary), R(j ? temporary : o + i)}, j ? "" : sum);
      if (j) t.op("ADD", {R(o + i), R(temporary), R(o + i)}, sum);
    }
  }
  t.line("# the division, once");
  for (int i = 0; i < dim; ++i) {
    t.op("DIV", {R(o + i), R(2), R(o + i)});
    t.op("STORE", {R(o + i), at("o", i)});
  }
  return t.text();
}

}  // namespace ch01
