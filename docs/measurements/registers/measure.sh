#!/bin/sh
# Registers of each chapter's intact kernel, as ptxas reports them, for both machine codes that can be built
# from the same PTX. From the repository root:
#   docs/measurements/registers/measure.sh > docs/measurements/registers/cuda13.0.txt
#   docs/measurements/registers/measure.sh bounds > docs/measurements/registers/bounds_cuda13.0.txt
set -e
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# bounds LABEL CHAPTER BOUNDS: the same kernel at D = 128 on sm_90, under other launch bounds or none.
bounds() {
  mkdir -p "$folder/chapters/$2"
  sed "s/FA_LAUNCH_BOUNDS(32 \* NUM_WARPS, .*)/$3/" "chapters/$2/attention.hpp" \
    > "$folder/chapters/$2/attention.hpp"
  cat > "$folder/bounds.cu" <<END
#include "chapters/$2/attention.hpp"
namespace gpu::ch${2%%_*} {
void forward(const fa::ForwardArgs& args) { launch_attention<128>(args, NoBreaks{}); }
}
END
  nvcc -std=c++20 -O3 -I"$folder" -I. -gencode arch=compute_80,code=sm_90 -Xptxas -v -cubin \
    -o "$folder/bounds.cubin" "$folder/bounds.cu" 2> "$folder/bounds.ptxas"
  echo "$1: $(python3 common/gpu/ptxas_report.py check sm_90 "$folder/bounds")"
}
if [ "$1" = bounds ]; then
  echo "# $(nvcc --version | grep release); launch bounds that the chapters do not ask for"
  bounds "none" 03_basic_kernel ""
  bounds "none" 04_swizzling ""
  bounds "(128, 1)" 05_pipelining "FA_LAUNCH_BOUNDS(32 * NUM_WARPS, 1)"
  exit
fi
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
