#include <doctest/doctest.h>

#include <store_ds.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;
using namespace emulator::ex22;

// The right address of a lane, and each mistake as a change to it, where `chunk` counts pieces of
// 16 bytes.
struct Way {
  exercise::Changes is;

  uint32_t address(int row, int lane, int step) const {
    const int of_warp = is("address-of-own-elements") ? lane / 4
                        : is("eight-rows-only")       ? lane % 8
                        : is("matrices-exchanged")    ? lane / 16 * 8 + lane % 8
                                                      : lane % 16;
    const int half = is("address-of-own-elements") ? 0
                     : is("matrices-exchanged")    ? lane / 8 % 2
                                                   : lane / 16;
    const int chunk = (is("one-chunk-per-step") ? step : 2 * step) + half;
    const int in_panel = is("panel-forgotten") ? chunk : chunk % 8;
    const int at = is("not-swizzled")                ? in_panel
                   : is("swizzle-added")             ? (in_panel + of_warp) % 8
                   : is("swizzle-of-a-fragment-row") ? in_panel ^ lane / 4
                   : is("swizzle-of-the-matrix")     ? in_panel ^ lane / 8
                                                     : in_panel ^ of_warp % 8;
    const int panel = is("panel-forgotten") ? 0 : chunk / 8;
    return static_cast<uint32_t>(
        panel * PANEL_BYTES + ((is("rows-of-the-warp-forgotten") ? 0 : row) + of_warp) * ROW_BYTES +
        at * 16);
  }
};

static const exercise::Table MISTAKES(R"(
not-swizzled
  chunk c is stored at c. It belongs at c ^ row % 8, where eight rows use different banks
swizzle-added
  the row was added to the chunk. The swizzle is an exclusive or
swizzle-of-a-fragment-row
  the swizzle uses lane / 4, the row of the lane's own elements. The address is that of row lane %
  16, and the swizzle needs this row modulo 8
swizzle-of-the-matrix
  the swizzle uses lane / 8, the number of the matrix. It has to use the row modulo 8
matrices-exchanged
  matrices 1 and 2 are exchanged: matrix 1 is 8 rows further down, matrix 2 8 queries further
  right
one-chunk-per-step
  the next step starts one chunk further on. 16 queries are two chunks
rows-of-the-warp-forgotten
  `row` is missing. Every warp stores in rows 0 to 15
eight-rows-only
  matrices 0 and 1 have the same addresses. A step has 16 rows, lane % 16
panel-forgotten
  chunk 8 and above run into the next row. Queries 64 to 127 are in the next panel
address-of-own-elements
  each lane gave the address of its own elements' row. Lane 8 i + r gives row r of matrix i
)");

// The labels in shared memory after the stores, with the wavefronts and the hazards.
struct Seen {
  exercise::Numbers labels;
  fa::simt::Report report;
  std::string shown(bool counted) const {
    std::string all = exercise::hazard_kinds(report);
    if (counted) all += std::to_string(report.counters.shared_store_wavefronts) + " wavefronts";
    for (const double label : labels) all += " " + exercise::text(label);
    return all;
  }
};

template <int STEPS, class Store>
static Seen run(const Store& store) {
  constexpr int BYTES = (STEPS + 3) / 4 * PANEL_BYTES;
  Seen seen{exercise::Numbers(BYTES / 2), {}};
  seen.report = exercise::run_block(32, BYTES, [&] {
    const int lane = lane_index();
    for (int at = lane * 4; at < BYTES; at += 128) store_shared<uint32_t>(dynamic_smem() + at, 0);
    block_sync();
    uint32_t dS_rmem[STEPS][4];
    for (int row = 0; row < KEYS; row += 16) {
      for (int step = 0; step < STEPS; ++step)
        for (int i = 0; i < 4; ++i) {
          const int key = row + i % 2 * 8 + lane / 4;
          const int query = step * 16 + i / 2 * 8 + lane % 4 * 2, label = key * 128 + query + 1;
          dS_rmem[step][i] = static_cast<uint32_t>(label | (label + 1) << 16);
        }
      store(row, dS_rmem);
    }
    block_sync();
    for (int at = lane; at < BYTES / 2; at += 32)
      seen.labels[at] = load_shared<uint16_t>(dynamic_smem() + at * 2);
  });
  return seen;
}

template <int STEPS>
static Seen run_way(const Way& way) {
  return run<STEPS>([&](int row, const uint32_t(&dS_rmem)[STEPS][4]) {
    for (int step = 0; step < STEPS; ++step)
      stmatrix_x4(dynamic_smem() + way.address(row, lane_index(), step), dS_rmem[step]);
  });
}

template <int STEPS>
static void check_store() {
  const Seen got = run<STEPS>([&](int row, const uint32_t(&dS_rmem)[STEPS][4]) {
    store_dS<STEPS>(dynamic_smem(), row, dS_rmem);
  });
  const Seen right = run_way<STEPS>({});
  std::string message = exercise::hazards(got.report);
  int wrong = 0;
  for (int key = 0; key < KEYS; ++key)
    for (int query = 0; query < STEPS * 16; ++query) {
      const int chunk = query / 8;
      const size_t at = static_cast<size_t>(chunk / 8 * PANEL_BYTES + key * ROW_BYTES +
                                            (chunk % 8 ^ key % 8) * 16 + query % 8 * 2) /
                        2;
      const int label = static_cast<int>(got.labels[at]) - 1;
      if (label == key * 128 + query || wrong++ > 0) continue;
      message += "byte " + std::to_string(at * 2) + ": expected key " + std::to_string(key) +
                 ", query " + std::to_string(query) + "; got " +
                 (label < 0 ? "nothing, no lane stored there"
                            : "key " + std::to_string(label / 128) + ", query " +
                                  std::to_string(label % 128));
    }
  message += "\n" + std::to_string(wrong) + " of " + std::to_string(KEYS * STEPS * 16) +
             " elements are wrong; " + std::to_string(got.report.counters.shared_store_wavefronts) +
             " wavefronts, " + std::to_string(right.report.counters.shared_store_wavefronts) +
             " are enough";
  const auto looks = exercise::looks<Way>(
      MISTAKES, [](const Way& way) { return run_way<STEPS>(way).shown(true); });
  exercise::check_shown(got.shown(true) == right.shown(true), message, got.shown(true), looks);
}

TEST_CASE("16 queries") { check_store<1>(); }
TEST_CASE("64 queries") { check_store<4>(); }
TEST_CASE("128 queries, two panels") { check_store<8>(); }

// The expected answer puts every element where the swizzle says, in 4 wavefronts per step.
TEST_CASE("the layout") {
  const Seen right = run_way<8>({});
  CHECK(exercise::hazards(right.report) == "");
  for (int key = 0; key < KEYS; ++key)
    for (int query = 0; query < 128; ++query)
      CHECK(right.labels[query / 64 * PANEL_BYTES / 2 + key * 64 + (query / 8 % 8 ^ key % 8) * 8 +
                         query % 8] == key * 128 + query + 1);
  // Two warps' rows of 8 steps, and the zeros: 64 times 128 bytes.
  CHECK(right.report.counters.shared_store_wavefronts == 2 * 8 * 4 + 2 * PANEL_BYTES / 128);
}
