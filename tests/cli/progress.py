"""progress.py EXG - on a terminal a run that lasts over a second says how far it is, one that does not says nothing, and elsewhere none does."""

import os
import pathlib
import pty
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = str(pathlib.Path(sys.argv[1]).resolve())
LONG = ["run", "fixtures/loops.pt2", "--fill", "start=range:-9e5:-899999", "--loop-limit", "9000000"]  # turns of a loop


def on_terminal(words, **more):
    """What the command writes to a terminal that is its standard error."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([EXG, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=follower, **more)
    os.close(follower)
    said = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(leader)
    return child.wait(), said.decode()


def main():
    faults = []
    code, said = on_terminal(LONG)
    if code or "turns of loops" not in said or not said.endswith("\r\x1b[K"):
        faults.append(f"a long loop ended with {code}: {said[-200:]!r}")
    for words in (LONG[:2], [*LONG, "-q"]):
        code, said = on_terminal(words)
        if code or said:
            faults.append(f"{words} said {said!r}")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([EXG, *LONG, "--output", f"{folder}/out.safetensors"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode or done.stderr:
            faults.append(f"no terminal: {done.stderr!r}")
    print(*faults, f"{len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
