// Copies and memsets of rectangles and boxes, and the asynchronous forms. Prints what is wrong.
#include <cstdio>
#include <vector>

__device__ int variable[4];

static int failures = 0;
static void check(bool good, const char* what) {
  if (!good) {
    std::printf("wrong: %s\n", what);
    ++failures;
  }
}
static void call(cudaError_t error, const char* what) { check(error == cudaSuccess, what); }

int main() {
  cudaStream_t stream;
  call(cudaStreamCreate(&stream), "cudaStreamCreate");

  // A rectangle of 3 rows of 4 bytes, in rows of a pitch.
  const std::vector<char> in = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<char> out(12);
  char* rows = nullptr;
  size_t pitch = 0;
  call(cudaMallocPitch(&rows, &pitch, 4, 3), "cudaMallocPitch");
  call(cudaMemcpy2DAsync(rows, pitch, in.data(), 4, 4, 3, cudaMemcpyHostToDevice, stream),
       "cudaMemcpy2DAsync to the device");
  call(cudaMemset2DAsync(rows + 1, pitch, 20, 2, 2, stream), "cudaMemset2DAsync");
  call(cudaMemset2D(rows + 2 * pitch, pitch, 30, 1, 1), "cudaMemset2D");
  call(cudaMemcpy2DAsync(out.data(), 4, rows, pitch, 4, 3, cudaMemcpyDeviceToHost, stream),
       "cudaMemcpy2DAsync to the host");
  check(out == std::vector<char>{1, 20, 20, 4, 5, 20, 20, 8, 30, 10, 11, 12}, "a rectangle");
  check(cudaMemset2D(rows, pitch, 0, 4, 4) == cudaErrorInvalidValue, "a row after the last");
  check(cudaGetLastError() == cudaErrorInvalidValue, "the error of cudaMemset2D");

  // A box of 2 x 2 x 2 bytes from the middle of 3 x 3 x 3 bytes.
  std::vector<char> box(27), inner(8);
  for (int i = 0; i < 27; ++i) box[i] = i;
  const cudaExtent all = make_cudaExtent(3, 3, 3), some = make_cudaExtent(2, 2, 2);
  cudaPitchedPtr device;
  call(cudaMalloc3D(&device, all), "cudaMalloc3D");
  cudaMemcpy3DParms to = {};
  to.srcPtr = make_cudaPitchedPtr(box.data(), 3, 3, 3);
  to.dstPtr = device;
  to.extent = all;
  to.kind = cudaMemcpyHostToDevice;
  call(cudaMemcpy3DAsync(&to, stream), "cudaMemcpy3DAsync");
  cudaMemcpy3DParms from = {};
  from.srcPtr = device;
  from.srcPos = make_cudaPos(1, 1, 1);
  from.dstPtr = make_cudaPitchedPtr(inner.data(), 2, 2, 2);
  from.extent = some;
  from.kind = cudaMemcpyDeviceToHost;
  call(cudaMemcpy3D(&from), "cudaMemcpy3D");
  check(inner == std::vector<char>{13, 14, 16, 17, 22, 23, 25, 26}, "a box");
  call(cudaMemset3D(device, 7, all), "cudaMemset3D");
  call(cudaMemset3DAsync(device, 8, some, stream), "cudaMemset3DAsync");
  call(cudaMemcpy3D(&from), "cudaMemcpy3D after cudaMemset3D");
  check(inner == std::vector<char>{8, 7, 7, 7, 7, 7, 7, 7}, "a box that is set");

  const int four[] = {1, 2, 3, 4};
  int back[4] = {};
  call(cudaMemcpyToSymbolAsync(variable, four, sizeof four, 0, cudaMemcpyHostToDevice, stream),
       "cudaMemcpyToSymbolAsync");
  call(cudaMemcpyFromSymbolAsync(back, variable, 8, 8, cudaMemcpyDeviceToHost, stream),
       "cudaMemcpyFromSymbolAsync");
  check(back[0] == 3 && back[1] == 4, "a variable");

  int *pool = nullptr, *pinned = nullptr, *mapped = nullptr;
  cudaEvent_t event;
  call(cudaMallocAsync(&pool, 64, stream), "cudaMallocAsync");
  call(cudaEventCreate(&event), "cudaEventCreate");
  call(cudaEventRecord(event, stream), "cudaEventRecord");
  call(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  call(cudaEventQuery(event), "cudaEventQuery");
  call(cudaStreamQuery(stream), "cudaStreamQuery");
  call(cudaFreeAsync(pool, stream), "cudaFreeAsync");
  call(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped), "cudaHostAlloc");
  call(cudaHostGetDevicePointer(&mapped, pinned, 0), "cudaHostGetDevicePointer");
  check(mapped == pinned, "a pointer to memory of the host");
  return failures;
}
