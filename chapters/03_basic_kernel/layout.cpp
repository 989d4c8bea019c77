// Prints which lane holds which element. ldmatrix, mma and this chapter's functions run on marked
// numbers, so no formula of a layout is written here. test_layout.py compares the result with
// PTX's.
//
//   ch03_layout --lane 9         the elements that lane 9 holds, and the addresses that it passes
//   ch03_layout --layout F.json  all lanes (docs/figures/README.md)

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/cli.hpp"
#include "common/guarded_main.hpp"
#include "common/json_report.hpp"
#include "common/simt/simt.hpp"
#include "layout.hpp"

namespace {

namespace warp = emulator::ch03;
using emulator::launch;
using emulator::WARP_SIZE;
using fa::simt::Buffer;
using nlohmann::json;

struct Element {
  int row, column;
  bool operator==(const Element&) const = default;
};
using Elements = std::vector<Element>;  // contents of the lanes: [32][halves of registers, or
                                        // floats]

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("the layouts are not what is drawn: ") + what);
}

// Marks are 1 to 256, because bf16 represents each of them exactly and none is the 0 of an empty
// place.
uint16_t bits(int mark) { return fa::to_bf16(static_cast<float>(mark)).bits; }
int mark_of(uint16_t bits) { return static_cast<int>(fa::to_float(fa::bf16{bits})); }

uint16_t half_of(const Buffer<uint32_t>& registers, size_t half) {
  return static_cast<uint16_t>(registers[half / 2] >> 16 * (half % 2));
}
void set_half(Buffer<uint32_t>& registers, size_t half, uint16_t value) {
  registers[half / 2] |= static_cast<uint32_t>(value) << 16 * (half % 2);
}

template <class Kernel, class... Arguments>
void run_warp(Kernel kernel, size_t smem_bytes, Arguments... arguments) {
  const fa::simt::Report report =
      fa::simt::run({}, [&] { launch(kernel, 1, WARP_SIZE, smem_bytes, arguments...); });
  for (const fa::simt::Hazard& hazard : report.hazards) throw std::runtime_error(hazard.text);
}

struct Mma {
  Elements A, B, C;
};

struct Product {
  Element at;
  int mark;  // 1 times this
};

// Finds the nonzero elements of A B, where one operand has a single 1 and the other has marks.
std::vector<Product> products(const Buffer<uint32_t>& a, const Buffer<uint32_t>& b,
                              const Elements& C) {
  Buffer<float> c(32 * 4, "c");
  run_warp(warp::multiply, 0, a.data(), b.data(), c.data());
  std::vector<Product> found;
  for (size_t i = 0; i < c.size(); ++i)
    if (c[i] != 0.0f) found.push_back({C[i], static_cast<int>(c[i])});
  return found;
}

