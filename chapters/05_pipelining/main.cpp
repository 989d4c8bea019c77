#include "breaks/ch05_pipelining.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch05 {

constexpr const char* ABOUT = "Loads the next tile while computing this one.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch04::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch05

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH05_BREAKS, ch05::attention);
}
