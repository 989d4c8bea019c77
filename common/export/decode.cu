// Calls the kernel's launcher.
void run_kernel(const HostTensor& Q, const HostTensor& K, const HostTensor& V, const HostTensor& O,
                float scale) {
  DecodeArgs args;
  args.q = Q.ref(), args.k = K.ref(), args.v = V.ref(), args.o = O.ref();
  args.scale = scale;
  args.causal = CAUSAL;
  args.splits = {2, 0};  // two blocks share the keys; combine() merges their results
  check(
      cudaMalloc(&args.workspace,
                 decode_workspace(O.size() / O.shape[3], O.shape[3], args.splits) * sizeof(float)));
  decode(args);
}
