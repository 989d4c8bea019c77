// Flash attention, forward, in fp32: O = softmax(Q K.T / sqrt(DIM)) V without a matrix of scores in
// global memory. A warp has one row of Q, a block has ROWS of them, and K and V come in tiles of 32
// rows. Take out a barrier, or the factor `rescale`.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int DIM = 64;               // of a head
constexpr int ROWS = 8;               // of Q in a block, one per warp
constexpr int TILE = 32;              // rows of K and V, one per lane
constexpr int PER_LANE = DIM / TILE;  // elements of O that a lane has
constexpr unsigned ALL = 0xffffffff;

__device__ float maximum_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
  return x;
}

__device__ float sum_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(ALL, x, step);
  return x;
}

__global__ void attention(const float* Q, const float* K, const float* V, float* O, int length) {
  __shared__ float q[ROWS][DIM], k[TILE][DIM + 1],
      v[TILE][DIM];  // + 1: the lanes read different banks
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * TILE + lane;
  const int row = blockIdx.x * ROWS + warp;
  for (int d = lane; d < DIM; d += TILE) q[warp][d] = Q[row * DIM + d];

  float maximum = -INFINITY, sum = 0;  // of the row, so far
  float o[PER_LANE] = {};
  for (int begin = 0; begin < length; begin += TILE) {
    for (int i = thread; i < TILE * DIM; i += TILE * ROWS) {
      k[i / DIM][i % DIM] = K[begin * DIM + i];
      v[i / DIM][i % DIM] = V[begin * DIM + i];
    }
    __syncthreads();

    // The score of this lane's row of K.
    float score = 0;
    for (int d = 0; d < DIM; ++d) score += q[warp][d] * k[lane][d];
    score *= rsqrtf(DIM);

    // The online softmax: what is summed so far has the old maximum.
    const float new_maximum = fmaxf(maximum, maximum_of_warp(score));
    const float rescale = expf(maximum - new_maximum);
    const float weight = expf(score - new_maximum);
    sum = sum * rescale + sum_of_warp(weight);
    maximum = new_maximum;

    // O += weights V. The weight of row j is in lane j.
    for (int e = 0; e < PER_LANE; ++e) o[e] *= rescale;
    for (int j = 0; j < TILE; ++j) {
      const float w = __shfl_sync(ALL, weight, j);
      for (int e = 0; e < PER_LANE; ++e) o[e] += w * v[j][e * TILE + lane];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
  for (int e = 0; e < PER_LANE; ++e) O[row * DIM + e * TILE + lane] = o[e] / sum;
}

int main() {
  const int length = 128;
  const size_t bytes = length * DIM * sizeof(float);
  std::vector<float> q(length * DIM), k(q), v(q), o(q);
  for (int i = 0; i < length * DIM; ++i) {
    q[i] = std::sin(i * 0.7f);
    k[i] = std::sin(i * 1.3f + 1);
    v[i] = std::cos(i * 0.9f);
  }
  float *Q, *K, *V, *O;
  cudaMalloc(&Q, bytes);
  cudaMalloc(&K, bytes);
  cudaMalloc(&V, bytes);
  cudaMalloc(&O, bytes);
  cudaMemcpy(Q, q.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(K, k.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(V, v.data(), bytes, cudaMemcpyHostToDevice);
  attention<<<length / ROWS, dim3(TILE, ROWS)>>>(Q, K, V, O, length);
  cudaMemcpy(o.data(), O, bytes, cudaMemcpyDeviceToHost);

  // The same in double precision, row by row.
  int wrong = 0;
  for (int i = 0; i < length; ++i) {
    std::vector<double> weights(length), out(DIM);
    double sum = 0;
    for (int j = 0; j < length; ++j) {
      double score = 0;
      for (int d = 0; d < DIM; ++d) score += double(q[i * DIM + d]) * k[j * DIM + d];
      sum += weights[j] = std::exp(score / std::sqrt(double(DIM)));
    }
    for (int j = 0; j < length; ++j) {
      for (int d = 0; d < DIM; ++d) out[d] += weights[j] / sum * v[j * DIM + d];
    }
    for (int d = 0; d < DIM; ++d) wrong += !(std::fabs(o[i * DIM + d] - out[d]) < 1e-5);
  }
  printf("%d of %d are wrong\n", wrong, length * DIM);
  return wrong != 0;
}
