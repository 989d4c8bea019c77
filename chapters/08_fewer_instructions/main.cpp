#include "breaks/ch08_fewer_instructions.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch08 {

constexpr const char* ABOUT = "32 query rows a warp, and a softmax without what it does not need.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch07::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch08

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH08_BREAKS, ch08::attention);
}
