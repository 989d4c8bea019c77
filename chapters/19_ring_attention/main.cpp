// In ring attention, several ranks share the keys and queries of a sequence.
//
//   ch19_ring_attention --ranks 4 --causal --schedule zigzag --profile     ranks are threads
//   mpirun -n 4 ch19_ring_attention --causal --schedule zigzag             or processes
//   ch19_ring_attention --backward
//   ch19_ring_attention --device gpu --ranks 4             one GPU per rank, keys by NCCL

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "breaks.hpp"
#include "breaks/ch19_ring_attention.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "run.hpp"
#if FA_MPI
#include "mpi_ranks.hpp"
#endif

namespace ch19 {
namespace {

fa::Program program_for(const Flags& flags) {
  return {.name = "ch19_ring_attention",
          .about = "Chapter 19: ring attention, a sequence that several ranks share",
          .default_shape = {1, 4, 1024, 1024, 64},
          .breaks = {std::begin(BREAKS), std::end(BREAKS)},
          .dtypes = {flags.kernels ? fa::Dtype::bf16 : fa::Dtype::f32},
          .features = fa::CAUSAL | fa::LSE | fa::KV_HEADS,
          .passes = flags.backward ? fa::FORWARD | fa::BACKWARD : fa::FORWARD};
}

fa::Verdict check(const fa::Tensors& tensors, const fa::Arguments& args) {
  fa::Verdict verdict = fa::check_forward(tensors, args.seed);
  if (!(args.program.passes & fa::BACKWARD)) return verdict;
  const fa::Verdict gradients = fa::check_backward(tensors, args.seed);
  verdict.passed = verdict.passed && gradients.passed;
  verdict.text += "\n" + gradients.text;
  verdict.report = fa::shared_json(
      {{"passed", verdict.passed}, {"forward", *verdict.report}, {"backward", *gradients.report}});
  return verdict;
}

int attention(fa::Invocation& call, Ranks* mpi) {
  Flags flags(call.argc, call.argv, mpi);
  const fa::Arguments args =
      fa::parse(call, program_for(flags), [&](fa::Cli& cli) { flags.declare(cli); });
  fa::Tensors tensors = fa::make_tensors(args);
  const fa::Run result = run(tensors, args, flags);
  const fa::Verdict verdict = check(tensors, args);
  return fa::report(args, tensors, result, verdict);
}

int run_program(int argc, char** argv, Ranks* mpi) {
  fa::BreakDemos demos = CH19_BREAKS;
  if (mpi != nullptr) demos.not_taken = "--ranks";  // mpirun says how many
  return fa::breakable_main(argc, argv, demos,
                            [&](fa::Invocation& call) { return attention(call, mpi); });
}

// Returns the value of the first of these variables that is set. mpirun of Open MPI and MPICH, and
// PMIx, set them.
const char* first_set(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable)) return value;
  return nullptr;
}

}  // namespace
}  // namespace ch19

int main(int argc, char** argv) {
  using namespace ch19;
  const char* const rank = first_set({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  if (rank == nullptr) return run_program(argc, argv, nullptr);
#if FA_MPI
  return run_by_mpi(argc, argv, run_program);
#else
  if (std::string(rank) == "0") {
    std::cerr
        << "error: this build has no MPI, and its ranks are threads: start it without mpirun, "
           "with --ranks; for MPI install libopenmpi-dev and build again\n";
  }
  return fa::kBadInput;
#endif
}
