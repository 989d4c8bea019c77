#pragma once
// OpenMP for the host's code. Its pragmas are ignored, so there is one thread.

static inline int omp_get_thread_num() { return 0; }
static inline int omp_get_num_threads() { return 1; }
static inline int omp_get_max_threads() { return 1; }
static inline void omp_set_num_threads(int) {}
