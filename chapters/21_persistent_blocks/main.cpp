#include "breaks/ch21_persistent_blocks.hpp"
#include "chapter.hpp"
#include "common/kernels/program.hpp"

namespace ch21 {

constexpr const char* ABOUT =
    "Persistent blocks: the next tile loads while the last one is stored.";

int attention(fa::Invocation& call) {
  const fa::Arguments args = fa::parse(call, fa::program_of(KERNEL, ABOUT));
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run run = fa::run_forward(KERNEL, tensors, args, &ch16::KERNEL);
  const fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  return fa::report(args, tensors, run, verdict);
}

}  // namespace ch21

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH21_BREAKS, ch21::attention);
}
