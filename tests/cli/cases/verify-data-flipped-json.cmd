cp fixtures/mlp.pt2 $T/m.pt2; at=$(grep -abo 'schema_version' $T/m.pt2 | head -n 1 | cut -d: -f1); printf S | dd of=$T/m.pt2 bs=1 seek=$at conv=notrunc 2> /dev/null; exg verify $T/m.pt2 --data
