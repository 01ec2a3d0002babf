exg compare fixtures/mlp.pt2 --fill random --with isa=generic | grep compared | cut -d : -f 1
