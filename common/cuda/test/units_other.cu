// The second file of units.cu.
#define UNIT 2
#include "units.cuh"
