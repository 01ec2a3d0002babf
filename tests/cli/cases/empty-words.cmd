for words in "inspect ''" "convert fixtures/mlp.pt2 ''" "run fixtures/mlp.pt2 --output ''" "run fixtures/mlp.pt2 --output=" "run fixtures/mlp.pt2 --input ''"; do eval exg $words; done
