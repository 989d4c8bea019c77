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
__global__ void not_yet(float* d, const unsigned* a, unsigned at) {
  asm volatile(  // unsupported s32_s4_s4
      "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));
  asm volatile(  // unsupported cp.reduce.async.bulk.shared::cluster.shared::cta
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], "
      "[%0], 16, [%0];"
      :
      : "r"(at)
      : "memory");
}
__device__ int elsewhere(int);
__global__ void calls_elsewhere(int* out) {
  *out = elsewhere(1);  // unsupported elsewhere(int),
}

int main() { return 0; }
