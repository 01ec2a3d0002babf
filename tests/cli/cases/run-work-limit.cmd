exg run fixtures/loops.pt2 --work-limit 100
