#include <doctest/doctest.h>

#include <algorithm>
#include <what_is_free.hpp>

#include "common/kernels/wgmma_tile.hpp"
#include "exercises/support/warp.hpp"

using exercise::Changes;
using namespace emulator;

constexpr int KEYS = 16;  // keys of a tile; 64 columns
constexpr uint32_t Q_BYTES = 64 * 128, TILE_BYTES = KEYS * 128;
const char* const kNames[] = {"S", "P", "O", "K0", "K1", "V0", "V1"};

// "s1 o0 w1": scores of tile 1, output of tile 0, wgmma_wait<1>.
static Program program_of(const std::string& text) {
  Program program;
  for (size_t i = 0; i < text.size(); i += 3)
    program.push_back({text[i] == 's'   ? Step::kScores
                       : text[i] == 'o' ? Step::kOutput
                                        : Step::kWait,
                       text[i + 1] - '0'});
  return program;
}

// The right answer, and each mistake as a change to it.
static bool used_by(const Changes& is, const Step& step, Thing thing) {
  const bool scores = step.kind == Step::kScores;
  if (step.kind == Step::kWait) return false;
  if (thing == Thing::S) return scores || is("s-until-the-output");
  if (thing == Thing::P) return scores == is("p-with-s");
  if (thing == Thing::O) return !scores;
  const bool is_k = thing == Thing::K0 || thing == Thing::K1;
  const bool odd = thing == Thing::K1 || thing == Thing::V1;
  if (scores != (is_k != is("k-and-v-exchanged"))) return false;
  if (is("one-buffer-for-all")) return true;
  if (is("tile-for-buffer")) return step.number == odd;
  return (step.number % 2 == 1) == (odd != is("odd-and-even-exchanged"));
}

static int free_with(const Changes& is, const Program& program, Thing thing) {
  int user = -1;
  for (int i = 0; i < std::ssize(program); ++i)
    if (used_by(is, program[i], thing) && (user < 0 || !is("first-use"))) user = i;
  if (user < 0) return -1;
  const bool operand = thing != Thing::S && thing != Thing::O;
  if (is("free-at-the-issue") || (is("operands-at-issue") && operand) ||
      (is("p-at-issue") && thing == Thing::P))
    return user;
  int younger = is.integer("off", 0), last = -1, waits = 0;
  for (int i = 0; i < std::ssize(program); ++i) {
    const Step& step = program[i];
    waits += step.kind == Step::kWait;
    if (i <= user) continue;
    if (step.kind != Step::kWait) {
      younger += !is("same-products-only") || step.kind == program[user].kind;
      continue;
    }
    const int n = is("next-wait") ? -100 : step.number;
    last = is("number-of-the-wait") ? waits - 1 : i;
    if (is("wait-for-all") ? n == 0 : n <= younger) return last;
    younger += is("waits-counted");
  }
  return is("last-wait-for-none") ? last : -1;
}

static const exercise::Table MISTAKES(R"(
wait-for-all
  only wgmma_wait<0> is taken for the end of a product. wgmma_wait<N> ends all but the N youngest
next-wait
  the next wait was taken as the one that ends the product, whatever its N is. It may leave the
  product in flight
free-at-the-issue
  this is the step that issues the product. It only begins there, and reads and writes until a wait
  says that it has ended
operands-read-at-the-issue: p-at-issue; operands-at-issue
  P, or K and V too, are taken to be read when the product is issued. It reads its operands until it
  has ended, those in registers as well
p-with-s
  P is taken to be free with S. The product of scores writes S, and P is the operand of the output's
  product
s-until-the-output
  S is taken to be in use until the output's product has ended. That one reads P, which ordinary
  instructions made of S
k-and-v-exchanged
  scores read K and output reads V, not the other way round
one-buffer-for-all
  a buffer is taken to be in use by all tiles. Even tiles use buffer 0, odd ones buffer 1
odd-and-even-exchanged
  even tiles use buffer 0 and odd ones buffer 1, not the other way round
tile-for-buffer
  only tile 0 is taken to use buffer 0, only tile 1 buffer 1. Tile 2 comes to buffer 0 again: tile %
  2
first-use
  after this wait the first product that uses it has ended, but a later product uses it again
itself-counted: off=1
  the product itself was counted among the younger ones, so that this wait may leave it in flight. N
  must be at most the number of products issued after it
one-younger-too-many: off=-1
  one younger product more than N is asked for. N is enough
same-products-only
  only scores were counted after scores, and outputs after outputs. wgmma_wait counts all groups
waits-counted
  waits are counted as if they were groups. Only products are committed
number-of-the-wait
  this is the number of the wait among the waits. The index in the program is asked for
last-wait-for-none
  no wait of the program ends this product, and its last wait was named. The answer is -1
)");

