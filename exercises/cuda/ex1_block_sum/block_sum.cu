// sums[b] = the sum of the numbers of block b, each of which has up to THREADS.
// TODO(C.1): this kernel has a race; find it and mend it

constexpr int THREADS = 256;

__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float partial[THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  partial[t] = i < n ? x[i] : 0;
  for (int half = THREADS / 2; half >= 32; half /= 2) {
    __syncthreads();
    if (t < half) partial[t] += partial[t + half];
  }
  if (t < 32) {  // one warp is left, and its lanes run together
    for (int half = 16; half > 0; half /= 2) {
      if (t < half) partial[t] += partial[t + half];
    }
    if (t == 0) sums[blockIdx.x] = partial[0];
  }
}
