"""How the work of every command grows with the program: growth.py EXG [--sizes N,N,N] [--shape NAME...] [--command NAME...]

EXG is a build that counts its steps (steps.c) and writes their number to $EXG_STEPS. A shape is a program of n nodes (weights,
inputs, symbols, words), made here in JSON around fixtures/mlp.pt2; each command runs on three sizes. Steps less those of the
smallest may grow with n to the power of 1.15: a second loop over the program shows at once, however fast the machine.
"""
import argparse, concurrent.futures, json, math, os, resource, struct, subprocess, sys, tempfile, zipfile

MOST = 1.15
STACK = 256 << 10
LEAST = 50  # steps a node: with fewer there is nothing to see yet
NOISE = 20_000  # steps by which two runs of the same may differ (where memory lies, what the loader finds)
FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "mlp.pt2")
COMMANDS = {
    "inspect": ["inspect", "{p}", "--json"],
    "graph": ["inspect", "{p}", "--graph"],
    "tree": ["inspect", "{p}", "--tree"],
    "html": ["inspect", "{p}", "--html", "{t}/o.html"],
    "verify": ["verify", "{p}"],
    "diff": ["diff", "{p}", "{p}"],
    "exg": ["convert", "{p}", "{t}/o.exg"],
    "json": ["convert", "{p}", "{t}/o.json"],
    "repack": ["repack", "{p}", "{t}/o.exg", "--deduplicate"],
    "explain": ["explain", "{p}", "--stage", "functionalize"],
    "plan": ["plan", "{p}"],
    "place": ["plan", "{p}", "--mesh", "2", "--place", "data"],
    "run": ["run", "{p}", "--threads", "1"],
    "device": ["run", "{p}", "--device", "strict"],
    "mesh": ["run", "{p}", "--mesh", "2", "--place", "replicate"],
    "weights": ["convert", "{p}", "{t}/o.safetensors"],
}

CHECKED = set(COMMANDS) - {"inspect", "graph", "tree", "html"}  # these show a program as it is


def tensor(name):
    return {"as_tensor": {"name": name}}


def ints(*values):
    return {"as_ints": list(values)}


def meta(sizes, symbol=None):
    strides = [math.prod(sizes[d + 1:]) for d in range(len(sizes))]
    shape = [{"as_int": s} for s in sizes]
    if symbol is not None:
        shape[0] = {"as_expr": {"expr_str": symbol, "hint": {"as_int": sizes[0]}}}
    return {"dtype": 7, "sizes": shape, "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": s} for s in strides], "storage_offset": {"as_int": 0}, "layout": 7}


