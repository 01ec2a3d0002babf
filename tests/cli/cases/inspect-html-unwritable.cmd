exg inspect fixtures/mlp.pt2 --html $T/no/page.html
