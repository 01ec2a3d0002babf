for o in "--repeat 0" "--repeat 1.5" "--repeat 1e20" "--threads 4294967297" "--seed 9007199254740993" "--loop-limit 1e300"; do exg run fixtures/mlp.pt2 $o; echo $?; done
