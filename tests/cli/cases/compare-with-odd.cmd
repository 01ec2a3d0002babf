for w in nope=1 device fill=zeros input=x threads; do exg compare fixtures/mlp.pt2 --fill random --with $w 2>&1 | head -n 1; done; exg compare a b c
