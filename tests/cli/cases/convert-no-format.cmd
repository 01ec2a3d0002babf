exg convert fixtures/mlp.pt2 $T/w.foo
