echo "{\"ns_per_touched\": -1}" > $T/costs.json; exg plan fixtures/mlp.pt2 --mesh 2 --costs $T/costs.json
