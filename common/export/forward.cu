// Calls the kernel's launcher.
void run_kernel(const HostTensor& Q, const HostTensor& K, const HostTensor& V, const HostTensor& O,
                float scale) {
  ForwardArgs args;
  args.q = Q.ref(), args.k = K.ref(), args.v = V.ref(), args.o = O.ref();
  args.scale = scale;
  if (CAUSAL) args.window_right = 0;
  forward(args);
}
