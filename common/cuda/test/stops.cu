// Programs that end early. Each -D says how; the comment has the exit status and what is printed.
#include <cstdio>
#include <cstdlib>

__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void wild(int* p) { *(p + (1 << 28)) = 1; }
__global__ void spin_alone(unsigned* p) {  // no access in the loop, which the compiler may not drop
  unsigned i = p[0];
  while (i != 3) i = i * 2 + 2;
  p[1] = i;
}
__global__ void large(int* p) {
  int local[1 << 18];
  for (int i = 0; i < 1 << 18; ++i) local[i] = p[i & 1];
  p[0] = local[p[1]];
}
__device__ __noinline__ int deep(int n, int* p) {
  int local[64];
  for (int i = 0; i < 64; ++i) local[i] = p[i % 2] + n;
  return n == 0 ? 0 : deep(n + 1, local) + local[n % 64];
}
__global__ void recurses(int* p) { p[0] = deep(1, p); }
__global__ void leaves_array(int* p, int n) {
  int local[4] = {};
  for (int i = 0; i < n; ++i) local[i] = i;
  p[0] = local[p[1]];
}
__global__ void adds(int* q) { q[1] += 1; }
__global__ void fine(int* p) { p[threadIdx.x] = 1; }

int host_recursion(int n) {
  volatile int local[1000];
  local[n % 1000] = n;
  return host_recursion(n + 1) + local[n % 7];
}

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
#ifdef SPIN_ALONE  // 1 without beginning an instruction of the emulator: its loop does not end
  spin_alone<<<1, 1>>>((unsigned*)p);
#endif
#ifdef LARGE  // 1 stack_overflow: in kernel large, local arrays of thread 0 of block 0 exceed 256
              // KB
  large<<<1, 32>>>(p);
#endif
#ifdef RECURSES  // 1 stack_overflow: in kernel recurses
  recurses<<<1, 1>>>(p);
#endif
#ifdef ARRAY  // 1 writes 4 bytes at byte 16 of a local array of 16 bytes
  leaves_array<<<1, 1>>>(p, 100000);
#endif
#ifdef HOST_STACK  // 139 the host code accessed memory that does not exist
  return host_recursion(argc);
#endif
#ifdef BLOCKS  // 0 kernel fine has 2147483647 blocks; the emulator runs up to 134217728
  fine<<<2147483647, 1>>>(p);
  return cudaGetLastError() != cudaErrorInvalidConfiguration;
#endif
#ifdef MEMORY  // 0 the program's exit status is 0
  char* more;
  return cudaMalloc(&more, size_t{81} << 30) != cudaErrorMemoryAllocation;
#endif
#ifdef UNWRITTEN  // 1 thread 0 of block 0 reads q[1], which no copy, memset or kernel has written
  int* q;
  cudaMalloc(&q, 128);
  adds<<<1, 1>>>(q);
#endif
#ifdef OWN  // 7 the program's exit status is 7
  fine<<<1, 32>>>(p);
  return 7;
#endif
  return cudaDeviceSynchronize() != cudaSuccess;
}
