exg compare fixtures/mlp.pt2 --fill random --with isa=nosuch 2>&1 | tail -n 2
