#!/bin/sh
# Registers of each chapter's intact kernel, as ptxas reports them. From the repository root:
#   docs/measurements/registers/measure.sh > docs/measurements/registers/cuda13.0.txt
set -e
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
echo "# $(nvcc --version | grep release); attention<HEAD_DIM, [STAGES,] BLOCK_Q, BLOCK_KV, NUM_WARPS, NoBreaks>"
for sm in 80 86 90; do
  for chapter in 03_basic_kernel 04_swizzling 05_pipelining 06_ldmatrix_x4 07_better_pipelining; do
    cat > "$folder/kernel.cu" <<END
#include "chapters/$chapter/attention.hpp"
namespace gpu::ch${chapter%%_*} {
void forward(const fa::ForwardArgs& args) {
  launch_attention<64>(args, NoBreaks{});
  launch_attention<128>(args, NoBreaks{});
}
}
END
    nvcc -std=c++20 -O3 -I. -arch=sm_$sm -Xptxas -v -cubin -o /dev/null "$folder/kernel.cu" \
      2> "$folder/report"
    python3 common/gpu/ptxas_report.py check "$folder/report"
  done
done
