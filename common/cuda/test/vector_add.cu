// c = a + b, one element per thread. Exits with 1 if an element is wrong.
#include <cstdio>
#include <cstdlib>

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef WRONG
  if (i <= n) c[i] = a[i] + b[i];  // expect out_of_bounds
#else
  if (i < n) c[i] = a[i] + b[i];
#endif
}

int main() {
  const int n = 1000;
  float *a, *b, *c;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  cudaMalloc(&c, n * sizeof(float));
  float host[n];
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemcpy(b, host, sizeof host, cudaMemcpyHostToDevice);
  vector_add<<<(n + 255) / 256, 256>>>(a, b, c, n);
  cudaMemcpy(host, c, sizeof host, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += host[i] != 2 * i;  // NaN differs, too
  printf("%d wrong\n", wrong);
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  return wrong != 0;
}
