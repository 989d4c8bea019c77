// Launches each pattern of a table once, in order, so that Nsight Compute can count them.
//   access_patterns docs/measurements/h200/access_patterns.csv
#include <cstdio>

#include "common/simt/access_patterns.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "error: access_patterns takes the path of a table of patterns\n");
    return 2;
  }
  using namespace gpu::access_patterns;
  void *array = nullptr, *sink = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&array, MOST_ELEMENTS * 16));
  FA_CUDA_CHECK(cudaMalloc(&sink, MOST_ELEMENTS * 16));
  for (const Pattern& pattern : read_patterns(argv[1])) run(pattern, array, sink);
  FA_CUDA_CHECK(cudaDeviceSynchronize());
}
