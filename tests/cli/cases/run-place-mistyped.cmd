for place in tenser data,bogus none.json; do exg run fixtures/mlp.pt2 --mesh 2x2 --place $place; done
