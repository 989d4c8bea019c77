#!/usr/bin/env bash
# Everything that chapters 03 on claim about a GPU, measured there in one go (about 90 s on an H200).
#   docs/measurements/h200/measure.sh BUILD_DIRECTORY OUTPUT_DIRECTORY
set -u
build=$1 out=$2
mkdir -p "$out"
programs=$(cd "$build/bin" && ls -d ch0[3-9]_* 2> /dev/null)
metrics=smsp__sass_inst_executed_op_ldsm.sum
metrics+=,smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum
metrics+=,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
metrics+=,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
metrics+=,smsp__inst_executed_pipe_tensor_op_hmma.sum
metrics+=,smsp__sass_inst_executed_op_ldgsts.sum
metrics+=,smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum
metrics+=,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
metrics+=,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
metrics+=,sass__inst_executed_per_opcode  # SHFL and BAR

{ nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  ncu --version; compute-sanitizer --version; nvcc --version; date -u; } > "$out/machine.txt" 2>&1

for program in $programs; do  # speed first: the card is alone
  for shape in 1,8,4096,8192,128 2,16,8192,8192,128 2,32,8192,8192,64; do
    echo "== $program --device gpu --shape $shape --bench"
    "$build/bin/$program" --device gpu --shape $shape --bench
  done
done 2>&1 | tee "$out/bench.txt"

for program in $programs; do
  test="test_${program%%_*}_attention"
  echo "== $test"
  "$build/tests/$test" --no-version -tc="agrees*,returns*,three*" 2>&1
  echo "exit $?"
done > "$out/tests.txt"

for program in $programs; do
  for tool in memcheck racecheck synccheck initcheck; do
    for shape in 1,2,65,127,64 1,1,100,150,128; do
      echo "== compute-sanitizer --tool $tool $program --device gpu --shape $shape"
      compute-sanitizer --tool $tool --error-exitcode 9 \
        "$build/bin/$program" --device gpu --shape $shape 2>&1
      echo "exit $?"
    done
  done
done > "$out/sanitizer.txt"

for shape in 1,1,128,512,128 1,2,257,513,128 2,2,200,300,64; do
  for program in $programs; do
    echo "== ncu $program --device gpu --shape $shape"
    ncu --clock-control none -k regex:attention --launch-count 1 --csv --page raw \
      --print-metric-instances details --metrics $metrics \
      "$build/bin/$program" --device gpu --shape $shape 2>&1
  done
done > "$out/ncu.csv"
