// options: --once
// A main that measures: it repeats its launches, of which only the first one with the same
// arguments runs, until the host copies or sets a buffer that the launch gets.
#include <cstdio>

__global__ void fill(int* data, int* runs, int value) {
  data[threadIdx.x] = value;
  if (threadIdx.x == 0) ++*runs;
}

// A static variable of one byte does not move what follows it off its alignment.
__global__ void sum(const int* data, int* out, int value) {
  extern __shared__ int words[];
  __shared__ bool odd;
  const int i = threadIdx.x;
  words[i] = data[i];
  if (i == 0) odd = data[0] % 2 != 0;
  __syncthreads();
  if (i == 0) *out = words[31] * 100 + value * 10 + odd;
}

// Two kernels change `data` in turn, as a pipeline does that the main repeats.
__global__ void twice(int* data) { data[threadIdx.x] *= 2; }

int main() {
  int *data, *runs, *out, *device, failures = 0;
  cudaMallocManaged(&data, 32 * sizeof(int));
  cudaMallocManaged(&runs, sizeof(int));
  cudaMallocManaged(&out, sizeof(int));
  *runs = 0;
  for (int value = 1; value <= 2; ++value) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      fill<<<1, 32>>>(data, runs, value);
      sum<<<1, 32, 32 * sizeof(int)>>>(data, out, value);
    }
    cudaDeviceSynchronize();
    failures += *out != value * 110 + value % 2 || *runs != value;
  }
  int sums[32] = {}, first = 0;
  cudaMemset(runs, 0, sizeof(int));
  for (int pass = 1; pass <= 3; ++pass) {  // each pass starts from zero, and reads its result
    cudaMemset(data, 0, 32 * sizeof(int));
    for (int repeat = 0; repeat < 4; ++repeat) {
      fill<<<1, 32>>>(data, runs, 7);
      twice<<<1, 32>>>(data);
      cudaMemset(out, repeat, sizeof(int));  // not a buffer of these launches
    }
    cudaMemcpy(sums, data, sizeof sums, cudaMemcpyDeviceToHost);
    cudaMemcpy(&first, runs, sizeof first, cudaMemcpyDeviceToHost);
    failures += sums[5] != 14 || first != pass;
  }
  // A launcher that clears its buffer before each launch, and a copy of that buffer at the end.
  cudaMalloc(&device, 32 * sizeof(int));
  for (int pass = 1; pass <= 2; ++pass) {
    cudaMemset(runs, 0, sizeof(int));
    for (int repeat = 0; repeat < 4; ++repeat) {
      cudaMemset(device, 0, 32 * sizeof(int));
      fill<<<1, 32>>>(device, runs, 9);
      twice<<<1, 32>>>(device);
    }
    failures += *runs != 1;
    cudaMemcpy(sums, device, sizeof sums, cudaMemcpyDeviceToHost);
    failures += sums[31] != 18;
    cudaMemset(device, 0, 32 * sizeof(int));
    cudaMemcpy(sums, device, sizeof sums, cudaMemcpyDeviceToHost);
    failures += sums[31] != 0;
  }
  // A launcher that also allocates its buffer.
  cudaMemset(runs, 0, sizeof(int));
  for (int repeat = 0; repeat < 4; ++repeat) {
    int* own;
    cudaMalloc(&own, 64 * sizeof(int));
    cudaMemset(own, 0, 64 * sizeof(int));
    fill<<<1, 32>>>(own, runs, 3);
    cudaMemcpy(own + 32, own, 32 * sizeof(int), cudaMemcpyDeviceToDevice);
    twice<<<1, 32>>>(own + 32);
    if (repeat == 3) cudaMemcpy(sums, own + 32, sizeof sums, cudaMemcpyDeviceToHost);
    cudaFree(own);
  }
  failures += *runs != 1 || sums[7] != 6;
  // Copies to memory of the host that the device can access, too.
  int* pinned;
  cudaMallocHost(&pinned, 32 * sizeof(int));
  fill<<<1, 32>>>(device, runs, 5);
  cudaMemcpy(pinned, device, 32 * sizeof(int), cudaMemcpyDeviceToHost);
  twice<<<1, 32>>>(device);
  cudaMemcpy(pinned, device, 32 * sizeof(int), cudaMemcpyDeviceToHost);
  failures += pinned[9] != 10;
  printf("%d wrong\n", failures);
  return failures;
}
