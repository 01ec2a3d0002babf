cd fixtures/parallel; exg compare moves2.pt2 --mesh 2 --input 'moves2.{rank}.inputs.safetensors' --with device=strict --json
