exg inspect fixtures/convbn.pt2 --list-weights --sort name --filter running
