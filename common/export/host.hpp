// ---- The frame: calls that are checked, launches, tensors of random numbers, .npy files

void check(cudaError_t code, int line = __builtin_LINE()) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "error: line %d: %s\n", line, cudaGetErrorString(code));
  std::exit(2);
}

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Dim3 {
  int x = 1, y = 1, z = 1;
  __host__ __device__ constexpr Dim3(int x_ = 1, int y_ = 1, int z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct LaunchConfig {
  Dim3 grid, block;
  size_t smem_bytes = 0;
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), LaunchConfig config, Arguments... arguments) {
  const dim3 grid(config.grid.x, config.grid.y, config.grid.z);
  const dim3 block(config.block.x, config.block.y, config.block.z);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(config.smem_bytes)));
  kernel<<<grid, block, config.smem_bytes>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError());
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, int block, size_t smem_bytes,
            Arguments... arguments) {
  launch(kernel, LaunchConfig{grid, block, smem_bytes}, arguments...);
}

// Calls run(head_dim) with the head size as a compile-time constant.
template <class Args, class Run>
void dispatch(const Args& args, Run run) {
  if (args.q.shape[3] == 64) return run(std::integral_constant<int, 64>{});
  if (args.q.shape[3] == 128) return run(std::integral_constant<int, 128>{});
  throw InputError("head sizes are 64 and 128");
}

int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

std::string shown(float value) { return std::to_string(value); }

// [kernel]

// ---- Random inputs, one call, and plain attention in float64 to compare with

// A tensor [batch, heads, len, dim] in GPU memory and on the host, where its values are those of
// the 16-bit type.
struct HostTensor {
  std::array<int64_t, 4> shape;
  std::vector<float> values;
  bf16* device = nullptr;

  int64_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  TensorRef ref() const { return {device, Dtype::bf16, shape, contiguous_strides(shape)}; }
};

HostTensor random_tensor(std::array<int64_t, 4> shape, std::mt19937& random) {
  HostTensor tensor{shape};
  std::normal_distribution<float> normal(0.5f, 1.0f);
  std::vector<bf16> rounded(tensor.size());
  for (bf16& value : rounded) {
    value = to_bf16(normal(random));
    tensor.values.push_back(to_float(value));
  }
  check(cudaMalloc(&tensor.device, rounded.size() * sizeof(bf16)));
  check(cudaMemcpy(tensor.device, rounded.data(), rounded.size() * sizeof(bf16),
                   cudaMemcpyHostToDevice));
  return tensor;
}

// All bits set, which is NaN, so that an element that the kernel does not write shows.
HostTensor poisoned_tensor(std::array<int64_t, 4> shape) {
  HostTensor tensor{shape};
  check(cudaMalloc(&tensor.device, tensor.size() * sizeof(bf16)));
  check(cudaMemset(tensor.device, 0xff, tensor.size() * sizeof(bf16)));
  return tensor;
}

void download(HostTensor& tensor) {
  std::vector<bf16> rounded(tensor.size());
  check(cudaMemcpy(rounded.data(), tensor.device, rounded.size() * sizeof(bf16),
                   cudaMemcpyDeviceToHost));
  tensor.values.clear();
  for (const bf16 value : rounded) tensor.values.push_back(to_float(value));
}

// Writes a float32 .npy file of version 1.0.
void write_npy(const std::string& path, const HostTensor& tensor) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const int64_t size : tensor.shape) header += std::to_string(size) + ", ";
  header += "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
  if (!file) {
    std::fprintf(stderr, "error: cannot write %s\n", path.c_str());
    std::exit(2);
  }
}

// Weights of one query, in float64; keys that it does not see have weight 0.
std::vector<double> softmax_row(const HostTensor& Q, const HostTensor& K, int64_t head,
                                int64_t query, double scale, double* lse = nullptr) {
  const int64_t len_q = Q.shape[2], len_kv = K.shape[2], dim = Q.shape[3];
  const int64_t visible =
      CAUSAL ? std::clamp<int64_t>(query + len_kv - len_q + 1, 0, len_kv) : len_kv;
  std::vector<double> weights(len_kv);
  double largest = -INFINITY, sum = 0;
  for (int64_t key = 0; key < visible; ++key) {
    for (int64_t d = 0; d < dim; ++d) {
      weights[key] += double{Q.values[(head * len_q + query) * dim + d]} *
                      K.values[(head * len_kv + key) * dim + d];
    }
    weights[key] *= scale;
    largest = std::max(largest, weights[key]);
  }
  for (int64_t key = 0; key < visible; ++key)
    sum += weights[key] = std::exp(weights[key] - largest);
  for (int64_t key = 0; key < visible; ++key) weights[key] /= sum;
  if (lse) *lse = visible > 0 ? largest + std::log(sum) : -INFINITY;
  return weights;
}

// True if all values are within 1/128 of the largest expected one. NaN is not.
bool agrees(const char* name, const HostTensor& got, const std::vector<double>& expected) {
  double error = 0, largest = 0;
  bool finite = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    finite &= std::isfinite(got.values[i]);
    const double difference = std::abs(got.values[i] - expected[i]);
    if (std::isnan(difference) || difference > error) error = difference;
    largest = std::max(largest, std::abs(expected[i]));
  }
  const bool passed = finite && error <= largest / 128;
  std::printf("%s: largest error %.2g of %.2g%s: %s\n", name, error, largest,
              finite ? "" : ", some values are not finite", passed ? "right" : "WRONG");
  return passed;
}

struct Arguments {
  int64_t batch = 1, heads = 2, len_q = 200, len_kv = 300, dim = 128;
  std::string folder;
};

// attention [B,H,Lq,Lkv,D [FOLDER]]
Arguments arguments_of(int argc, char** argv) {
  Arguments a;
  if (argc > 1 && std::sscanf(argv[1], "%ld,%ld,%ld,%ld,%ld", &a.batch, &a.heads, &a.len_q,
                              &a.len_kv, &a.dim) != 5) {
    std::fprintf(stderr, "error: %s: expected five numbers B,H,Lq,Lkv,D\n", argv[1]);
    std::exit(2);
  }
  if (argc > 2) a.folder = argv[2];
  return a;
}
