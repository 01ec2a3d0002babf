exg inspect fixtures/mlp.pt2 --digest md5
