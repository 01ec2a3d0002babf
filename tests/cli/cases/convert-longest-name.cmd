exg convert fixtures/mlp.pt2 $T/$(printf '%0251d' 0).exg; exg inspect $T/*.exg > /dev/null
