#include "breaks/ch04_swizzling.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch04 {

constexpr const char* ABOUT =
    "The same kernel without bank conflicts: chunks XORed with their row's number.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch03::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch04

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH04_BREAKS, ch04::attention);
}
