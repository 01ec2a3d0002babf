echo "{\"ns_per_touched\": 1, \"links\": [{\"message_ns\": 10, \"ns_per_byte\": 0.5}]}" > $T/costs.json; exg plan fixtures/mlp.pt2 --mesh 2 --place tensor --costs $T/costs.json | head -9
