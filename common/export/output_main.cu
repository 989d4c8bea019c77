int main(int argc, char** argv) {
  const auto [batch, heads, len_q, len_kv, dim, folder] = arguments_of(argc, argv);
  std::mt19937 random(1);
  const HostTensor Q = random_tensor({batch, heads, len_q, dim}, random);
  const HostTensor K = random_tensor({batch, heads, len_kv, dim}, random);
  const HostTensor V = random_tensor({batch, heads, len_kv, dim}, random);
  HostTensor O = poisoned_tensor({batch, heads, len_q, dim});
  const float scale = 1 / std::sqrt(static_cast<float>(dim));

  try {
    run_kernel(Q, K, V, O, scale);
  } catch (const InputError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
  check(cudaDeviceSynchronize());
  download(O);

  std::vector<double> expected(O.size());
  for (int64_t row = 0; row < batch * heads * len_q; ++row) {
    const int64_t head = row / len_q;
    const auto P = softmax_row(Q, K, head, row % len_q, scale);
    for (int64_t key = 0; key < len_kv; ++key)
      for (int64_t d = 0; d < dim; ++d)
        expected[row * dim + d] += P[key] * V.values[(head * len_kv + key) * dim + d];
  }
  if (!folder.empty()) {
    write_npy(folder + "/q.npy", Q), write_npy(folder + "/k.npy", K);
    write_npy(folder + "/v.npy", V), write_npy(folder + "/o.npy", O);
  }
  return agrees("O", O, expected) ? 0 : 1;
}
