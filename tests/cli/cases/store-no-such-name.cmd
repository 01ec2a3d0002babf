exg store add $T/s fixtures/mlp.pt2 > $T/log; exg store list $T/s; exg store export $T/s nosuch $T/out; code=$?; rm -r $T/s $T/log; exit $code
