exg convert fixtures/branch.pt2 $T/b.pt2 --stage decompose
