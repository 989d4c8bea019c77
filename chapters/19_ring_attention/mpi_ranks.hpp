#pragma once
// The program's ranks as processes: mpirun -n P ch19_ring_attention …

#include "work.hpp"

namespace ch19 {

// Every process calls it, as its main. Rank 0 is the program; the others do its jobs until it ends.
// Returns the exit code. Processes that were started differently end at once, with 2; so do all if
// one of them cannot go on.
int run_by_mpi(int argc, char** argv, int (*program)(int argc, char** argv, Ranks* ranks));

}  // namespace ch19
