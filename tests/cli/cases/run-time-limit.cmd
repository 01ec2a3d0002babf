echo old > $T/o.safetensors; exg run fixtures/loops.pt2 --time-limit 1e-9 --output $T/o.safetensors; echo $?; cat $T/o.safetensors
