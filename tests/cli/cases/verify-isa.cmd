exg verify fixtures/mlp.pt2 --isa generic
