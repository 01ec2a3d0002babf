for f in fixtures/bad/*.pt2; do c=${f##*/}; c=${c%.pt2}; exg verify "$f" > $T/out 2>&1; code=$?; grep -q "$c" $T/out || echo "$f does not say $c"; echo "$c $code"; rm -f $T/out; done
