exg convert fixtures/mlp.pt2 $T/m.pt2 --for 2.8
