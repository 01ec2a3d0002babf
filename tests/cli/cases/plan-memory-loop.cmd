exg plan fixtures/loops.pt2 --memory 1M; exg plan fixtures/loops.pt2 --sweep 2
