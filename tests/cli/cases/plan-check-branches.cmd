exg plan fixtures/branch.pt2 --mesh 3 --place data --check | grep checked
