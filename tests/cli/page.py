"""page.py EXG CHROMIUM - the page of exg inspect --html, as a browser shows it: the drawing, boxes in boxes, links."""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG, CHROMIUM = sys.argv[1:3]
# Of a program: boxes, edges, and texts that are drawn.
DRAWN = {
    "fixtures/mlp.pt2": (7, 4, ["x: float32[3, 8]", "- up", "aten.linear.default", "p_up_weight float32[16, 8]", "output 0: linear_1"]),
    # closed: an input, five nodes and four modules of the top, an output
    "fixtures/lm.train-ir.dynamic.pt2": (10, None, ["+ blocks", "+ head", "b_cos float32[256, 16]"]),
    # a body in a loop, and branches in that
    "fixtures/loops.pt2": (65, None, ["- higher_order.while_loop", "- while_loop_body_graph_0", "- higher_order.cond", "- true_graph_0", "output 0: mul"]),
}


def dom(path, folder, *options):
    page = folder / "page.html"
    subprocess.run([EXG, "inspect", path, "--html", page, *options], cwd=ROOT, check=True)
    return dom_of(page, folder)


def flat_program(path, count):
    """fixtures/mlp.pt2 with `count` relu in a row, between its own and the linear after it, and two that nothing reads."""
    with zipfile.ZipFile(ROOT / "fixtures/mlp.pt2") as whole, zipfile.ZipFile(path, "w") as made:
        for info in whole.infolist():
            data = whole.read(info)
            if info.filename.endswith("models/model.json"):
                program = json.loads(data)
                graph = program["graph_module"]["graph"]
                up, relu, down = graph["nodes"]
                tensor, row, last = graph["tensor_values"]["relu"], [], "relu"
                for k in range(count + 2):
                    node = copy.deepcopy(relu)
                    node["name"], node["inputs"][0]["arg"] = f"relu_{k}", {"as_tensor": {"name": "relu" if k >= count else last}}
                    node["outputs"], last = [{"as_tensor": {"name": f"relu_{k}"}}], last if k >= count else f"relu_{k}"
                    graph["tensor_values"][f"relu_{k}"] = tensor
                    row.append(node)
                down["inputs"][0]["arg"]["as_tensor"]["name"] = last
                graph["nodes"] = [up, relu, *row, down]
                data = json.dumps(program)
            made.writestr(info, data)


def dom_of(page, folder, then=""):
    """What a browser makes of the page, and says of it; `then` is a script that is run in it at the end."""
    if then:
        page.write_text(page.read_text() + f"<script>{then}</script>")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={folder}/profile", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *words, f"file://{page}"], capture_output=True, text=True, timeout=60, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout.split('id="data"')[0] + done.stdout.split("</script>")[-1], said


def differences(folder):
    """The page of exg diff: a row a node, each beside its partner; what is the same is folded."""
    faults, page = [], folder / "diff.html"
    for a, b, rows in (
        ("convbn", "convbn.eval", {"same": 6, "changed": 1, "removed": 1, "added": 0}),
        ("convbn.eval", "convbn", {"same": 6, "changed": 1, "removed": 0, "added": 1}),
        ("lm.train-ir.static", "lm.train-ir.static", {"same": 82, "changed": 0, "removed": 0, "added": 0}),
        ("lm.train-ir.dynamic", "lm.core.dynamic", {"changed": 28, "removed": 38, "added": 182}),
    ):
        done = subprocess.run([EXG, "diff", f"fixtures/{a}.pt2", f"fixtures/{b}.pt2", "--structure", "--html", page], cwd=ROOT, capture_output=True)
        shown, said = dom_of(page, folder)
        faults += [f"diff {a} {b}: {line}" for line in said]
        if done.returncode != (a != b):
            faults.append(f"diff {a} {b} ended with {done.returncode}")
        for kind, count in rows.items():
            if len(re.findall(f'<tr class="{kind}"', shown)) != count:
                faults.append(f"diff {a} {b}: {len(re.findall(f'<tr class=.{kind}.', shown))} rows are {kind}, {count} were expected")
        if (">82 nodes the same<" in shown) != (a == b):
            faults.append(f"diff {a} {b}: what is the same is not folded")
    if not re.search('<tr class="changed".*?training=True.*?training=False', subprocess.run([EXG, "diff", "fixtures/convbn.pt2", "fixtures/convbn.eval.pt2", "--html", page], cwd=ROOT, capture_output=True) and dom_of(page, folder)[0], re.S):
        faults.append("diff: batch_norm does not stand beside its partner")
    return faults


