for f in fixtures/*.pt2; do exg verify "$f" > $T/out 2>&1 || { echo "$f"; cat $T/out; }; rm -f $T/out; done
