exg run fixtures/mlp.pt2 --mesh 2 --output "$T/o.{rank}.safetensors" 2>&1 | sed "s|$T|T|"
