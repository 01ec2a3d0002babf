exg store drop $T/s; exg store export $T/s a; exg store list $T/s x; exg store; exg store add $T/s README.md --link; exg store add $T/s README.md LICENSE --as x; exg store list docs; rm -rf $T/s
