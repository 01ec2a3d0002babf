exg run fixtures/mlp.pt2 --isa v99 2>&1 | sed "s/have generic.*/have .../"; EXG_ISA=v99 exg devices 2>&1 | sed "s/have generic.*/have .../"