class Program:
    """The fixture with nodes behind its own; the last value that was made is its output."""

    def __init__(self):
        with zipfile.ZipFile(FIXTURE) as z:
            self.records = {i.filename: z.read(i) for i in z.infolist()}
        self.path = next(n for n in self.records if "/models/" in n)
        self.weights_path = next(n for n in self.records if n.endswith("model_weights_config.json"))
        self.model = json.loads(self.records[self.path])
        self.weights = json.loads(self.records[self.weights_path])
        module = self.model["graph_module"]
        self.graph, self.signature, self.calls = module["graph"], module["signature"], module["module_call_graph"]
        self.last, self.sizes, self.given = "linear_1", {"linear_1": [3, 4]}, []

    def node(self, target, args, sizes, count=None, metadata=None):
        """Its result, of those sizes; or a list of `count` such results."""
        at = len(self.graph["nodes"])
        names = [f"v{at}"] if count is None else [f"v{at}_{i}" for i in range(count)]
        outputs = [tensor(names[0])] if count is None else [{"as_tensors": [{"name": n} for n in names]}]
        self.graph["nodes"].append({
            "target": f"torch.ops.aten.{target}", "inputs": [{"name": k, "arg": v, "kind": 1} for k, v in args.items()],
            "outputs": outputs, "metadata": metadata or {}, "is_hop_single_tensor_return": None, "name": names[0]})
        for n in names:
            self.graph["tensor_values"][n] = meta(sizes)
            self.sizes[n] = sizes
        self.last = names[-1]
        return names[0] if count is None else names

    def unary(self, target, name, sizes=None, **args):
        return self.node(target, {"self": tensor(name), **args}, sizes or self.sizes[name])

    def add(self, a, b):
        return self.node("add.Tensor", {"self": tensor(a), "other": tensor(b)}, self.sizes[a])

    def weight(self, kind, name, entry="up.weight"):
        """Another name of a weight of the fixture."""
        value = f"{'p' if kind == 'parameter' else 'b'}_{name.replace('.', '_')}"
        entry = self.weights["config"][entry]
        self.weights["config"][name] = entry
        sizes = [s["as_int"] for s in entry["tensor_meta"]["sizes"]]
        self.input(value, sizes, {"parameter": {"arg": {"name": value}, "parameter_name": name}} if kind == "parameter" else
                   {"buffer": {"arg": {"name": value}, "buffer_name": name, "persistent": True}})
        return value

    def input(self, name, sizes, spec, symbol=None):
        user = "user_input" in spec
        self.given += [name] if user else []
        at = len(self.graph["inputs"]) if user else 0
        self.graph["inputs"].insert(at, tensor(name))
        self.signature["input_specs"].insert(at, spec)
        self.graph["tensor_values"][name] = meta(sizes, symbol)
        self.sizes[name] = sizes

    def output(self, names):
        self.graph["outputs"] = [tensor(n) for n in names]
        self.signature["output_specs"] = [{"user_output": {"arg": tensor(n)}} for n in names]

    def save(self, path):
        if len(self.signature["output_specs"]) == 1:
            self.output([self.last])
        # As many inputs and outputs as there are now: the call's own tree is left out.
        self.calls[0]["signature"] = None
        self.records[self.path] = json.dumps(self.model).encode()
        self.records[self.weights_path] = json.dumps(self.weights).encode()
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
            for name, data in self.records.items():
                z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)


# ---- shapes: the program p of about n nodes --------------------------------------------------

def chain(p, n):
    for _ in range(n):
        p.unary("relu.default", p.last)


def doubled(p, n):
    for _ in range(n):
        p.add(p.last, p.last)


def users(p, n):
    names = [p.unary("exp.default", "linear_1") for _ in range(n)]
    p.node("cat.default", {"tensors": {"as_tensors": [{"name": x} for x in names]}}, [3 * n, 4])


def cat_of_one(p, n):
    p.node("cat.default", {"tensors": {"as_tensors": [{"name": "linear_1"}] * n}}, [3 * n, 4])


def split(p, n):
    p.node("repeat.default", {"self": tensor("linear_1"), "repeats": ints(n, 1)}, [3 * n, 4])
    p.node("split.Tensor", {"self": tensor(p.last), "split_size": {"as_int": 3}}, [3, 4], count=n)


def in_place(p, n):
    for _ in range(n):
        p.unary("relu_.default", p.last)


def in_place_of_one(p, n):
    for _ in range(n):
        p.unary("relu_.default", "linear_1")
        p.add("linear_1", "linear_1")


def views_then_writes(p, n):
    views = []
    for i in range(n):
        views.append(p.unary("view.default", p.last, [4, 3] if i % 2 else [3, 4], size=ints(*([4, 3] if i % 2 else [3, 4]))))
    for v in views:
        p.unary("relu_.default", v)


def views_written_backwards(p, n):
    views = []
    for i in range(n):
        views.append(p.unary("permute.default", p.last, p.sizes[p.last][::-1], dims=ints(1, 0)) if i % 2 else
                     p.unary("view.default", p.last, p.sizes[p.last][::-1], size=ints(*p.sizes[p.last][::-1])))
    for v in reversed(views):
        p.unary("relu_.default", v)


def view_and_write(p, n):
    for i in range(n):
        p.unary("view.default", p.last, [4, 3] if i % 2 else [3, 4], size=ints(*([4, 3] if i % 2 else [3, 4])))
        p.unary("relu_.default", p.last)


def mixed_views_and_writes(p, n):
    for i in range(n):
        turned = p.sizes[p.last][::-1]
        if i % 2:
            p.unary("permute.default", p.last, turned, dims=ints(1, 0))
        else:
            p.unary("view.default", p.last, turned, size=ints(*turned))
        p.unary("relu_.default", p.last)


