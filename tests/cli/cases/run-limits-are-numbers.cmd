exg run fixtures/mlp.pt2 --time-limit 0; echo $?; exg run fixtures/mlp.pt2 --work-limit -1; echo $?
