// Replaces chapter 10's experiments and algorithms on the CPU, because its kernels fill a module
// and no page asks for these.
#include "chapters/10_backward/commands.hpp"

#include "chapters/10_backward/cpu_backward.hpp"
#include "common/error.hpp"

namespace fa::ch10 {

void add_commands(Cli&, CommandOptions&) {}
int run_command(const std::string&, const CommandOptions&) { return kBadInput; }  // there is none

const std::vector<AlgorithmName> kAlgorithms = {{Algorithm::naive, "naive", {}},
                                                {Algorithm::rows, "rows", {}},
                                                {Algorithm::columns, "columns", {}},
                                                {Algorithm::tiled, "tiled", {}}};
const AlgorithmName& named(Algorithm) { return kAlgorithms[0]; }
void validate(const Problem&, const Options&) {
  throw InputError("--algorithm: a page runs chapter 10's kernels, not its algorithms on the CPU");
}
Report differentiate(const Problem&, const Options&, std::span<float>, std::span<float>,
                     std::span<float>) {
  return {};  // validate comes first
}

}  // namespace fa::ch10
