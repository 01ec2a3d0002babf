exg diff fixtures/bad/WGT-012.pt2 fixtures/bad/WGT-012.pt2; exg diff fixtures/bad/WGT-012.pt2 fixtures/mlp.pt2
