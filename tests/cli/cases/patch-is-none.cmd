exg patch --apply fixtures/mlp.pt2 README.md $T/out
