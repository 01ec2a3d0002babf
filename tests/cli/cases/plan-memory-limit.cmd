exg plan fixtures/mlp.pt2 --mesh 2 --memory-limit 500 --place fsdp
