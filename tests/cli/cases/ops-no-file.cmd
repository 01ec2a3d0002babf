exg verify fixtures/mlp.pt2 --ops ./none.so
