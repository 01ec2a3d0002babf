exg run fixtures/mlp.pt2 --rtol 1; exg plan fixtures/mlp.pt2 --place data; exg convert fixtures/mlp.pt2 $T/o.pt2 --byte-order big; exg run fixtures/mlp.pt2 --timeout 0 --mesh 2
