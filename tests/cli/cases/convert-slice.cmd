cp fixtures/weights/slices/shard-00002-model-00001-of-00001.safetensors $T/ && exg convert $T/shard-00002-model-00001-of-00001.safetensors $T/w.safetensors
