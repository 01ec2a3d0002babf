exg convert fixtures/mlp.pt2 $T/out.exg --split 1G
