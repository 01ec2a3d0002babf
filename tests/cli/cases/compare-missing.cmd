for how in rand zeroes gauss; do exg run fixtures/mlp.pt2 --fill $how; done; exg compare fixtures/mlp.pt2 nothing.safetensors; exg compare fixtures/mlp.pt2 fixtures/bad/NOD-017.pt2 2>&1 | grep where
