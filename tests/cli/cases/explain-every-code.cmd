for f in fixtures/bad/*.pt2; do c=${f##*/}; exg explain ${c%.pt2} > $T/out || echo "$c"; rm -f $T/out; done
