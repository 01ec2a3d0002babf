exg plan fixtures/elements.pt2 --mesh 2 --place data --check | grep checked