// Runs the program, and writes to the thing after step `from` and each later one. Returns what the
// emulator finds.
static std::string play(const Program& program, Thing thing, int from) {
  fa::simt::Config config;
  config.counters = false;
  const auto report = exercise::run_block(
      128, Q_BYTES + 4 * TILE_BYTES,
      [&] {
        const uint32_t Q = dynamic_smem(), buffers = Q + Q_BYTES;  // K0, K1, V0, V1
        const auto own = [](uint32_t tile) {
          return tile + static_cast<uint32_t>(thread_index()) * 16;
        };
        for (uint32_t tile = Q; tile < buffers + 4 * TILE_BYTES; tile += TILE_BYTES)
          for (uint32_t at = 0; at < 16; at += 8) store_shared<uint64_t>(own(tile) + at, 0);
        fence_proxy_async();
        block_sync();
        float S[KEYS / 8][4] = {}, O[8][4] = {};
        uint32_t P[4] = {};
        for (int i = 0; i < std::ssize(program); ++i) {
          const Step& step = program[i];
          const uint32_t odd = step.number % 2 == 1;
          if (step.kind == Step::kWait) {
            emulator::detail::wgmma_wait(step.number, {&S[0][0], &O[0][0]}, __LINE__, __FILE__);
          } else {
            wgmma_fence();
            if (step.kind == Step::kScores) {
              wgmma<bf16>(S, Tile<64>::columns(Q, 0),
                          Tile<KEYS>::columns(buffers + odd * TILE_BYTES, 0), false);
            } else {
              wgmma<bf16, Major::mn>(O, P, Tile<KEYS>::rows(buffers + (2 + odd) * TILE_BYTES, 0),
                                     true);
            }
            wgmma_commit();
          }
          if (i < from) continue;
          switch (thing) {
            case Thing::S:
              S[0][0] = 1;
              break;
            case Thing::P:
              P[0] = 1;
              break;
            case Thing::O:
              O[0][0] = 1;
              break;
            default:
              store_shared<uint64_t>(own(buffers + (static_cast<uint32_t>(thing) - 3) * TILE_BYTES),
                                     1);
          }
        }
        emulator::detail::wgmma_wait(0, {&S[0][0], &O[0][0]}, __LINE__, __FILE__);
      },
      config);
  return exercise::hazards(report);
}

static std::vector<Thing> things_of(const Program& program) {
  std::vector<Thing> things;
  for (int i = 0; i < 7; ++i)
    if (std::any_of(program.begin(), program.end(),
                    [&](const Step& step) { return used_by({}, step, Thing(i)); }))
      things.push_back(Thing(i));
  return things;
}

static exercise::Numbers all(const Program& program, const Changes& is) {
  exercise::Numbers numbers;
  for (const Thing thing : things_of(program)) numbers.push_back(free_with(is, program, thing));
  return numbers;
}

static std::string spelled(const Step& step) {
  return (step.kind == Step::kScores   ? "scores of tile "
          : step.kind == Step::kOutput ? "output of tile "
                                       : "wgmma_wait<") +
         std::to_string(step.number) + (step.kind == Step::kWait ? ">" : "");
}

static std::string told(const Program& program, Thing thing, int got, int expected) {
  const std::string name = kNames[static_cast<int>(thing)];
  if (got < 0) return name + ": a wait of the program ends its last use\n";
  if (got >= std::ssize(program)) return name + ": the program has no such step\n";
  const std::string hazards = play(program, thing, got);
  const std::string place =
      name + ", written after step " + std::to_string(got) + ", " + spelled(program[got]) + ": ";
  if (!hazards.empty()) return place + "the emulator finds\n" + hazards;
  if (program[got].kind != Step::kWait) return place + "this is no wait\n";
  return place + "nothing is wrong, but it was free after step " + std::to_string(expected) +
         " already\n";
}

static void check_program(const char* text) {
  const Program program = program_of(text);
  std::string seen;
  for (int i = 0; i < std::ssize(program); ++i)
    seen += (i ? ", " : "") + std::to_string(i) + " " + spelled(program[i]);
  seen = "the program: " + seen + "\n";
  const exercise::Numbers expected = all(program, {});
  exercise::Numbers got;
  std::vector<std::string> labels;
  bool first = true;
  for (const Thing thing : things_of(program)) {
    const int behind = free_behind(program, thing);
    const double right = expected[got.size()];
    got.push_back(behind);
    labels.emplace_back(kNames[static_cast<int>(thing)]);
    if (behind != right && first) seen += told(program, thing, behind, static_cast<int>(right));
    first = first && behind == right;
  }
  seen.pop_back();
  INFO(seen);
  const auto mistakes =
      exercise::mistakes(MISTAKES, [&](const Changes& is) { return all(program, is); });
  exercise::check_output({"free", 0, 0, labels}, got, expected, mistakes);
}

const char* const kPrograms[] = {"s0 w0 o0 w0",
                                 "s1 o0 w1 w0",
                                 "o0 s1 w1 w0",
                                 "s0 s1 w1 o0 w1 w0",
                                 "s0 w0 s1 o0 w1 w0 s2 o1 w1 w0 o2 w0",
                                 "s0 s1 s2 w2 o0 o1 w2 w1 w0",
                                 "s2 o1 s3 w2 o2 w1"};

TEST_CASE("one after the other") { check_program(kPrograms[0]); }
TEST_CASE("the next scores, then this output") { check_program(kPrograms[1]); }
TEST_CASE("this output, then the next scores") { check_program(kPrograms[2]); }
TEST_CASE("three groups") { check_program(kPrograms[3]); }
TEST_CASE("a loop of three tiles") { check_program(kPrograms[4]); }
TEST_CASE("longer in flight") { check_program(kPrograms[5]); }
TEST_CASE("in flight at the end") { check_program(kPrograms[6]); }

// The answer that this test expects agrees with the emulator, which finds no hazard after this
// wait, but one if it comes one step earlier.
TEST_CASE("the programs") {
  for (const char* const text : kPrograms) {
    const Program program = program_of(text);
    for (const Thing thing : things_of(program)) {
      CAPTURE(std::string(text));
      CAPTURE(std::string(kNames[static_cast<int>(thing)]));
      const int right = free_with({}, program, thing);
      if (right >= 0) CHECK(play(program, thing, right) == "");
      CHECK(play(program, thing, (right < 0 ? static_cast<int>(program.size()) : right) - 1) != "");
    }
  }
}
