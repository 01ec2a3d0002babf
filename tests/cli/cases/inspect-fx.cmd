exg inspect fixtures/inplace.pt2 --graph --fx; exg inspect fixtures/inplace.pt2 --fx
