exg explain fixtures/tied.pt2 --stage simplify
