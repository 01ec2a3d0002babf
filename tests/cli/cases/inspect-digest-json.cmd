exg inspect fixtures/mlp.pt2 --digest sha256 --json
