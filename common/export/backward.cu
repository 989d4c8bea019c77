int main(int argc, char** argv) {
  const auto [batch, heads, len_q, len_kv, dim, folder] = arguments_of(argc, argv);
  std::mt19937 random(1);
  const HostTensor Q = random_tensor({batch, heads, len_q, dim}, random);
  const HostTensor K = random_tensor({batch, heads, len_kv, dim}, random);
  const HostTensor V = random_tensor({batch, heads, len_kv, dim}, random);
  const HostTensor dO = random_tensor({batch, heads, len_q, dim}, random);
  HostTensor O = poisoned_tensor(Q.shape), dQ = poisoned_tensor(Q.shape);
  HostTensor dK = poisoned_tensor(K.shape), dV = poisoned_tensor(V.shape);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));

  // The forward pass, and the gradients of plain attention: dV = P^T dO, dP = dO V^T,
  // dS = P (dP - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
  std::vector<double> expected_dQ(Q.size()), expected_dK(K.size()), expected_dV(V.size());
  std::vector<bf16> O_rounded(O.size());
  std::vector<float> LSE(batch * heads * len_q);
  const auto at = [&](const HostTensor& tensor, int64_t row) { return &tensor.values[row * dim]; };
  for (int64_t row = 0; row < batch * heads * len_q; ++row) {
    const int64_t head = row / len_q, first_key = head * len_kv;
    double lse = 0, D = 0;
    const auto P = softmax_row(Q, K, head, row % len_q, scale, &lse);
    LSE[row] = static_cast<float>(lse);
    std::vector<double> dP(len_kv), O_row(dim);
    for (int64_t key = 0; key < len_kv; ++key)
      for (int64_t d = 0; d < dim; ++d) {
        dP[key] += double{at(dO, row)[d]} * at(V, first_key + key)[d];
        O_row[d] += P[key] * at(V, first_key + key)[d];
      }
    for (int64_t key = 0; key < len_kv; ++key) D += P[key] * dP[key];
    for (int64_t d = 0; d < dim; ++d)
      O_rounded[row * dim + d] = to_bf16(static_cast<float>(O_row[d]));
    for (int64_t key = 0; key < len_kv; ++key) {
      const double dS = P[key] * (dP[key] - D) * scale;
      for (int64_t d = 0; d < dim; ++d) {
        expected_dV[(first_key + key) * dim + d] += P[key] * at(dO, row)[d];
        expected_dK[(first_key + key) * dim + d] += dS * at(Q, row)[d];
        expected_dQ[row * dim + d] += dS * at(K, first_key + key)[d];
      }
    }
  }
  check(cudaMemcpy(O.device, O_rounded.data(), O_rounded.size() * sizeof(bf16),
                   cudaMemcpyHostToDevice));

  BackwardArgs args;
  args.q = Q.ref(), args.k = K.ref(), args.v = V.ref(), args.o = O.ref(), args.d_o = dO.ref();
  args.dq = dQ.ref(), args.dk = dK.ref(), args.dv = dV.ref();
  args.lse = {nullptr, Dtype::f32, {batch, heads, len_q, 1}, {heads * len_q, len_q, 1, 1}};
  args.scale = scale;
  args.causal = CAUSAL;
  check(cudaMalloc(&args.lse.data, LSE.size() * sizeof(float)));
  check(cudaMemcpy(args.lse.data, LSE.data(), LSE.size() * sizeof(float), cudaMemcpyHostToDevice));
  const Shape shape{batch, heads, len_q, len_kv, dim};
  check(cudaMalloc(&args.workspace, backward_workspace(shape) * sizeof(float)));
  try {
    backward(args);
  } catch (const InputError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
  check(cudaDeviceSynchronize());
  download(dQ), download(dK), download(dV);
  if (!folder.empty()) {
    write_npy(folder + "/q.npy", Q), write_npy(folder + "/k.npy", K);
    write_npy(folder + "/v.npy", V), write_npy(folder + "/do.npy", dO);
    write_npy(folder + "/dq.npy", dQ), write_npy(folder + "/dk.npy", dK);
    write_npy(folder + "/dv.npy", dV);
  }
  const bool dQ_right = agrees("dQ", dQ, expected_dQ), dK_right = agrees("dK", dK, expected_dK);
  return agrees("dV", dV, expected_dV) && dQ_right && dK_right ? 0 : 1;
}
