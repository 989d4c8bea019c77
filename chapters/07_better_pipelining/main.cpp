#include "breaks/ch07_better_pipelining.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch07 {

constexpr const char* ABOUT = "Only K needs two buffers, and the tile grows back.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch06::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch07

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH07_BREAKS, ch07::attention);
}
