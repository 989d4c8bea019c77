// options: --arch sm_90
// mma with tf32 and with 8-bit floats, also of two types, and with 8-bit integers. The numbers are
// small, so that all sums are exact.
#include <cuda_fp8.h>

#include <cstdint>
#include <cstdio>

// d [16, 8] = a [16, k] b [8, k] transposed. A row of 8 words holds 8 numbers of 32 bits or 32
// of 8.
enum Kind { tf32, tf32_k4, e4m3, e5m2, e4m3_e5m2, e5m2_e4m3 };

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
  if (kind == e4m3_e5m2) MMA("m16n8k32.row.col.f32.e4m3.e5m2.f32");
  if (kind == e5m2_e4m3) MMA("m16n8k32.row.col.f32.e5m2.e4m3.f32");
  if (kind == tf32_k4)
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, "
        "{%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  for (int i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

// The kinds of a mixed product's A and B.
constexpr Kind of_a(Kind kind) {
  return kind == e4m3_e5m2 ? e4m3 : kind == e5m2_e4m3 ? e5m2 : kind;
}
constexpr Kind of_b(Kind kind) {
  return kind == e4m3_e5m2 ? e5m2 : kind == e5m2_e4m3 ? e4m3 : kind;
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

static void fill(uint32_t* words, int count, int step, Kind kind, bool tiny) {
  for (int i = 0; i < count * 4; ++i) {
    float small = (i * step % 9 - 4) * 0.5f;
    if (kind == tf32 || kind == tf32_k4) {
      const float near = small * (1 + 0x1p-12f);  // the last bits do not count
      if (i < count) memcpy(words + i, &near, 4);
    } else {
      if (tiny && i % 16 == 3) small = 0x1p-7f;  // subnormal in e4m3, normal in e5m2
      reinterpret_cast<unsigned char*>(words)[i] =
          kind == e4m3 ? __nv_fp8_e4m3(small).__x : __nv_fp8_e5m2(small).__x;
    }
  }
}

template <Kind kind>
static int check(const char* name) {
  uint32_t *A, *B;
  float* out;
  cudaMallocManaged(&A, 16 * 8 * 4);
  cudaMallocManaged(&B, 8 * 8 * 4);
  cudaMallocManaged(&out, 16 * 8 * 4);
  const int depth = kind == tf32 ? 8 : kind == tf32_k4 ? 4 : 32;
  fill(A, 16 * 8, 5, of_a(kind), kind != e5m2_e4m3);
  fill(B, 8 * 8, 7, of_b(kind), kind == e5m2_e4m3);
  product<kind><<<1, 32>>>(A, B, out);
  int failures = cudaDeviceSynchronize() != cudaSuccess;
  for (int i = 0; i < 16 * 8; ++i) {
    float sum = 1;
    for (int k = 0; k < depth; ++k)
      sum += value(A, i / 8, k, of_a(kind)) * value(B, i % 8, k, of_b(kind));
    failures += !(out[i] == sum);
  }
  printf("%s: %d wrong\n", name, failures);
  return failures;
}

// The same with integers. `start` is the first value of every sum.
#define MMA_S32(name)                                                             \
  asm volatile("mma.sync.aligned." name                                           \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_S32_K16(name)                                                                      \
  asm volatile("mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]))

template <int kind>
__global__ void integers(const uint32_t* A, const uint32_t* B, int* out, int start) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const uint32_t a[4] = {A[g * 8 + t], A[(g + 8) * 8 + t], A[g * 8 + t + 4],
                         A[(g + 8) * 8 + t + 4]};
  const uint32_t b[2] = {B[g * 8 + t], B[g * 8 + t + 4]};
  int d[4] = {start, start, start, start};
  if (kind == 0) MMA_S32("m16n8k32.row.col.s32.s8.s8.s32");
  if (kind == 1) MMA_S32("m16n8k32.row.col.s32.s8.u8.s32");
  if (kind == 2) MMA_S32("m16n8k32.row.col.s32.u8.s8.s32");
  if (kind == 3) MMA_S32("m16n8k32.row.col.s32.u8.u8.s32");
  if (kind == 4) MMA_S32("m16n8k32.row.col.satfinite.s32.s8.s8.s32");
  if (kind == 5) MMA_S32_K16("m16n8k16.row.col.s32.s8.u8.s32");
  if (kind == 6) MMA_S32_K16("m16n8k16.row.col.satfinite.s32.u8.u8.s32");
  if (kind == 7)
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(b[0]));
  for (int i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

template <int kind>
static int check_integers(const char* name, int start, bool signed_a, bool signed_b, bool saturates,
                          int rows, int depth) {
  uint32_t *A, *B;
  int* out;
  cudaMallocManaged(&A, 16 * 8 * 4);
  cudaMallocManaged(&B, 8 * 8 * 4);
  cudaMallocManaged(&out, 16 * 8 * 4);
  for (int i = 0; i < 16 * 8; ++i) A[i] = i * 0x9e3779b1u;
  for (int i = 0; i < 8 * 8; ++i) B[i] = ~i * 0x85ebca6bu;
  integers<kind><<<1, 32>>>(A, B, out, start);
  int failures = cudaDeviceSynchronize() != cudaSuccess;
  const auto factor = [](const uint32_t* words, int row, int k, bool is_signed) {
    const uint32_t byte = words[row * 8 + k / 4] >> k % 4 * 8 & 0xff;
    return is_signed && byte >= 128 ? int(byte) - 256 : int(byte);
  };
  for (int i = 0; i < rows * 8; ++i) {
    long sum = start;
    for (int k = 0; k < depth; ++k)
      sum += factor(A, i / 8, k, signed_a) * factor(B, i % 8, k, signed_b);
    if (saturates) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    failures += out[i] != static_cast<int>(static_cast<uint32_t>(sum));
  }
  printf("%s: %d wrong\n", name, failures);
  return failures;
}

// 2 and -3.25 as a pair of e4m3, the second in the high byte, and back as a pair of halves.
__global__ void pairs(uint32_t* out) {
  asm("{ .reg .b16 pair; cvt.rn.satfinite.e4m3x2.f32 pair, %2, %3; mov.b32 %0, {pair, pair};\n"
      "  cvt.rn.f16x2.e4m3x2 %1, pair; }"
      : "=r"(out[0]), "=r"(out[1])
      : "f"(-3.25f), "f"(2.0f));
  asm("{ .reg .b16 pair; cvt.rn.satfinite.e4m3x2.f32 pair, %1, %2; mov.b32 %0, {pair, pair}; }"
      : "=r"(out[2])
      : "f"(1000.0f), "f"(-0x1p-9f));
}
static int check_pairs() {
  uint32_t* out;
  cudaMallocManaged(&out, 12);
  pairs<<<1, 1>>>(out);
  int failures = cudaDeviceSynchronize() != cudaSuccess;
  failures += out[0] != 0xc540c540 || out[1] != 0xc2804000 || out[2] != 0x7e817e81;
  printf("pairs of e4m3: %d wrong\n", failures);
  return failures;
}

int main() {
  const int most = INT32_MAX - 1000;  // so that some sums are too large
  return check<tf32>("tf32") + check<tf32_k4>("tf32, k = 4") + check<e4m3>("e4m3") +
         check<e5m2>("e5m2") + check<e4m3_e5m2>("e4m3, e5m2") + check<e5m2_e4m3>("e5m2, e4m3") +
         check_pairs() + check_integers<0>("s8, s8", most, true, true, false, 16, 32) +
         check_integers<1>("s8, u8", 7, true, false, false, 16, 32) +
         check_integers<2>("u8, s8", -7, false, true, false, 16, 32) +
         check_integers<3>("u8, u8", most, false, false, false, 16, 32) +
         check_integers<4>("s8, s8, satfinite", most, true, true, true, 16, 32) +
         check_integers<5>("s8, u8, k = 16", 7, true, false, false, 16, 16) +
         check_integers<6>("u8, u8, k = 16, satfinite", most, false, false, true, 16, 16) +
         check_integers<7>("u8, s8, m8n8k16", 7, false, true, false, 8, 16);
}
