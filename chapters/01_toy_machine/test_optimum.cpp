// Compares the search with a second, simpler search that shares no code with it and allows more
// moves.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "machine.hpp"
#include "optimum.hpp"
#include "parser.hpp"
#include "verify.hpp"

using namespace ch01;

namespace {

// A value is a set of monomials, where bits 0 to 7 are the inputs and bits 8 to 15 the products,
// two per output. The machine may compute anything. A result that is neither an input nor part of
// one output is dropped, because it is useless (point 1 of the proof in optimum.cpp).
class PlainSearch {
 public:
  PlainSearch(int registers, bool fixed) : registers_(registers), fixed_(fixed) {
    values_ = {0};
    for (int i = 0; i < 8; ++i) values_.push_back(1u << i);
    for (int cell = 0; cell < 4; ++cell) {
      for (const unsigned part : {1u, 2u, 3u}) values_.push_back(part << (8 + 2 * cell));
    }
    for (int x = 0; x < 21; ++x) {
      for (int y = 0; y < 21; ++y) {
        product_[x][y] = sum_[x][y] = 0;
        const bool ab = x >= 1 && x <= 4 && y >= 5 && y <= 8 && (x - 1) % 2 == (y - 5) / 2;
        const int cell = (x - 1) / 2 * 2 + (y - 5) % 2;
        if (ab) product_[x][y] = index(1u << (8 + 2 * cell + (x - 1) % 2));
        if (x && y && !(values_[x] & values_[y])) sum_[x][y] = index(values_[x] | values_[y]);
      }
    }
    for (int x = 0; x < 21; ++x) {
      for (int y = 0; y < x; ++y) product_[x][y] = product_[y][x];
    }
  }

  // Returns the fewest cycles, by a breadth-first search over all states, or -1 if there is no
  // program.
  int fewest_cycles() {
    std::vector<bool> seen(std::size_t{1} << (5 * registers_ + 8));
    std::vector<std::uint64_t> layer{0}, next;
    seen[0] = true;
    for (int cycles = 0; !layer.empty(); ++cycles) {
      next.clear();
      for (const std::uint64_t key : layer) {
        const State s = unpack(key);
        if (finished(s)) return cycles;
        for_each_move(s, [&](const State& after, bool) {
          const std::uint64_t k = pack(after);
          if (seen[k]) return;
          seen[k] = true;
          next.push_back(k);
        });
      }
      layer.swap(next);
    }
    return -1;
  }

  // True if a program needs at most `budget` LOADs and STOREs of unfinished sums, where MACs cost
  // nothing. States that cannot load everything they still need within the budget are skipped.
  bool exists_within(int budget) {
    std::unordered_set<std::uint64_t> seen{0};
    std::vector<std::vector<std::uint64_t>> layers(static_cast<std::size_t>(budget) + 2);
    layers[0] = {0};
    for (int spent = 0; spent <= budget; ++spent) {
      auto& layer = layers[static_cast<std::size_t>(spent)];
      for (std::size_t i = 0; i < layer.size(); ++i) {  // grows, because MACs are free
        const State s = unpack(layer[i]);
        if (finished(s)) return true;
        for_each_move(s, [&](const State& after, bool is_free) {
          const int cost = spent + !is_free;
          if (cost + loads_needed(after) > budget) return;
          const std::uint64_t key = pack(in_order(after));
          if (seen.insert(key).second) layers[static_cast<std::size_t>(cost)].push_back(key);
        });
      }
    }
    return false;
  }

 private:
  struct State {
    std::array<int, 8> r{};
    std::array<int, 4> dram{};  // 0: nothing, 1 or 2: one term, 3: the sum
  };

  int index(unsigned monomials) const {
    for (int i = 0; i < 21; ++i) {
      if (values_[i] == monomials) return i;
    }
    return 0;
  }
  std::uint64_t pack(const State& s) const {
    std::uint64_t key = 0;
    for (int i = 0; i < registers_; ++i) key = key << 5 | static_cast<unsigned>(s.r[i]);
    for (const int d : s.dram) key = key << 2 | static_cast<unsigned>(d);
    return key;
  }
  State unpack(std::uint64_t key) const {
    State s;
    for (int i = 3; i >= 0; --i, key >>= 2) s.dram[i] = static_cast<int>(key & 3);
    for (int i = registers_ - 1; i >= 0; --i, key >>= 5) s.r[i] = static_cast<int>(key & 31);
    return s;
  }
  // Sorts registers that are interchangeable as operands.
  State in_order(State s) const {
    for (int i = fixed_ ? 3 : 1; i < registers_; ++i) {
      for (int j = i; j > (fixed_ ? 2 : 0) && s.r[j] < s.r[j - 1]; --j)
        std::swap(s.r[j], s.r[j - 1]);
    }
    return s;
  }
  static bool finished(const State& s) { return s.dram == std::array<int, 4>{3, 3, 3, 3}; }

  // Returns the inputs that a remaining product needs and that no register holds.
  int loads_needed(const State& s) const {
    unsigned made = 0, held = 0, needed = 0;
    for (int cell = 0; cell < 4; ++cell)
      made |= static_cast<unsigned>(s.dram[cell]) << (8 + 2 * cell);
    for (const int v : s.r) made |= values_[v], held |= values_[v];
    for (int x = 1; x <= 4; ++x) {
      for (int y = 5; y <= 8; ++y) {
        const unsigned product = values_[product_[x][y]];
        if (product && !(made & product)) needed |= values_[x] | values_[y];
      }
    }
    return __builtin_popcount(needed & ~held);
  }

