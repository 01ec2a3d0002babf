exg convert fixtures/mlp.pt2 $T/m.pt2 --for 2.9.1 && exg inspect $T/m.pt2 | sed -n 2p && exg diff fixtures/mlp.pt2 $T/m.pt2; rm $T/m.pt2
