#include "breaks/ch09_masks_and_shapes.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch09 {

constexpr const char* ABOUT = "Attention as models use it: which tiles does a row of tiles need?";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch08::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch09

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH09_BREAKS, ch09::attention);
}
