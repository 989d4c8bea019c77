#!/usr/bin/env bash
# Everything that chapters 03 to 08 claim about a GPU, measured there in one go (3 minutes on an H200).
#   docs/measurements/h200/measure.sh BUILD_DIRECTORY OUTPUT_DIRECTORY
# Needs Nsight Compute, compute-sanitizer and a python3 with PyTorch. Leaves the card's clocks alone.
set -u
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd) out=$2
mkdir -p "$out/raw"
programs=$(cd "$build/bin" && echo ch03_basic_* ch04_swizzling ch05_* ch06_* ch07_* ch08_fewer_*)
counter_shapes="1,1,128,512,128 1,2,257,513,128 2,2,200,300,64 1,1,64,64,64 2,3,65,127,64 1,4,512,1024,128"
profile_shape=1,8,4096,8192,128
correct_shapes="1,1,1,1,64 1,1,64,64,64 2,3,65,127,64 1,2,257,513,128 1,1,100,1,128 1,1,1,1000,128 1,8,1024,1024,128"
counters=$(cd "$here/.." && python3 -B -c "import tables; print(','.join(tables.COLUMNS['counters']))")
profile="--section SpeedOfLight --section WarpStateStats --section SchedulerStats --section Occupancy
  --section LaunchStats --metrics smsp__inst_executed.sum"
profile+=,sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active
profile+=,l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed
profile+=,sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active
profile+=,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
part() { echo "== $(date -u +%H:%M:%S) $*"; }

part machine
{
  echo "gpu: $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
  echo "driver: $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)"
  echo "clocks: $(nvidia-smi --query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.limit --format=csv,noheader | head -1)"
  echo "cuda: $(nvcc --version | sed -n 's/.*release.*V//p')"
  echo "ncu: $(ncu --version | sed -n 's/^Version \([0-9.]*\).*/\1/p')"
  echo "sanitizer: $(compute-sanitizer --version | sed -n 's/^Version //p')"
  echo "date: $(date -u +%F)"
  echo "commit: ${COMMIT:-$(git -C "$root" rev-parse --short HEAD)}"
} > "$out/machine.txt"

part speed  # first: the card is alone
timeout 150 python3 "$root/docs/measurements/bench_peers.py" --library "$build/lib/libflash_attention.so" \
  --json "$out/raw/peers.json" --markdown "$out/raw/peers.md"
"$here/../tables.py" trim peers "$out/raw/peers.json" > "$out/peers.csv"

part counters
for shape in $counter_shapes; do
  for program in $programs; do
    echo "== $program $shape"
    timeout 30 ncu --clock-control none -k regex:attention --launch-count 1 --csv --page raw \
      --print-metric-instances details --metrics "$counters" \
      "$build/bin/$program" --device gpu --shape $shape 2>&1
  done
done > "$out/raw/counters.txt"
"$here/../tables.py" trim counters "$out/raw/counters.txt" > "$out/counters.csv"

part profile
for program in $programs; do
  echo "== $program $profile_shape"
  timeout 60 ncu --clock-control none -k regex:attention --launch-count 1 --csv --page raw \
    $profile "$build/bin/$program" --device gpu --shape $profile_shape 2>&1
done > "$out/raw/profile.txt"
"$here/../tables.py" trim profile "$out/raw/profile.txt" > "$out/profile.csv"

# The rest is not timed: eight at once, each with its output in a file of its own.
at_once() {
  mkdir -p "$out/raw/$1"
  nl -ba -nrz -w3 | xargs -P 8 -L 1 sh -c '
    file=$0/$1; shift
    { echo "== $*"; "$@" 2>&1; echo "exit $?"; } > "$file"' "$out/raw/$1"
  cat "$out/raw/$1"/* | sed -e "s|$build/bin/||g" -e 's|^== timeout [0-9]* |== |' > "$out/raw/$1.txt"
  "$here/../tables.py" trim runs "$out/raw/$1.txt" > "$out/$1.csv"
}

part correctness
for program in $programs; do
  for shape in $correct_shapes; do
    for scale in 1 30 0.001; do
      echo "timeout 60 $build/bin/$program --device gpu --shape $shape --input-scale $scale"
    done
  done
done | at_once tests

part sanitizer
for program in $programs; do
  for tool in memcheck racecheck synccheck initcheck; do
    for shape in 1,2,70,150,64 1,1,130,200,128; do
      echo "timeout 90 compute-sanitizer --tool $tool --error-exitcode 9 $build/bin/$program --device gpu --shape $shape"
    done
  done
done | at_once sanitizer

part summary
cat "$out/machine.txt"
for file in tests sanitizer; do
  echo "$file: $(grep -c '^exit 0$' "$out/raw/$file.txt") of $(grep -c '^== ' "$out/raw/$file.txt") passed"
  grep -B8 '^exit [1-9]' "$out/raw/$file.txt" | head -20
done
wc -l "$out"/*.csv
