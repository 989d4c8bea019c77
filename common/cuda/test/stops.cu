// Programs that end early. Each -D says how; the comment has the exit status and what is printed.
#include <cstdio>
#include <cstdlib>

__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void wild(int* p) { *(p + (1 << 28)) = 1; }
__global__ void fine(int* p) { p[threadIdx.x] = 1; }

int main(int argc, char**) {
  int* p;
  cudaMalloc(&p, 128);
  cudaMemset(p, 0, 128);
#ifdef ABORT  // 134 the host code called abort
  std::abort();
#endif
#ifdef SEGFAULT  // 139 the host code accessed memory that does not exist
  *(volatile int*)(size_t)argc = 1;
#endif
#ifdef DIVIDE  // 136 the host code divided by zero
  volatile int zero = argc - 1;
  std::printf("%d\n", 100 / zero);
#endif
#ifdef SPIN  // 1 in kernel spin
  spin<<<1, 1>>>(p);
  return cudaDeviceSynchronize() == cudaSuccess;
#endif
#ifdef WILD  // 1 out_of_bounds: thread 0
  wild<<<1, 1>>>(p);
#endif
#ifdef OWN  // 7 the program's exit status is 7
  fine<<<1, 32>>>(p);
  return 7;
#endif
  return cudaDeviceSynchronize() != cudaSuccess;
}
