exg digest fixtures/mlp.pt2 --check-proof tests/cli/proof.json --root sha256:a157de760be625b9a8ea78388b266981ac181c804aebd95156d447c9e3672d89
