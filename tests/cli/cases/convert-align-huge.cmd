exg convert fixtures/mlp.pt2 $T/m.exg --align 1T
