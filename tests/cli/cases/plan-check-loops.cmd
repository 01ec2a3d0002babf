exg plan fixtures/loops.pt2 --mesh 3 --place data --check | grep checked
