exg compare fixtures/convbn.pt2 fixtures/convbn.eval.pt2 | sed 's/; worst.*//'
