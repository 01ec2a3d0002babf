cp fixtures/mlp.pt2 $T/m.pt2; ln -s m.pt2 $T/n.pt2; exg convert $T/m.pt2 $T/n.pt2; exg repack $T/m.pt2 $T/./m.pt2; cmp $T/m.pt2 fixtures/mlp.pt2; rm $T/*
