// Decoding: one query or a few queries for each sequence of a cache.
//
// Without arguments it runs the chapter as a story: requests arrive, are answered and leave.
//
//   ch11_decoding --shape 1,8,1,4096,128 --kv-heads 2 --profile
//   ch11_decoding --shape 3,8,1,700,128 --page-size 16 --cache-seqlens 700,33,0 --splits 3
//   ch11_decoding --shape 8,8,1,512,64 --page-size 16 --prefix 448 --profile
//   ch11_decoding waves --items 8

#include "breaks/ch11_decoding.hpp"
#include "chapter.hpp"
#include "commands.hpp"
#include "run.hpp"

namespace fa::ch11 {
namespace {

int attention(Invocation& call) {
  if (call.argc == 1) return serve_command({});
  Flags flags;
  CommandOptions command;
  const Program program = program_of(::ch11::KERNEL, "Chapter 11: decoding", {2, 8, 1, 1000, 128});
  const Arguments args = parse(call, program, [&](Cli& cli) {
    flags.declare(cli);
    add_commands(cli, command);
  });
  if (!args.command.empty()) return run_command(args.command, command);
  Tensors tensors = make_tensors(
      args, [&](const Problem& problem) { check_options(problem, args, flags); },
      [&](Problem& problem) { prepare(problem, args, flags); });
  const Run run = run_decode(tensors, args, flags);
  const Verdict verdict = check_forward(tensors, args.seed);
  return report(args, tensors, run, verdict);
}

}  // namespace
}  // namespace fa::ch11

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH11_BREAKS, fa::ch11::attention);
}
