#!/bin/sh
# Run by CTest, PATH set.
. ../../common/test/cli_test.sh
m=ch01_toy_machine

expect 0 'Every result and every cost agrees with the lesson.' $m
expect 0 'no-rescale' $m --list-breaks
expect 0 'no-rescale' $m run element --list-breaks
expect 0 '7 cycles: 4 LOAD, 2 MAC, 1 STORE' $m run programs/element.txt
expect 0 'c00 = a00·b00 + a01·b10' $m run element --trace
expect 0 '25 cycles' $m matmul --order inner
expect 0 '22 cycles' $m matmul --order outer
expect 0 '3 passes' $m softmax --algorithm safe --n 7
expect 0 '2 passes' $m softmax --algorithm online --n 7
expect 0 '1 pass over' $m attention --n 7 --dim 2
expect 0 '0.952574' $m softmax --n 2 --x -1,2
expect 0 'agrees' $m softmax --n 2 --x 1,2 --break no-max
expect 1 'NaN' $m softmax --n 2 --x 1,89 --break no-max
expect 1 'WRONG' $m run online_softmax --break no-rescale
expect 1 'WRONG' $m run online_softmax --break no-rescale --break no-max --x 1,2,3,4,5,89
expect 1 'out[0] is NaN' $m run ratio_unsafe

# What optimum prints, run replays, at the same cost.
for operands in fixed any; do
  for registers in 3 4 5 6 7 8; do
    $m optimum --registers $registers --operands $operands >"$scratch/best.txt" || failures=1
    promised=$(head -n 1 "$scratch/best.txt")
    expect 0 "$promised: " $m run "$scratch/best.txt"
  done
done
expect 0 'impossible' $m optimum --registers 2
expect 0 'impossible' $m optimum --registers 2 --operands any
expect 0 '25 cycles' $m optimum --registers 8 --order inner

expect 0 'cycles' $m run element --json "$scratch/r.json"
expect 0 '"cycles": 7' cat "$scratch/r.json"
expect 0 '"loads": 4' cat "$scratch/r.json"
expect 0 '"macs": 2' cat "$scratch/r.json"
expect 0 '"stores": 1' cat "$scratch/r.json"
expect 0 '"formula": "a00·b00 + a01·b10"' cat "$scratch/r.json"
expect 0 'cycles' $m optimum --registers 3 --json "$scratch/r.json"
expect 0 '"possible": true' cat "$scratch/r.json"
expect 0 '"instruction": "STORE' cat "$scratch/r.json"

printf '.machine alu\n.registers 1\nLOAF x[0], R0\n' >"$scratch/bad.txt"
expect 2 "$scratch/bad.txt:3:1: unknown instruction 'LOAF'" $m run "$scratch/bad.txt"
expect 2 'R2 does not exist: the machine has R0 to R1' $m run element --registers 2
expect 2 'no_such_file' $m run no_such_file
expect 2 'directory' $m run programs
expect 2 'PROGRAM' $m run
expect 2 'nonsense' $m nonsense
expect 2 '--n 0: expected a whole number from 1 to 1024' $m softmax --n 0
expect 2 '--n 1025' $m softmax --n 1025
expect 2 '--n 2.5' $m softmax --n 2.5
expect 2 'expected 2 numbers' $m softmax --n 2 --x 1,2,3
expect 2 'finite' $m softmax --n 2 --x 1,nan
expect 2 'fp32' $m softmax --n 2 --x 1,1e39
expect 2 'finite' $m softmax --n 2 --x 1,
expect 2 'finite' $m softmax --n 2 --x ''
expect 2 'no input of that name' $m run element --x 1
expect 2 'accepted: safe, online' $m softmax --algorithm clever
expect 2 'accepted: inner, outer' $m matmul --order middle
expect 2 'accepted: no-max, no-rescale' $m softmax --break no-min
expect 2 'carries @no-rescale' $m softmax --break no-rescale
expect 2 'from 2 to 8' $m optimum --registers 9
expect 2 'needs --registers' $m optimum --operands any
expect 2 'without --trace' $m run element --print --trace
expect 2 'without --trace and --json' $m run element --print --json "$scratch/never.json"
[ -e "$scratch/never.json" ] && { echo 'FAIL: a file was written'; failures=$((failures + 1)); }
expect 2 '--list-breaks before optimum' $m --list-breaks optimum
expect 2 'no/such/dir' $m run element --json /no/such/dir/r.json

[ $failures -eq 0 ] && echo "all as expected"
exit $((failures > 0))
