exg run fixtures/mlp.pt2 --isa generic && EXG_ISA=v99 exg run fixtures/mlp.pt2 --isa=generic > $T/out && exg devices --isa generic | grep -o ", generic (of generic"
