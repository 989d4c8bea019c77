#include "story.hpp"

#include <ostream>

#include "breaks.hpp"
#include "report.hpp"
#include "text.hpp"

namespace ch18 {
namespace {

class Story {
 public:
  explicit Story(std::ostream& out) : out_(out) {}

  void say(const std::string& text) { out_ << text << "\n\n"; }

  void multiply(const std::string& sentence, const MatmulRequest& request, std::int64_t cycles,
                int mismatches = 0) {
    const MatmulRun run = run_matmul(request);
    out_ << "── " << sentence << "\n";
    if (request.trace) out_ << "\n" << trace_text(request, run) << "\n";
    out_ << matmul_text(request, run);
    if (mismatches && run.mismatches == mismatches) out_ << "(wrong, as it must be)\n";
    claim(run.cycles == cycles && run.mismatches == mismatches);
  }

  void attend(const std::string& sentence, const AttentionShape& shape, Accounting accounting,
              const Machine& machine, std::int64_t total) {
    const AttentionCost cost = attention_cost(shape, accounting, machine);
    out_ << "── " << sentence << "\n"
         << count(cost.total_cycles) << " cycles: MXU " << count(cost.mxu_cycles) << ", VPU "
         << count(cost.vpu_cycles) << "; MXU utilization " << percent(cost.utilization) << "\n";
    claim(cost.total_cycles == total);
  }

  void loop(const std::string& sentence, Loop as, std::int64_t cycles) {
    LoopModel model = attention_loop(as, {});
    const Schedule schedule = run_schedule(model.tasks, {1, 4, 1});
    out_ << "── " << sentence << "\n"
         << count(schedule.cycles) << " cycles, " << count(model.iterations) << " iterations\n";
    claim(schedule.cycles == cycles);
  }

  bool end() {
    out_ << (all_true_ ? "Every result and every count agrees with the lesson.\n"
                       : "Some of it does NOT agree with the lesson; see above.\n");
    return all_true_;
  }

 private:
  void claim(bool holds) {
    if (!holds) out_ << "NOT WHAT THE LESSON SAYS\n";
    out_ << "\n";
    all_true_ = all_true_ && holds;
  }

  std::ostream& out_;
  bool all_true_ = true;
};

}  // namespace

bool tell_story(std::ostream& out) {
  Story story(out);
  story.say(
      "Chapter 18. A chip that is one large multiplier. Numbers flow from cell to cell,\n"
      "and no cell loads one from memory. What does FlashAttention save there?");

  MatmulRequest small{2, 3, 2, 3, 2};
  small.trace = true;
  story.multiply("B stays in the cells, A comes from the left, sums go down.", small, 5);
  small.dataflow = Dataflow::kOutput;
  small.rows = 2;
  story.multiply("The same product with C staying in the cells.", small, 5);
  small = {2, 3, 2, 3, 2};
  small.breaks = kNoStagger;
  story.multiply("All rows start at cycle 0: faster, but each sum mixes two rows of A.", small, 3,
                 4);
  story.multiply("A full tile on the TPU's array.", {128, 128, 128}, 382);
  story.multiply("Two tiles of weights, one after the other: each fills and drains the array.",
                 {512, 256, 128}, 2 * 766);
  MatmulRequest pair{512, 256, 128};
  pair.double_buffer = true;
  story.multiply("The second tile's weights arrive during the first.", pair, 512 + 766);

  AttentionShape flash{Algorithm::kFlash, 512, 64, 128, true};
  AttentionShape standard = flash;
  standard.algorithm = Algorithm::kStandard;
  story.attend("Attention, n = 512, by the article's account: flash, tiles of 128.", flash,
               Accounting::kSeed, {}, 16936);
  story.attend("… and the whole matrix at once.", standard, Accounting::kSeed, {}, 20604);
  story.attend("On the array that is there, 128 × 128: the whole matrix.", standard,
               Accounting::kArray, {}, 24048);
  story.attend("Weights double-buffered, MXU and VPU at the same time: flash.", flash,
               Accounting::kOverlapped, {}, 10576);
  story.attend("… with 8 × 128 vector lanes and 4 MXUs.", flash, Accounting::kOverlapped,
               {128, 128, 4, 1024}, 1389);

  story.loop("n = 4096, a loop in a loop: each tile waits for the tile before it.", Loop::kSerial,
             912384);
  story.loop("The outer loop as a batch: 32 rows of tiles at once.", Loop::kVmap, 151264);
  return story.end();
}

}  // namespace ch18
