// options: {here}/units_other.cu
// Two files with the same names: static, unnamed and plain variables and kernels are each file's
// own.
#include "units.cuh"

int main() {
  int failures = 0;
  for (int round = 0; round < 2; ++round) {  // neither file's call changes what the other one has
    failures += other_file(round);
    failures += this_file(round);
  }
  printf("%d wrong\n", failures);
  return failures;
}
