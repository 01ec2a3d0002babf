exg inspect no/such.pt2 --json 2>&1