def flat(folder):
    """10,000 nodes in a row, all shown: one is found, and comes into view; a table is filtered."""
    program, page = folder / "flat.pt2", folder / "page.html"
    flat_program(program, 10000)
    subprocess.run([EXG, "inspect", program, "--html", page], check=True)
    find = '''at("find").value = "relu_9876"; at("find").onkeydown({ key: "Enter" });
        const box = at("drawing").getBoundingClientRect(), hit = found.element.getBoundingClientRect();
        document.title = found.name + (hit.top >= box.top && hit.bottom <= box.bottom ? " in view" : " out of view");
        at("node-filter").value = "relu_9876"; at("node-filter").oninput();
        document.title += ", lines " + [...document.querySelectorAll(".node")].filter(n => n.style.display !== "none").length;'''
    shown, said = dom_of(page, folder, find)
    faults = [f"flat: {line}" for line in said]
    title = re.search("<title>(.*?)</title>", shown)[1]
    if title != "relu_9876 in view, lines 1":
        faults.append(f"flat: {title}")
    if "10007 nodes, inputs and outputs; 10007 boxes shown" not in shown:
        faults.append(f"flat: not all is drawn: {re.findall('[0-9]* nodes, inputs and outputs[^<]*', shown)}")
    if page.stat().st_size > 500 * 10000:
        faults.append(f"flat: {page.stat().st_size} bytes")
    return faults


def origins():
    """Of every row of a profile, and of a plan, the node of the program that it comes from: its own name, whatever passes made of it."""
    faults = []
    for name in ("autocast", "bf16", "branch", "convbn", "convbn.eval", "lm.train-ir.static", "norms", "examples", "windows"):
        path = f"fixtures/{name}.pt2"
        run = lambda *words: json.loads(subprocess.run([EXG, *words, "--json"], cwd=ROOT, capture_output=True, check=True).stdout)
        nodes = {n["name"] for n in run("inspect", path, "--graph")["nodes"]}
        steps = [(r["name"], r["origin"], r["kernel"] == "copy") for r in run("run", path, "--profile")["profile"]]
        placed = [(r["node"], r["origin"], not r["operands"]) for r in run("plan", path, "--mesh", "2", "--place", "data")["mesh"][0]["nodes"]]
        for made, origin, around in steps + placed:
            if origin not in nodes and not (around and origin == ""):
                faults.append(f"{path}: {made} is said to come from '{origin}'")
    return faults


def main():
    faults = origins()
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
        faults += flat(pathlib.Path(name))
        shown, said = dom("fixtures/bad/NOD-017.pt2", pathlib.Path(name))
        if said or '<a href="#n0">' not in shown or "faulty" not in shown:
            faults.append(f"a finding leads to no node {said}")
        # What a run took, and how a plan places: on the boxes, on the modules, in the tables; and memory by step.
        folder = pathlib.Path(name)
        for words, page, texts in (
            (["run", "fixtures/mlp.pt2", "--fill", "random", "--profile"], "fixtures/mlp.pt2", ["kernel linear, 2 nodes in one step", "- up  [0-9.]+%", "[0-9.]+ (ns|\u00b5s|ms) [0-9.]+%  192 bytes"]),
            (["run", "fixtures/convbn.eval.pt2", "--fill", "random", "--profile"], "fixtures/convbn.eval.pt2", ["kernel convolution, [2-9] nodes in one step", "[0-9.]+ (ns|\u00b5s|ms) [0-9.]+%  [0-9.]+ (bytes|kB)  convolution"]),
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
        faults += differences(folder)
    print(*faults, f"{len(DRAWN) + 11} pages, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
