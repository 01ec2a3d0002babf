exg run fixtures/mlp.pt2 --input tests/cli/run.sh