  template <class F>
  void for_each_move(State s, const F& visit) const {
    for (int rd = 0; rd < registers_; ++rd) {
      const int old = s.r[rd];
      const auto put = [&](int value, bool is_free) {
        s.r[rd] = value;
        visit(s, is_free);
        s.r[rd] = old;
      };
      for (int input = 1; input <= 8; ++input) put(input, false);
      for (int cell = 0; cell < 4; ++cell) {
        if (s.dram[cell]) put(8 + 3 * cell + s.dram[cell], false);
      }
      for (int ra = 0; ra < (fixed_ ? 1 : registers_); ++ra) {
        for (int rb = ra + 1; rb < (fixed_ ? 2 : registers_); ++rb) {
          const int product = product_[s.r[ra]][s.r[rb]];
          if (!product) continue;
          put(product, true);
          for (int rc = 0; rc < registers_; ++rc) {
            if (const int sum = sum_[product][s.r[rc]]) put(sum, true);
          }
        }
      }
    }
    for (int r = 0; r < registers_; ++r) {
      if (s.r[r] <= 8) continue;
      const int cell = (s.r[r] - 9) / 3, part = (s.r[r] - 9) % 3 + 1, old = s.dram[cell];
      s.dram[cell] = part;
      visit(s, part == 3);
      s.dram[cell] = old;
    }
  }

  int registers_;
  bool fixed_;
  std::vector<unsigned> values_;
  int product_[21][21], sum_[21][21];
};

constexpr int kFixed[] = {0, 25, 23, 23, 22, 22, 22};  // 2 to 8 registers
constexpr int kAny[] = {0, 25, 22, 21, 20, 20, 20};
constexpr int kInnerFixed[] = {0, 25, 25, 25, 25, 25, 25};
constexpr int kInnerAny[] = {0, 25, 22, 21, 20, 20, 20};

}  // namespace

TEST_CASE("the fewest cycles, for every register count, and a program that takes them") {
  for (int registers = 2; registers <= 8; ++registers) {
    for (const OperandRule rule : {OperandRule::kFixed, OperandRule::kAny}) {
      for (const Schedule schedule : {Schedule::kAll, Schedule::kInner}) {
        const bool fixed = rule == OperandRule::kFixed, inner = schedule == Schedule::kInner;
        CAPTURE(registers);
        CAPTURE(fixed);
        CAPTURE(inner);
        const int expected = (inner   ? fixed ? kInnerFixed : kInnerAny
                              : fixed ? kFixed
                                      : kAny)[registers - 2];
        const Optimum best = find_optimum(registers, rule, schedule);
        CHECK(best.possible == (expected > 0));
        CHECK(best.cycles == expected);
        if (!best.possible) continue;
        Program program = parse_program(
            std::to_string(best.cycles) + " cycles\n" + optimum_program(best, registers, rule),
            "optimum");
        validate(program);
        // Other numbers than in the file, so that a wrong program cannot pass by chance.
        set_inputs(program, {{"a", {0.5f, -3, 7, 11}}, {"b", {13, 0.25f, -17, 19}}});
        const Run result = run(program, false);
        CHECK(verify(program, result).passed());
        CHECK(result.cost.cycles == expected);
        CHECK(result.cost.loads == best.loads);
        CHECK(result.cost.stores == best.stores);
        CHECK(result.cost.macs == 8);
        int begun = 0;  // an inner product has at most one unfinished sum
        for (const Instruction& instruction : program.instructions) {
          begun += (instruction.op == Op::kMacZ) - (instruction.op == Op::kMac);
          if (inner) CHECK(begun <= 1);
        }
      }
    }
  }
}

TEST_CASE("plain breadth-first search finds the same") {
  for (const bool fixed : {true, false}) {
    CHECK(PlainSearch(2, fixed).fewest_cycles() == -1);
    CHECK(PlainSearch(3, fixed).fewest_cycles() == 25);
  }
}

// takes up to a minute and 140 MB, with test_ch01_optimum --no-skip
TEST_CASE("plain breadth-first search, four registers" * doctest::skip()) {
  CHECK(PlainSearch(4, true).fewest_cycles() == 23);
  CHECK(PlainSearch(4, false).fewest_cycles() == 22);
}

TEST_CASE("plain search: one LOAD less than the optimum is not enough") {
  for (int registers = 4; registers <= 8; ++registers) {
    for (const bool fixed : {true, false}) {
      CAPTURE(registers);
      CAPTURE(fixed);
      const int extra = (fixed ? kFixed : kAny)[registers - 2] - 8 - 4;  // beyond MACs and results
      CHECK_FALSE(PlainSearch(registers, fixed).exists_within(extra - 1));
    }
  }
}

TEST_CASE("plain search with the optimum's LOADs does find a program") {
  for (int registers = 4; registers <= 6; ++registers) {
    CHECK(PlainSearch(registers, false).exists_within(kAny[registers - 2] - 8 - 4));
  }
}

TEST_CASE("register counts outside 2 to 8 are refused") {
  CHECK_THROWS_AS(find_optimum(1, OperandRule::kAny), std::invalid_argument);
  CHECK_THROWS_AS(find_optimum(9, OperandRule::kFixed), std::invalid_argument);
}
