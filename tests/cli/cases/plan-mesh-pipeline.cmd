exg plan fixtures/mlp.pt2 --mesh 2x2 --place pipeline,tensor --microbatches 3 --schedule interleaved --check | sed '/^$/,$d'
