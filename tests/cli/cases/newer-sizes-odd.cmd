for r in 2.14 2.15; do exg run fixtures/newer/sizes-$r.pt2 --input fixtures/newer/sizes-$r.odd.inputs.safetensors; done
