exg inspect fixtures/mlp.pt2 --html $T/p.html --json; rm $T/p.html