// A holds the marks of Q after load_fragments_Q, and C holds them after S = Q @ I.T.
// For each half register of B and of A, mma runs with a single 1 there.
Mma layout_of_mma() {
  Buffer<fa::bf16> Q(256, "Q"), identity(256, "K");
  for (int i = 0; i < 256; ++i) {
    Q[i].bits = bits(i + 1);
    identity[i].bits = bits(i / 16 == i % 16);
  }
  Buffer<uint32_t> Q_rmem(32 * 4, "Q_rmem");
  Buffer<float> S(32 * 8, "S_rmem");
  run_warp(warp::scores, 1024, Q.data(), identity.data(), Q_rmem.data(), S.data());

  Mma layout;
  const auto element = [](int mark) { return Element{(mark - 1) / 16, (mark - 1) % 16}; };
  for (size_t half = 0; half < 32 * 8; ++half)
    layout.A.push_back(element(mark_of(half_of(Q_rmem, half))));
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t i = 0; i < 4; ++i) {
      const Element first = element(static_cast<int>(S[lane * 8 + i]));
      const Element second = element(static_cast<int>(S[lane * 8 + 4 + i]));
      require(second == Element{first.row, first.column + 8}, "the second tile of S");
      layout.C.push_back(first);
    }

  Buffer<uint32_t> B_marked(32 * 2, "B");  // row k, column n: 8 k + n + 1
  for (size_t half = 0; half < 32 * 4; ++half) {
    Buffer<uint32_t> b(32 * 2, "b");
    set_half(b, half, bits(1));
    const std::vector<Product> column = products(Q_rmem, b, layout.C);
    require(column.size() == 16, "a 1 in B selects a column of A");
    const Element in_B = {element(column[0].mark).column, column[0].at.column};
    for (const auto& [at, mark] : column)
      require(at == Element{element(mark).row, in_B.column} && element(mark).column == in_B.row,
              "operand B");
    layout.B.push_back(in_B);
    set_half(B_marked, half, bits(8 * in_B.row + in_B.column + 1));
  }
  for (size_t half = 0; half < 32 * 8; ++half) {
    Buffer<uint32_t> a(32 * 4, "a");
    set_half(a, half, bits(1));
    const std::vector<Product> row = products(a, B_marked, layout.C);
    require(row.size() == 8, "a 1 in A selects a row of B");
    for (const auto& [at, mark] : row)
      require(layout.A[half] == Element{at.row, (mark - 1) / 8} && at.column == (mark - 1) % 8,
              "operand A");
  }
  return layout;
}

json as_json(const Element& element) { return {element.row, element.column}; }

// [32][registers][halves] from a list in that order.
template <class List>
json by_lane(const List& list, size_t registers, size_t halves) {
  json lanes = std::vector<json>(32, std::vector<json>(registers));
  for (size_t i = 0; i < list.size(); ++i)
    lanes[i / halves / registers][i / halves % registers].push_back(list[i]);
  return lanes;
}

// One ldmatrix of the lessons. It loads Q for operand A, or K or V for one or two operands B.
struct Load {
  const char* name;
  char source;
  size_t matrices;
  bool trans;
  void (*kernel)(uint32_t*);
};

constexpr Load LOADS[] = {
    {"x1", 'K', 1, false, warp::load_matrices<1, false>},
    {"x1.trans", 'V', 1, true, warp::load_matrices<1, true>},
    {"Q x4", 'Q', 4, false, warp::load_matrices<4, false>},
    {"K x2", 'K', 2, false, warp::load_matrices<2, false>},
    {"V x2.trans", 'V', 2, true, warp::load_matrices<2, true>},
    {"K x4", 'K', 4, false, warp::load_matrices<4, false>},
    {"V x4.trans", 'V', 4, true, warp::load_matrices<4, true>},
};

// Returns the element of Q, K or V that mma needs in this half register of a lane.
Element wanted(const Load& load, const Mma& mma, size_t lane, size_t half) {
  if (load.source == 'Q') return mma.A[lane * 8 + half];
  Element element = mma.B[lane * 4 + half % 4];
  element.column += static_cast<int>(half / 4) * 8;  // registers 2 and 3 are B for 8 more columns
  if (load.source == 'K') std::swap(element.row, element.column);  // B is K.T
  return element;
}

// Finds the row and element that each half register receives, where a row is identified by the lane
// that passes its address, and where that row must be so that the registers are right for mma.
json layout_of_load(const Load& load, const Mma& mma) {
  Buffer<uint32_t> registers(32 * load.matrices, "registers");
  run_warp(load.kernel, 512, registers.data());
  std::vector<json> receives, addresses(32);
  for (size_t half = 0; half < registers.size() * 2; ++half) {
    const int giver = half_of(registers, half) / 8, position = half_of(registers, half) % 8;
    receives.push_back({giver, position});
    const Element element =
        wanted(load, mma, half / (2 * load.matrices), half % (2 * load.matrices));
    const json address = as_json({element.row, element.column - position});
    require(addresses[giver].is_null() || addresses[giver] == address, "one address for a row");
    addresses[giver] = address;
  }
  json becomes;  // for each register, the operand's register and its mma
  for (size_t i = 0; i < load.matrices; ++i)
    becomes.push_back(load.source == 'Q' ? json{"a" + std::to_string(i), 0}
                                         : json{"b" + std::to_string(i % 2), i / 2});
  return {{"name", load.name},         {"source", std::string(1, load.source)},
          {"matrices", load.matrices}, {"trans", load.trans},
          {"becomes", becomes},        {"receives", by_lane(receives, load.matrices, 2)},
          {"addresses", addresses}};
}

