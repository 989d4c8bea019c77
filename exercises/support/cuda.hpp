#pragma once
// Exercises in plain CUDA. Compiles the learner's .cu file with emucuda, runs it on the emulator,
// and gives the test what it printed, its hazards and its counters.

#include <cstdint>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

namespace exercise {

struct CudaHazard {
  std::string kind, message;
  bool within_warp;  // between two lanes of one warp
};

// One run of the program.
struct CudaRun {
  std::string printed;
  std::vector<CudaHazard> hazards;
  std::vector<std::pair<std::string, int64_t>> counters;  // summed over all kernels

  // The numbers of the line "NAME: 1 2 3" that main printed.
  Numbers numbers(const std::string& name) const;
  int64_t counter(const std::string& name) const;
  bool has(const std::string& kind) const;
  // True if there are hazards, and all are of one of these kinds.
  bool only(const std::vector<std::string>& kinds) const;
  bool within_warps() const;  // all hazards are
};

// Fails with the first hazard if there is one. Returns true if there is none.
bool check_no_hazards(const CudaRun& run, const std::vector<Suspect>& suspects = {},
                      int line = __builtin_LINE(), const char* file = __builtin_FILE());

// Runs the file `main`, which includes the answer, with these arguments. Compiles it the first
// time. The answer is the file that EXERCISE_ANSWER names, or the copy, or the stub. Throws Todo if
// it still has its TODO line, and std::runtime_error with the compiler's words.
CudaRun run_cuda(const char* main, const char* copy, const char* stub,
                 const std::vector<std::string>& arguments);
#ifdef EXERCISE_MAIN
inline CudaRun run_cuda(const std::vector<std::string>& arguments) {
  return run_cuda(EXERCISE_MAIN, EXERCISE_COPY, EXERCISE_STUB, arguments);
}
#endif

}  // namespace exercise
