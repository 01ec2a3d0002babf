exg reduce fixtures/many.pt2 $T/small.pt2 -- sh -c "! $exe inspect {} --graph | grep -q aten.mul" | sed 's/; .*//' && exg inspect $T/small.pt2 | sed 1,5d && exg verify $T/small.pt2
