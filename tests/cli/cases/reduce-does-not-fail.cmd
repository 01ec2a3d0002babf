exg reduce fixtures/mlp.pt2 $T/small.pt2 -- true; exg reduce fixtures/mlp.pt2 $T/small.pt2 -- ./no/such/command; exg reduce fixtures/mlp.pt2 $T/small.json false; exg reduce fixtures/mlp.pt2
