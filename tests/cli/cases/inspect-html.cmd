exg inspect fixtures/mlp.pt2 --html $T/page.html; grep -c "<script" $T/page.html; grep -o "\"nodes\": 3" $T/page.html; rm $T/page.html
