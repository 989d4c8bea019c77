#!/bin/sh
# Registers of each chapter's intact kernel, as ptxas reports them, for every architecture that is built
# by default and from the same PTX. From the repository root:
#   docs/measurements/registers/measure.sh > docs/measurements/registers/cuda13.0.txt
set -e
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
echo "# $(nvcc --version | grep release); attention<HEAD_DIM, [STAGES,] BLOCK_Q, BLOCK_KV, NUM_WARPS, NoBreaks>"
for sm in 80 86 89 90 120; do
  for chapter in 03_basic_kernel 04_swizzling 05_pipelining 06_ldmatrix_x4 07_better_pipelining \
      08_fewer_instructions; do
    cat > "$folder/kernel.cu" <<END
#include "chapters/$chapter/attention.hpp"
namespace gpu::ch${chapter%%_*} {
void forward(const fa::ForwardArgs& args) {
  launch_attention<64>(args, NoBreaks{});
  launch_attention<128>(args, NoBreaks{});
}
}
END
    nvcc -std=c++20 -O3 -I. -gencode arch=compute_80,code=sm_$sm -Xptxas -v -cubin \
      -o "$folder/kernel.cubin" "$folder/kernel.cu" 2> "$folder/report.ptxas"
    python3 common/gpu/ptxas_report.py check sm_$sm "$folder/report"
  done
done
