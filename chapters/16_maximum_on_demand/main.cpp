#include "breaks/ch16_maximum_on_demand.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch16 {

constexpr const char* ABOUT = "The maximum on demand: the sums say when it has to be looked for.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch15::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch16

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH16_BREAKS, ch16::attention);
}
