// Sorts arrays of 1024 pairs in shared memory by a bitonic network. With the argument 178, the
// comparisons alone are 10 million accesses to shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr unsigned length = 1024;

__device__ void order(unsigned& key, unsigned& value, unsigned& other_key, unsigned& other_value,
                      bool ascending) {
  if ((key > other_key) != ascending) return;
  unsigned kept = key;
  key = other_key;
  other_key = kept;
  kept = value;
  value = other_value;
  other_value = kept;
}

__global__ void sort(unsigned* all_keys, unsigned* all_values) {
  __shared__ unsigned keys[length], values[length];
  const unsigned i = threadIdx.x, half = length / 2, first = blockIdx.x * length;
  for (unsigned at = i; at < length; at += half) {
    keys[at] = all_keys[first + at];
    values[at] = all_values[first + at];
  }
  for (unsigned size = 2; size <= length; size *= 2) {
    const bool ascending = (i & (size / 2)) == 0;
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const unsigned at = 2 * i - (i & (stride - 1));
      order(keys[at], values[at], keys[at + stride], values[at + stride], ascending);
    }
  }
  __syncthreads();
  for (unsigned at = i; at < length; at += half) {
    all_keys[first + at] = keys[at];
    all_values[first + at] = values[at];
  }
}

int main(int argc, char** argv) {
  const unsigned arrays = argc > 1 ? atoi(argv[1]) : 2;
  unsigned *keys, *values;
  cudaMallocManaged(&keys, arrays * length * sizeof(unsigned));
  cudaMallocManaged(&values, arrays * length * sizeof(unsigned));
  std::vector<unsigned> before(arrays * length);
  for (unsigned i = 0; i < arrays * length; ++i) {
    keys[i] = before[i] = i * 7919 % 65521;
    values[i] = i;
  }
  sort<<<arrays, length / 2>>>(keys, values);
  int wrong = cudaDeviceSynchronize() != cudaSuccess;
  for (unsigned i = 0; i < arrays * length; ++i) {
    wrong += keys[i] != before[values[i]] || (i % length != 0 && keys[i - 1] > keys[i]);
  }
  printf("%d wrong\n", wrong);
  return wrong;
}
