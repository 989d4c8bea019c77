// Replaces chapter 10's experiments on the CPU, which print tables, because its kernels fill a
// module.
#include "chapters/10_backward/commands.hpp"

#include "common/error.hpp"

namespace fa::ch10 {

void add_commands(Cli&, CommandOptions&) {}
int run_command(const std::string&, const CommandOptions&) { return kBadInput; }  // there is none

}  // namespace fa::ch10
