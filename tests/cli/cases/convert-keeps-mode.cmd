exg convert fixtures/mlp.pt2 $T/m.exg && chmod 600 $T/m.exg && exg convert fixtures/mlp.pt2 $T/m.exg && stat -c %a $T/m.exg && exg convert fixtures/mlp.pt2 $T/m.exg --resume && stat -c %a $T/m.exg
