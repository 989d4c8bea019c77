L=.scratch/libflash_attention.so
export LD_LIBRARY_PATH=$PWD/.scratch
timeout 60 python3 reference/bench_peers.py --library $L --chapters 15,16 --steady --no-flex --mean 0.5 --shape 2,16,8192,8192,128 --shape 1,16,16384,16384,128 --shape 2,16,8192,8192,128:causal --shape 1,16,16384,16384,128:causal --shape 2,32,8192,8192,64 --markdown $OUT/steady1.md >/dev/null 2>$OUT/e1
timeout 40 python3 reference/bench_peers.py --library $L --chapters 15,16 --steady --no-flex --mean 0 --shape 2,16,8192,8192,128 --shape 1,16,16384,16384,128 --shape 2,32,8192,8192,64 --markdown $OUT/steady2.md >/dev/null 2>$OUT/e2
timeout 55 python3 reference/bench_peers.py --library $L --chapters 15,16 --rounds 7 --no-flex --masked --markdown $OUT/peers.md --json $OUT/peers.json > /dev/null 2>$OUT/e3
cd .scratch; CHECK=0 timeout 40 python3 race.py a@0 "2,16,8192,8192,128:half:q20:key7:ramp:down:steep:jump:bigv" 3 150 > $OUT/data.txt 2>&1
cat $OUT/*.md $OUT/data.txt $OUT/e* | cut -c1-150
