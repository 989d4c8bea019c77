// Replaces commands of chapters 11 and 17, because the page of a kernel runs none.
#include "chapters/11_decoding/commands.hpp"
#include "chapters/17_low_precision/accuracy.hpp"
#include "common/error.hpp"

namespace fa::ch11 {

void add_commands(Cli&, CommandOptions&) {}
int run_command(const std::string&, const CommandOptions&) { return kBadInput; }  // there is none
int serve_command(const CommandOptions&) { return kBadInput; }

}  // namespace fa::ch11

int ch17::run_accuracy(int, char**) { return fa::kBadInput; }