def rows_written(p, n):
    for i in range(n):
        p.unary("select.int", "linear_1", [4], dim={"as_int": 0}, index={"as_int": i % 3})
        p.unary("relu_.default", p.last)


def rows_stacked(p, n):
    rows = [p.unary("select.int", "linear_1", [4], dim={"as_int": 0}, index={"as_int": i % 3}) for i in range(n)]
    p.node("stack.default", {"tensors": {"as_tensors": [{"name": r} for r in rows]}}, [n, 4])


def detached_then_written(p, n):
    for _ in range(n):
        p.unary("detach.default", p.last)
    p.unary("relu_.default", p.last)


def outputs(p, n):
    p.output([p.unary("exp.default", "linear_1") for _ in range(n)])


def weights(p, n):
    for i in range(n):
        p.weight("parameter", f"w{i}", "down.bias")
        p.add("linear_1" if i == 0 else p.last, f"p_w{i}")


def layers(p, n):
    for i in range(n):
        p.weight("parameter", f"layer.{i}.w", "down.bias")


def one_long_name(p, n):
    p.weight("parameter", ".".join(["a"] * n), "down.bias")


def branches(p, n):
    """Each on data, so each ends a segment of its own."""
    def side(target):
        return {"as_graph": {"name": f"g{len(p.graph['nodes'])}_{target}", "graph": {
            "inputs": [tensor("a")], "outputs": [tensor("b")],
            "nodes": [{"target": f"torch.ops.aten.{target}.default", "inputs": [{"name": "self", "arg": tensor("a"), "kind": 1}],
                       "outputs": [tensor("b")], "metadata": {}, "is_hop_single_tensor_return": None, "name": "b"}],
            "tensor_values": {"a": meta([3, 4]), "b": meta([3, 4])}, "sym_int_values": {}, "sym_bool_values": {},
            "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}}}

    for _ in range(n // 50):
        x = p.last
        p.node("sum.default", {"self": tensor(x)}, [])
        p.node("gt.Scalar", {"self": tensor(p.last), "other": {"as_int": 0}}, [])
        p.graph["tensor_values"][p.last]["dtype"] = 12
        predicate = p.last
        name = p.node("cond", {"": tensor(predicate)}, [3, 4])
        p.graph["nodes"][-1].update(target="torch.ops.higher_order.cond", outputs=[{"as_tensors": [{"name": name}]}],
                                    inputs=[{"name": "", "arg": a, "kind": 1} for a in
                                            (tensor(predicate), side("relu"), side("exp"), {"as_tensors": [{"name": x}]})])


def products(p, n):
    """Of n weights, each packed."""
    p.unary("constant_pad_nd.default", "linear_1", [3, 16], pad=ints(0, 12))
    x = p.last
    for i in range(n):
        p.weight("parameter", f"w{i}", "down.weight")
        p.node("linear.default", {"input": tensor(x), "weight": tensor(f"p_w{i}")}, [3, 4])


def buffers_written(p, n):
    made = []
    for i in range(n):
        p.weight("buffer", f"s{i}", "down.bias")
        made.append(p.unary("exp.default", f"b_s{i}"))
    p.output(made + ["linear_1"])
    for i in range(n):
        p.signature["output_specs"][i] = {"buffer_mutation": {"arg": {"name": made[i]}, "buffer_name": f"s{i}"}}


def inputs(p, n):
    for i in range(n):
        p.input(f"x{i}", [3, 4], {"user_input": {"arg": tensor(f"x{i}")}})
        p.add(p.last, f"x{i}")


def symbols(p, n):
    for i in range(n):
        p.input(f"x{i}", [3, 4], {"user_input": {"arg": tensor(f"x{i}")}}, symbol=f"s{i}")
        p.model["range_constraints"][f"s{i}"] = {"min_val": 2, "max_val": 1000}


def read_backwards(p, n):
    values = [p.unary("softmax.int", "linear_1", dim={"as_int": 1}) for _ in range(n)]
    for v in reversed(values):
        p.add(p.last, v)


def modules(p, n):
    for i in range(n):
        stack = ";".join(f"L{k},layer.{i}{'.m' * k},torch.nn.Linear" for k in range(4))
        trace = "".join(f'  File "m{k}.py", line {i}, in forward\n    y = {k}\n' for k in range(4))
        p.node("relu.default", {"self": tensor(p.last)}, [3, 4], metadata={"nn_module_stack": stack, "stack_trace": trace})
        p.calls.append({"fqn": f"layer.{i}", "signature": None})


def faults(p, n):
    for i in range(n):
        p.node("relu.default", {"self": tensor(f"nosuch{i}")}, [3, 5])


def asserts(p, n):
    for _ in range(n):
        p.node("sum.default", {"self": tensor("linear_1")}, [])
        total = p.last
        p.node("_assert_async.msg", {"self": tensor(total), "assert_msg": {"as_string": "it is so"}}, [])
        p.graph["nodes"][-1]["outputs"] = []
        del p.graph["tensor_values"][p.last]
        p.last = total


SHAPES = [chain, doubled, users, cat_of_one, split, in_place, in_place_of_one, views_then_writes, views_written_backwards,
          view_and_write, mixed_views_and_writes, rows_written, rows_stacked, detached_then_written, outputs, weights, layers, one_long_name,
          branches, products,
          buffers_written, inputs, symbols, read_backwards, modules, faults, asserts]

# A segment looks at all values of the program, so segments by nodes: known, and as long as a segment is worth its plan no more.
KNOWN = {("branches", c) for c in ("run", "device", "mesh")}


def give_inputs(path, names):
    """Zeros for the inputs that a shape added, and the fixture's own."""
    sizes = {"x": [3, 8], **{n: [3, 4] for n in names}}
    header, at = {}, 0
    for name, shape in sizes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * math.prod(shape)]}
        at += 4 * math.prod(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(at))


def steps(exg, command, program, folder):
    """Exit code, steps and what it said, on a stack that a call inside a call for each node would overflow."""
    words = [w.format(p=program, t=folder) for w in COMMANDS[command]]
    if os.path.exists(program + ".inputs") and words[0] in ("plan", "run", "explain"):
        words += ["--input", program + ".inputs"]
    count = os.path.join(folder, "steps")
    done = subprocess.run([exg, *words], env=dict(os.environ, EXG_STEPS=count), capture_output=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK)))
    found = 0
    if os.path.exists(count):
        with open(count) as f:
            found = int(f.read())
        os.unlink(count)
    return done.returncode, found, done.stderr[-300:].decode("utf8", "replace")


