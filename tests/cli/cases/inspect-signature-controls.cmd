exg convert fixtures/mlp.pt2 $T/m.json; sed 's/"up.weight"/"\\u001b[31mup"/g' $T/m.json > $T/n.json; exg inspect $T/n.json --ignore-carry --signature; rm $T/*
