#include "breaks/ch14_warp_specialization.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch14 {

constexpr const char* ABOUT = "Warps with roles: a producer, two or three consumers.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch13::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch14

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH14_BREAKS, ch14::attention);
}
