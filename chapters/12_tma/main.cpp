#include "breaks/ch12_tma.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch12 {

constexpr const char* ABOUT = "Tiles by TMA: one instruction of one thread.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch08::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch12

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH12_BREAKS, ch12::attention);
}
