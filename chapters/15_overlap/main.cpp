#include "breaks/ch15_overlap.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch15 {

constexpr const char* ABOUT =
    "Overlap: the next tile's softmax runs during this tile's product P V.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch14::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch15

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH15_BREAKS, ch15::attention);
}
