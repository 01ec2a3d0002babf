"""page.py EXG CHROMIUM - the page of exg inspect --html, as a browser shows it: the drawing, boxes in boxes, links."""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG, CHROMIUM = sys.argv[1:3]
# Of a program: boxes, edges, and texts that are drawn.
DRAWN = {
    "fixtures/mlp.pt2": (7, 4, ["x: float32[3, 8]", "- up", "aten.linear.default", "p_up_weight float32[16, 8]", "output 0: linear_1"]),
    # closed: an input, five nodes and four modules of the top, an output
    "fixtures/lm.train-ir.dynamic.pt2": (10, None, ["+ blocks", "+ head", "b_cos float32[256, 16]"]),
}


def dom(path, folder, *options):
    page = folder / "page.html"
    subprocess.run([EXG, "inspect", path, "--html", page, *options], cwd=ROOT, check=True)
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={folder}/profile", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *words, f"file://{page}"], capture_output=True, text=True, timeout=60, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout.split('id="data"')[0] + done.stdout.split("</script>")[-1], said


def main():
    faults = []
    with tempfile.TemporaryDirectory() as name:
        for path, (boxes, edges, texts) in DRAWN.items():
            shown, said = dom(path, pathlib.Path(name))
            drawing = shown[shown.index('id="drawing"') : shown.index('id="timeline"')]
            faults += [f"{path}: {line}" for line in said]
            if len(re.findall("<rect", drawing)) != boxes:
                faults.append(f"{path}: {len(re.findall('<rect', drawing))} boxes, {boxes} were expected")
            if edges is not None and len(re.findall("<path", drawing)) != edges:
                faults.append(f"{path}: {len(re.findall('<path', drawing))} edges, {edges} were expected")
            faults += [f"{path}: '{text}' is not drawn" for text in texts if f">{text}<" not in drawing]
        shown, said = dom("fixtures/bad/NOD-017.pt2", pathlib.Path(name))
        if said or '<a href="#n0">' not in shown or "faulty" not in shown:
            faults.append(f"a finding leads to no node {said}")
        # What a run took, and how a plan places: on the boxes, on the modules, in the tables; and memory by step.
        folder = pathlib.Path(name)
        for words, page, texts in (
            (["run", "fixtures/mlp.pt2", "--fill", "random", "--profile"], "fixtures/mlp.pt2", ["kernel linear, 2 nodes in one step", "- up  [0-9.]+%", "[0-9.]+ (ns|\u00b5s|ms) [0-9.]+%  192 bytes"]),
            (["plan", "fixtures/lm.core.dynamic.pt2", "--mesh", "2", "--place", "tensor"], "fixtures/lm.core.dynamic.pt2", ["dim 0: [^;]*; moves mul_7 from S\\(2\\) to S\\(1\\), 8192 bytes", "[+] blocks  [0-9.]+%"]),
        ):
            (folder / "said.json").write_bytes(subprocess.run([EXG, *words, "--json"], cwd=ROOT, capture_output=True, check=True).stdout)
            shown, said = dom(page, folder, "--annotate", str(folder / "said.json"))
            faults += [f"{page}, annotated: {line}" for line in said]
            faults += [f"{page}, annotated: '{text}' is not shown" for text in texts if not re.search(f">{text}<", shown)]
            if "color-mix" not in shown and "fill: color" not in shown:
                faults.append(f"{page}, annotated: no colour")
        shown, said = dom("fixtures/mlp.pt2", folder)
        memory = shown[shown.index('id="memory"') : shown.index('id="slowest"')]
        if memory.count("<rect") != 3 or "at most 384 bytes at step 1, relu" not in shown or "step 1, relu: 384 bytes" not in memory:
            faults.append("memory is not drawn by step")
    print(*faults, f"{len(DRAWN) + 4} pages, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
