#!/bin/sh
# Run by CTest, PATH set.
. ../../common/test/cli_test.sh
p=ch18_systolic_array json=$scratch/r.json

expect 0 'Every result and every count agrees with the lesson.' $p
expect 0 'drain-forgotten' $p --list-breaks
expect 0 'drain-forgotten' $p matmul --list-breaks
expect 0 'weight-stationary' $p --bench

expect 0 '5 cycles, counted' $p matmul --m 2 --k 3 --n 2 --rows 128 --cols 128 --dataflow weight --json "$json"
expect 0 '"cycles": 5' cat "$json"
expect 0 '"utilization": 0.000146484375' cat "$json"
expect 0 '"passed": true' cat "$json"
expect 0 '5 cycles, counted' $p matmul --m 2 --k 3 --n 2 --rows 128 --cols 128 --dataflow output --trace --json "$json"
expect 0 '"sum": "a10·b01 + a11·b11 + a12·b21"' cat "$json"
expect 0 '78 + a12·b20 = 96' $p matmul --trace
expect 0 '1 cycle, counted' $p matmul --m 1 --k 1 --n 1 --rows 1 --cols 1
expect 0 'equal to the plain product' $p matmul --m 5 --k 300 --n 200 --rows 7 --cols 64 --double-buffer
expect 0 'by M + K + N - 2, not ticked' $p matmul --m 1000000 --k 1000000 --n 1000000 --json "$json"
expect 0 '"check": null' cat "$json"
expect 0 '1,000,000,000,000 tiles' $p matmul --m 1000000 --k 1000000 --n 1000000 --rows 1 --cols 1
expect 1 'c00 is 9, expected 68' $p matmul --break no-stagger
expect 1 'the first: c11 never left the array, expected 58' $p matmul --break drain-forgotten --json "$json"
expect 0 '"max_abs_error": null' cat "$json"
expect 0 'equal to the plain product' $p matmul --break weights-swapped-early

flash='attention --algorithm flash --n 512 --dim 64 --causal'
expect 0 'utilization 8.4 %' $p $flash --block 64 --accounting seed --json "$json"
expect 0 '"total_cycles": 24556' cat "$json"
expect 0 '"mxu_cycles": 13680' cat "$json"
expect 0 '"vpu_cycles": 10876' cat "$json"
expect 0 'utilization 20.1 %' $p $flash --block 128 --accounting seed --json "$json"
expect 0 '"total_cycles": 16936' cat "$json"
expect 0 'utilization 94.3 %' $p attention --algorithm standard --n 512 --dim 64 --block 128 --causal --accounting seed --json "$json"
expect 0 '"total_cycles": 20604' cat "$json"
expect 0 'MXU 5,616' $p attention --algorithm standard --causal --accounting array
expect 0 'MXU 2,750' $p $flash --accounting pipelined
expect 0 'at the same time 10,576' $p $flash --accounting overlapped
expect 0 'charges an array 4,096 wide: 794.0 %' $p attention --algorithm standard --n 4096 --json "$json"
expect 0 '"utilization": 1.0' cat "$json"
expect 0 'MXU' $p attention --n 1000000 --dim 65536 --block 1
expect 0 '10,876' $p assumptions --causal
for loop in fori vmap pallas splash; do expect 0 'critical path' $p loop --as $loop --n 777 --dim 80; done
expect 0 'splash' $p loop
expect 0 '648' $p inside
expect 0 'measured' $p loops
expect 0 'TPU v5e' $p roofline --dim 128
expect 0 '16,384 │ 1024 │' $p traffic

for option in --m --k --n --rows --cols; do
  for value in 0 -1 1.5 x '' 1e3 99999999999999999999; do
    expect 2 "$option" $p matmul $option "$value"
  done
done
for option in --n --dim --block --mxus --lanes; do
  for value in 0 nan 2.5 ' 3'; do expect 2 "$option" $p attention $option "$value"; done
done
expect 2 'accepted: weight, output' $p matmul --dataflow input
expect 2 'accepted: no-stagger, weights-swapped-early, drain-forgotten' $p matmul --break no-max
expect 2 'accepted with --dataflow weight' $p matmul --dataflow output --double-buffer
expect 2 'accepted: up to 1048576' $p matmul --m 200 --k 200 --n 200 --trace
expect 2 'too large to tick' $p matmul --m 5000 --k 5000 --n 5000 --break no-stagger
expect 2 'accepted: flash, standard' $p attention --algorithm naive
expect 2 'accepted: seed, array, pipelined, overlapped' $p attention --accounting fair
expect 2 'tiles in a row; accepted: up to 256' $p loop --n 1000000
expect 2 'nonsense' $p nonsense
expect 2 'no/such/dir' $p matmul --json /no/such/dir/r.json
expect 2 'no/such/dir' $p attention --json /no/such/dir/r.json
[ -z "$(ls "$scratch" | grep -v -e '^out$' -e '^err$' -e '^r.json$')" ] || {
  echo "FAIL: files were left over"; failures=$((failures + 1)); }

[ $failures -eq 0 ] && echo "all as expected"
exit $((failures > 0))
