"""Are these the answers of the steps, and the state after the last?
steps.py EXPECTED STEP0 STEP1 ... STATE: outputs "0" as 0@step0, ..., buffers as buffer:FQN."""
import array
import json
import sys

TYPES = {"F32": "f", "I64": "q"}


def read(path):
    data = open(path, "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {name: array.array(TYPES[t["dtype"]], data[slice(*(start + at for at in t["data_offsets"]))])
            for name, t in header.items() if name != "__metadata__"}


expected, *steps, state = (read(path) for path in sys.argv[1:])
got = {f"{name}@step{i}": values for i, step in enumerate(steps) for name, values in step.items()}
got |= {f"buffer:{name}": values for name, values in state.items()}
if sorted(got) != sorted(expected):
    sys.exit(f"{sorted(got)} for {sorted(expected)}")
for name, values in expected.items():
    if len(values) != len(got[name]) or any(abs(a - b) > 1e-4 + 1e-4 * abs(b) for a, b in zip(got[name], values)):
        sys.exit(f"{name} differs")
print("as expected")
