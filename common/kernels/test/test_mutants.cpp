// Mutation test: each barrier and each wait of a kernel, left out alone, must be reported as a
// hazard. Compiled once for each chapter, with FA_MUTANTS, FA_CHAPTER_HEADER and FA_CHAPTER.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include FA_CHAPTER_HEADER
#include "common/kernels/kernel_program.hpp"

namespace {

std::map<int, std::string> sites;  // line -> which function is called there
int left_out_line = 0;

}  // namespace

bool mutant::left_out(int line, const char* what) {
  if (left_out_line == 0) sites[line] = what;  // the intact run, on one CPU thread
  return line == left_out_line;
}

namespace {

void forward(const fa::ForwardArgs& args) {
  mutant::FA_CHAPTER::launch_attention<64>(args, mutant::NoBreaks{});
}

fa::simt::Report run_without(int line) {
  // Ragged, and more tiles than any chapter keeps in flight.
  static const fa::Problem problem = fa::random_problem({1, 1, 70, 250, 64}, fa::Dtype::bf16, 7);
  std::vector<float> o(problem.shape.q_elements());
  left_out_line = line;
  return fa::run_on_emulator(forward, problem, o, {.threads = 1}).report;
}

TEST_CASE("every barrier and every wait is needed, and its absence is reported") {
  const fa::simt::Report intact = run_without(0);
  CHECK_MESSAGE(intact.hazards.empty(), (intact.hazards.empty() ? "" : intact.hazards[0].text));
  REQUIRE(sites.size() == FA_SYNCHRONIZATIONS);
  for (const auto& site : sites) {
    const fa::simt::Report report = run_without(site.first);
    INFO(site.second, " in line ", site.first, " left out");
    CHECK(!report.hazards.empty());
  }
}

}  // namespace
