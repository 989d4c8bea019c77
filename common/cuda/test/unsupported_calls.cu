// A message names each function and type of CUDA that no header of emucuda declares, and its line.
int main() {
  float *a = nullptr, *b = nullptr;
  cudaMalloc(&a, 4);
  cudaMemcpyPeer(b, 1, a, 0, 4);             // unsupported cudaMemcpyPeer
  cudaTextureObject_t texture;               // unsupported cudaTextureObject_t
  cuMemAlloc(&a, 4);                         // unsupported cuMemAlloc
  return cudaStreamBeginCapture(0, 0) != 0;  // unsupported cudaStreamBeginCapture
}
