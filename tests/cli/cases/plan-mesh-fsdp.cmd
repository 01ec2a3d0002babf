exg plan fixtures/mlp.pt2 --mesh 2 --place fsdp --processes --check
