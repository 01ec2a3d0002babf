exg verify - < fixtures/mlp.pt2
