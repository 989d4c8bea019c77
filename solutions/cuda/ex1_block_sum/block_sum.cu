// sums[b] = the sum of the numbers of block b, each of which has up to THREADS.
// The last steps use shuffles. Lanes of a warp may run one after the other, so another lane could
// read a lane's sum in shared memory only with two __syncwarp per step. A shuffle waits for the
// lanes of its mask and needs no memory. Three barriers are enough, because only warp 0 reads the
// last 32 sums of other warps, and the third barrier comes before that read.

constexpr int THREADS = 256;

__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float partial[THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  partial[t] = i < n ? x[i] : 0;
  for (int half = THREADS / 2; half >= 32; half /= 2) {
    __syncthreads();
    if (t < half) partial[t] += partial[t + half];
  }
  if (t < 32) {
    float sum = partial[t];
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (t == 0) sums[blockIdx.x] = sum;
  }
}
