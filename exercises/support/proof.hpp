#pragma once
// Says which of its answers a program of the proof runs, and mistakes.py writes the programs'
// headers.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace exercise {

// Returns the place in `names` of the answer that the environment variable EXERCISE_PROOF names.
inline int answer_to_prove(std::initializer_list<const char*> names) {
  const char* wanted = std::getenv("EXERCISE_PROOF");
  int index = 0;
  for (const char* name : names) {
    if (wanted && std::strcmp(name, wanted) == 0) return index;
    ++index;
  }
  std::fprintf(stderr, "error: EXERCISE_PROOF must name an answer:");
  for (const char* name : names) std::fprintf(stderr, " %s", name);
  std::fprintf(stderr, "\n");
  std::exit(3);
}

}  // namespace exercise
