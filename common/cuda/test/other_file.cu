// Without main: the second file of two_files.cu.
static __device__ int count;
__global__ void add_to_count() { atomicAdd(&count, 1); }
int count_after_launch() {
  int result = 0;
  add_to_count<<<2, 16>>>();
  cudaMemcpyFromSymbol(&result, count, sizeof result);
  return result;
}
