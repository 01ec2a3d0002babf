exg plan fixtures/mlp.pt2 --mesh 2 --calibrate $T/costs.json > $T/out && grep -c message_ns $T/costs.json && exg plan fixtures/mlp.pt2 --mesh 2 --costs $T/costs.json | head -1 | cut -d, -f1
