#include "breaks/ch03_basic_kernel.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch03 {

constexpr const char* ABOUT =
    "Attention on the tensor cores: cp.async, ldmatrix, mma, softmax in registers.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch03

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH03_BREAKS, ch03::attention);
}
