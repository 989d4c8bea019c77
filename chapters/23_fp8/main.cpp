#include "breaks/ch23_fp8.hpp"
#include "chapter.hpp"
#include "common/accuracy.hpp"
#include "common/kernels/program.hpp"

namespace ch23 {

constexpr const char* ABOUT = "Both products in 8-bit floating point, on Hopper.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors =
      fa::make_tensors(args, {}, [&](fa::Problem& problem) { prepare(problem, args.options); });
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch16::KERNEL);
  const fa::Verdict verdict =
      fa::check_rounding(tensors, computed(tensors, args.options), args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch23

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH23_BREAKS, ch23::attention);
}
