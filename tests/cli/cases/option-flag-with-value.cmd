exg verify --strict=1 fixtures/mlp.pt2
