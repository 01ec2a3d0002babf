exg convert fixtures/mlp.pt2 $T/x.json --strict # S002-109
