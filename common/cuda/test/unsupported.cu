// A message names each thing that is not supported, and its line.
__global__ void reads_parameter(unsigned* out) {
  unsigned value;
  asm volatile("frobnicate.b32 %0, 7;" : "=r"(value));  // unsupported frobnicate.b32
  *out = value;
}

__global__ void incomplete() {
  asm volatile("mbarrier;");                     // unsupported mbarrier
  asm volatile("createpolicy.fractional.b64;");  // unsupported createpolicy
  asm volatile("selp..;");                       // unsupported selp
  asm volatile("" ::: "memory");
}
__device__ int elsewhere(int);
__global__ void calls_elsewhere(int* out) {
  *out = elsewhere(1);  // unsupported elsewhere(int),
}

int main() { return 0; }
