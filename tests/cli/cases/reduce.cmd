exg reduce fixtures/integer.pt2 $T/small.pt2 -- sh -c "! $exe run {} --fill random 2>&1 | grep -q RUN-001" | sed 's/; .*//' && exg verify $T/small.pt2 && exg inspect $T/small.pt2 --graph --fx
