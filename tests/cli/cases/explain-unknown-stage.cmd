exg explain fixtures/mlp.pt2 --stage bogus