def measure(exg, shape, commands, sizes):
    """By command: what steps() gave for each size."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for n in sizes:
            p = Program()
            shape(p, n)
            paths.append(os.path.join(folder, f"{shape.__name__}{n}.pt2"))
            p.save(paths[-1])
            if p.given:
                give_inputs(paths[-1] + ".inputs", p.given)
        return {c: [steps(exg, c, path, folder) for path in paths] for c in commands if (shape.__name__, c) not in KNOWN}


def judge(shape, command, found, sizes):
    """A line, and whether it is a fault."""
    codes = sorted({code for code, _, _ in found})
    a, b, c = (s for _, s, _ in found)
    power = math.log(max(c - a, 1) / max(b - a + NOISE, 1)) / math.log((sizes[2] - sizes[0]) / (sizes[1] - sizes[0]))
    wrong = (power > MOST and c - a > LEAST * sizes[2]) or codes != ([4] if shape == "faults" and command in CHECKED else [0])
    said = next((said.splitlines()[0] for code, _, said in found if code != 0 and said), "")
    return f"{'FAILED ' if wrong else ''}{shape} {command}: steps {a} {b} {c}, n^{power:.2f}, codes {codes} {said}", wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exg")
    parser.add_argument("--sizes", default="250,1000,4000")
    parser.add_argument("--shape", nargs="*")
    parser.add_argument("--command", nargs="*")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    sizes = [int(s) for s in options.sizes.split(",")]
    commands = options.command or list(COMMANDS)
    shapes = [s for s in SHAPES if not options.shape or s.__name__ in options.shape]
    bad = count = 0
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for shape, found in zip(shapes, pool.map(measure, *zip(*[(options.exg, s, commands, sizes) for s in shapes]))):
            for command in found:
                line, wrong = judge(shape.__name__, command, found[command], sizes)
                count += 1
                bad += wrong
                if wrong or options.v:
                    print(line, flush=True)
    print(f"{count} of commands and shapes, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
