echo '{"weights": {"*": "R"}}' > $T/whole.json; exg plan fixtures/mlp.pt2 --mesh 2x2 --place data,$T/whole.json | head -n 1; rm $T/whole.json
