#include <doctest/doctest.h>

#include <algorithm>
#include <what_is_free.hpp>

#include "common/kernels/wgmma_tile.hpp"
#include "exercises/support/warp.hpp"

using namespace emulator;

constexpr int KEYS = 16;  // of a tile; 64 columns
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

// The function as people write it: right as it stands here, and each mistake is a change.
struct Way {
  enum Uses {
    kRight,
    kPWithScores,   // P by the scores' product
    kSWithOutput,   // S by the output's product, too
    kKAndV,         // exchanged
    kOneBuffer,     // any tile in any buffer
    kOtherBuffer,   // odd and even exchanged
    kTileIsBuffer,  // no % 2
    kOperandsOnly,  // nothing but K and V is in use
  } uses = kRight;
  enum Use { kLast, kFirst } use = kLast;
  enum Which {
    kThatEndsIt,
    kNext,
    kForAll,
    kAtIssue,
    kOperandsAtIssue,
    kPAtIssue
  } which = kThatEndsIt;
  int off = 0;  // counts so many groups too many as younger
  enum Younger { kProducts, kSameKind, kSteps } younger = kProducts;
  bool counts_waits = false;  // the number of the wait, not of the step
  bool last_if_none = false;
};

static bool used_by(const Way& way, const Step& step, Thing thing) {
  const bool scores = step.kind == Step::kScores;
  if (step.kind == Step::kWait) return false;
  switch (thing) {
    case Thing::S:
      return scores || way.uses == Way::kSWithOutput;
    case Thing::P:
      return scores == (way.uses == Way::kPWithScores);
    case Thing::O:
      return !scores;
    default:
      break;
  }
  const bool is_k = thing == Thing::K0 || thing == Thing::K1;
  const bool odd = thing == Thing::K1 || thing == Thing::V1;
  if (scores != (is_k != (way.uses == Way::kKAndV))) return false;
  if (way.uses == Way::kOneBuffer) return true;
  if (way.uses == Way::kTileIsBuffer) return step.number == odd;
  return (step.number % 2 == 1) == (odd != (way.uses == Way::kOtherBuffer));
}

static int free_with(const Way& way, const Program& program, Thing thing) {
  int user = -1;
  for (int i = 0; i < std::ssize(program); ++i)
    if (used_by(way, program[i], thing) && (user < 0 || way.use == Way::kLast)) user = i;
  if (user < 0) return -1;
  const bool operand = thing != Thing::S && thing != Thing::O;
  if (way.which == Way::kAtIssue || (way.which == Way::kOperandsAtIssue && operand) ||
      (way.which == Way::kPAtIssue && thing == Thing::P))
    return user;
  int younger = way.off, last = -1, waits = 0;
  for (int i = 0; i < std::ssize(program); ++i) {
    const Step& step = program[i];
    waits += step.kind == Step::kWait;
    if (i <= user) continue;
    if (step.kind != Step::kWait) {
      younger += way.younger != Way::kSameKind || step.kind == program[user].kind;
      continue;
    }
    const int n = way.which == Way::kNext ? -100 : step.number;
    last = way.counts_waits ? waits - 1 : i;
    if (way.which == Way::kForAll ? n == 0 : n <= younger) return last;
    younger += way.younger == Way::kSteps;
  }
  return way.last_if_none ? last : -1;
}

using Wrong = exercise::Wrong<Way>;

static std::vector<Wrong> wrong_ways() {
  using W = Way;
  return {
      {"wait-for-all",
       "only wgmma_wait<0> is taken for the end of a product; wgmma_wait<N> ends all but the N "
       "youngest",
       {{.which = W::kForAll}}},
      {"next-wait",
       "the next wait is taken for the one that ends the product, whatever its N is; it may let "
       "the product go on",
       {{.which = W::kNext}}},
      {"free-at-the-issue",
       "this is the step that issues the product; it only begins there, and reads and writes until "
       "a wait says that it has ended",
       {{.which = W::kAtIssue}}},
      {"operands-read-at-the-issue",
       "P, or K and V too, are taken to be read when the product is issued; it reads its operands "
       "until it has ended, those in registers as well",
       {{.which = W::kPAtIssue}, {.which = W::kOperandsAtIssue}}},
      {"p-with-s",
       "P is taken to be free with S; the product of scores writes S, and P is the operand of the "
       "output's product",
       {{.uses = W::kPWithScores}}},
      {"s-until-the-output",
       "S is taken to be in use until the output's product has ended; that one reads P, which "
       "ordinary instructions made of S",
       {{.uses = W::kSWithOutput}}},
      {"k-and-v-exchanged",
       "scores read K and output reads V, not the other way round",
       {{.uses = W::kKAndV}}},
      {"one-buffer-for-all",
       "a buffer is taken to be in use by all tiles; even tiles use buffer 0, odd ones buffer 1",
       {{.uses = W::kOneBuffer}}},
      {"odd-and-even-exchanged",
       "even tiles use buffer 0 and odd ones buffer 1, not the other way round",
       {{.uses = W::kOtherBuffer}}},
      {"tile-for-buffer",
       "only tile 0 is taken to use buffer 0, only tile 1 buffer 1; tile 2 comes to buffer 0 "
       "again: tile % 2",
       {{.uses = W::kTileIsBuffer}}},
      {"first-use",
       "behind this wait the first product that uses it has ended, and a later one uses it again",
       {{.use = W::kFirst}}},
      {"itself-counted",
       "the product itself is counted among the younger ones, so this wait may let it go on: N "
       "must be at most the number of products issued behind it",
       {{.off = 1}}},
      {"one-younger-too-many",
       "one younger product more than N is asked for; N is enough",
       {{.off = -1}}},
      {"same-products-only",
       "only scores are counted behind scores, and outputs behind outputs; wgmma_wait counts all "
       "groups",
       {{.younger = W::kSameKind}}},
      {"waits-counted",
       "waits are counted as if they were groups; only products are committed",
       {{.younger = W::kSteps}}},
      {"number-of-the-wait",
       "this is the number of the wait among the waits; the index in the program is asked for",
       {{.counts_waits = true}}},
      {"last-wait-for-none",
       "no wait of the program ends this product, and its last wait was named; the answer is -1",
       {{.last_if_none = true}}},
  };
}

// Runs the program, and writes to the thing behind step `from` and each later one. What the
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

static exercise::Numbers all(const Program& program, const Way& way) {
  exercise::Numbers numbers;
  for (const Thing thing : things_of(program)) numbers.push_back(free_with(way, program, thing));
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
      name + ", written behind step " + std::to_string(got) + ", " + spelled(program[got]) + ": ";
  if (!hazards.empty()) return place + "the emulator finds\n" + hazards;
  if (program[got].kind != Step::kWait) return place + "this is no wait\n";
  return place + "nothing is wrong, but it was free behind step " + std::to_string(expected) +
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
      exercise::mistakes(wrong_ways(), [&](const Way& way) { return all(program, way); });
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

// What this test takes for right is what the emulator finds: behind this wait nothing, one step
// earlier a hazard.
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
