#include "breaks/ch06_ldmatrix_x4.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch06 {

constexpr const char* ABOUT = "Half the ldmatrix instructions for the same bytes.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch05::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch06

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH06_BREAKS, ch06::attention);
}
