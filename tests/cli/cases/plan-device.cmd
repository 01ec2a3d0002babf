exg plan fixtures/mlp.pt2 --device strict-host --mesh 2 --place tensor
