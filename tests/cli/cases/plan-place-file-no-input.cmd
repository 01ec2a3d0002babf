echo "{\"inputs\": {\"y\": \"S(0)\"}}" > $T/place.json; exg plan fixtures/mlp.pt2 --mesh 3 --place $T/place.json
