exg convert fixtures/constants.inputs.safetensors $T/i.safetensors --rename 'options_bias=options.nosuch' && exg run fixtures/constants.pt2 --input $T/i.safetensors; rm $T/*
