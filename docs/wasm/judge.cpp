// Runs the exercises' tests as a program: judge FILE EXERCISE. FILE is the answer, under the name
// that messages use, and EXERCISE the directory of the test.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

int judge(int, char** argv) {
  setenv("EXERCISE_ANSWER", argv[1], 1);
  doctest::Context context;
  context.setOption("reporters", "verdict");
  context.setOption("source-file", ("*/" + std::string(argv[2]) + "/*").c_str());
  return context.run();
}
