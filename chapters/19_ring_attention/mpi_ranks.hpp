#pragma once
// Runs the program's ranks as processes, by mpirun -n P ch19_ring_attention …

#include "work.hpp"

namespace ch19 {

// Every process calls it as its main. Rank 0 runs the program, and the others do its jobs until it
// ends. Returns the exit code. Processes that were started differently end immediately with 2. All
// end with 2 if one of them cannot continue.
int run_by_mpi(int argc, char** argv, int (*program)(int argc, char** argv, Ranks* ranks));

}  // namespace ch19
