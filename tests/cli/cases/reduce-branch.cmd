exg reduce fixtures/branch.pt2 $T/small.pt2 -- sh -c "! $exe inspect {} --graph | grep -q higher_order.cond" | sed "s/; .*//" && exg inspect $T/small.pt2 --graph | grep -c clone
