#include <string_view>

#include "accuracy.hpp"
#include "breaks/ch17_low_precision.hpp"
#include "chapter.hpp"
#include "common/accuracy.hpp"
#include "common/guarded_main.hpp"
#include "common/kernels/program.hpp"

namespace ch17 {

constexpr const char* ABOUT = "8 bits where they do no harm: Q K^T of integers.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors =
      fa::make_tensors(args, {}, [&](fa::Problem& problem) { prepare(problem, args.options); });
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch09::KERNEL);
  const fa::Verdict verdict =
      fa::check_rounding(tensors, computed(tensors, args.options), args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch17

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("accuracy"))
    return fa::guarded_main(argc - 1, argv + 1, ch17::run_accuracy);
  return fa::breakable_main(argc, argv, CH17_BREAKS, ch17::attention);
}