// Finds which elements of S exponentiate_and_pack packs into A's registers: [lane, tile of S, c].
json layout_of_weights() {
  Buffer<uint32_t> P(32 * 4, "P_rmem");
  run_warp(warp::weights, 0, P.data());
  std::vector<json> from;
  for (size_t half = 0; half < P.size() * 2; ++half) {
    const int place = mark_of(half_of(P, half)) - 1;
    from.push_back({place / 8, place / 4 % 2, place % 4});
  }
  return by_lane(from, 4, 2);
}

json layouts_of_registers() {
  const Mma mma = layout_of_mma();
  const auto operand = [](const Elements& elements, size_t registers) {
    std::vector<json> list;
    for (const Element& element : elements) list.push_back(as_json(element));
    return by_lane(list, registers, elements.size() / 32 / registers);
  };
  json loads;
  for (const Load& load : LOADS) loads.push_back(layout_of_load(load, mma));
  return {{"lanes", 32},
          {"mma", {{"A", operand(mma.A, 4)}, {"B", operand(mma.B, 2)}, {"C", operand(mma.C, 4)}}},
          {"weights", layout_of_weights()},
          {"loads", loads}};
}

void print_registers(const json& registers, const char* name) {
  for (size_t i = 0; i < registers.size(); ++i) {
    std::string places;
    for (const json& at : registers[i])
      places += " " + std::to_string(at[0].get<int>()) + "," + std::to_string(at[1].get<int>());
    std::printf("   %s%zu%s", name, i, places.c_str());
  }
  std::printf("\n");
}

void print_lane(const json& layout, size_t lane) {
  std::printf("The elements of lane %zu, as row,column.\n\n", lane);
  for (const char* matrix : {"A", "B", "C"}) {
    std::printf("  %s ", matrix);
    const char name[] = {static_cast<char>(matrix[0] - 'A' + 'a'), 0};
    print_registers(layout["mma"][matrix][lane], name);
  }
  std::printf(
      "\nThe address that it passes, and the elements that it receives, as row,column.\n\n");
  for (const json& load : layout["loads"]) {
    const json& addresses = load["addresses"];
    const json& own = addresses[lane];
    std::printf("  %-10s  %s", load["name"].get<std::string>().c_str(),
                own.is_null() ? "none" : (own[0].dump() + "," + own[1].dump()).c_str());
    json received = load["receives"][lane];
    for (json& halves : received)
      for (json& half : halves) {
        const json& row = addresses[half[0].get<size_t>()];
        half = {row[0], row[1].get<int>() + half[1].get<int>()};
      }
    print_registers(received, "r");
  }
}

int program(int argc, char** argv) {
  std::string path;
  int64_t lane = 9;
  fa::Cli cli("ch03_layout", "Which lane of a warp holds which element, for ldmatrix and mma.");
  cli.integer("--lane", lane, 0, 31, "the lane to print [9]");
  cli.output_file("--layout", path, "write what all lanes hold to this JSON file instead");
  cli.parse(argc, argv);
  const json layout = layouts_of_registers();
  path.empty() ? print_lane(layout, static_cast<size_t>(lane)) : fa::write_json(path, layout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return fa::guarded_main(argc, argv, program); }
