exg convert fixtures/mlp.pt2 $T/b.pt2 --stage place
