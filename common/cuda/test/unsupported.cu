// What is not supported is named with its line.
__global__ void reads_parameter(unsigned* out) {
  unsigned value;
  asm volatile("frobnicate.b32 %0, 7;" : "=r"(value));  // unsupported frobnicate.b32
  *out = value;
}

int main() { return 0; }
