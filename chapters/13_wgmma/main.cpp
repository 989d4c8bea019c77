#include "breaks/ch13_wgmma.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch13 {

constexpr const char* ABOUT = "The tensor cores read shared memory themselves.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch12::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch13

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH13_BREAKS, ch13::attention);
}
