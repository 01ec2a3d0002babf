echo '{"inputs": {"x": "S(0)"}}' > $T/x.json; exg plan fixtures/windows.pt2 --mesh 3x2x2 --place $T/x.json,pipeline,data --check | grep "^checked"
