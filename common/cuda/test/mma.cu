// options: --arch sm_90
// mma with tf32 and with 8-bit floats. The numbers are small, so that all sums are exact.
#include <cuda_fp8.h>

#include <cstdint>
#include <cstdio>

// d [16, 8] = a [16, k] b [8, k] transposed. A row of 8 words holds 8 numbers of 32 bits or 32
// of 8.
enum Kind { tf32, tf32_k4, e4m3, e5m2 };

#define MMA(name)                                                                 \
  asm volatile("mma.sync.aligned." name                                           \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <Kind kind>
__global__ void product(const uint32_t* A, const uint32_t* B, float* out) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const uint32_t a[4] = {A[g * 8 + t], A[(g + 8) * 8 + t], A[g * 8 + t + 4],
                         A[(g + 8) * 8 + t + 4]};
  const uint32_t b[2] = {B[g * 8 + t], B[g * 8 + t + 4]};
  float d[4] = {1, 1, 1, 1};
  if (kind == tf32) MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  if (kind == e4m3) MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32");
  if (kind == e5m2) MMA("m16n8k32.row.col.f32.e5m2.e5m2.f32");
  if (kind == tf32_k4)
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, "
        "{%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  for (int i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

static float value(const uint32_t* words, int row, int k, Kind kind) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(words + row * 8);
  if (kind == tf32 || kind == tf32_k4) {
    float number;
    const uint32_t bits = words[row * 8 + k] & 0xffffe000;  // a tf32 number's bits
    memcpy(&number, &bits, sizeof number);
    return number;
  }
  __nv_fp8_e4m3 four;
  __nv_fp8_e5m2 five;
  four.__x = five.__x = bytes[k];
  return kind == e4m3 ? float(four) : float(five);
}

template <Kind kind>
static int check(const char* name) {
  uint32_t *A, *B;
  float* out;
  cudaMallocManaged(&A, 16 * 8 * 4);
  cudaMallocManaged(&B, 8 * 8 * 4);
  cudaMallocManaged(&out, 16 * 8 * 4);
  const int depth = kind == tf32 ? 8 : kind == tf32_k4 ? 4 : 32;
  const auto fill = [](uint32_t* words, int count, int step) {
    for (int i = 0; i < count * 4; ++i) {
      const float small = (i * step % 9 - 4) * 0.5f;
      if (kind == tf32 || kind == tf32_k4) {
        const float near = small * (1 + 0x1p-12f);  // the last bits do not count
        if (i < count) memcpy(words + i, &near, 4);
      } else {
        reinterpret_cast<unsigned char*>(words)[i] =
            kind == e4m3 ? __nv_fp8_e4m3(small).__x : __nv_fp8_e5m2(small).__x;
      }
    }
  };
  fill(A, 16 * 8, 5);
  fill(B, 8 * 8, 7);
  product<kind><<<1, 32>>>(A, B, out);
  int failures = 0;
  for (int i = 0; i < 16 * 8; ++i) {
    float sum = 1;
    for (int k = 0; k < depth; ++k) sum += value(A, i / 8, k, kind) * value(B, i % 8, k, kind);
    failures += !(out[i] == sum);
  }
  printf("%s: %d wrong\n", name, failures);
  return failures;
}

int main() {
  return check<tf32>("tf32") + check<tf32_k4>("tf32, k = 4") + check<e4m3>("e4m3") +
         check<e5m2>("e5m2");
}
