exg verify fixtures/mlp.pt2 --deny VAL-999
