exg convert fixtures/mlp.pt2 $T/b.json --stage decompose
