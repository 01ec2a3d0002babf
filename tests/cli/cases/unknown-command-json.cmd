exg nosuch --json 2>&1
