exg devices --json --isa generic | python3 -c "import json, sys; d = json.load(sys.stdin)[\"devices\"][0]; json.dump([d[\"architecture\"], d[\"levels\"][0]], sys.stdout)"
