"""Makes branches.json beside it: an early file whose branches have tensors of their own (S002-49).

    python tests/export/data/make_branches.py      (nothing but Python)

    x: f32[3];  s: f32[3] = [1, 2, 4], a parameter of the program
    sum(x) > 0:  x * w + s                  w = [2, 3, 5], a parameter of the branch "positive"
    else:        sum(x) > -10:  x - b       b = [0.5, 0.25, 0.125], a buffer of "near"
                 else:          x * w       w = [-1, -2, -3], a parameter of "far", not the w above
"""
import base64
import json
import pathlib
import struct


def meta(dtype="f32", sizes=(3,)):
    strides = [1] * len(sizes)
    return {"dtype": dtype, "sizes": [{"as_int": n} for n in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": -1}, "strides": [{"as_int": n} for n in strides],
            "storage_offset": {"as_int": 0}, "layout": "strided"}


def tensor(*values):
    data = base64.b64encode(struct.pack(f">{len(values)}f", *values)).decode()
    return {"storage": {"data_location": "Internal", "data": {"buffer": data}}, "meta": meta()}


def name(value):
    return {"name": value}


def node(target, args, result):
    return {"target": target, "args": args, "kwargs": {}, "outputs": [{"as_tensor": name(result)}],
            "metadata": {"stack_trace": "", "nn_module_stack": "", "extra": {}}}


def binary(operator, a, b, result):
    return node(f"aten.{operator}.Tensor", [{"as_tensor": name(a)}, {"as_tensor": name(b)}], result)


def mentioned(graph):
    """The values in the order that the graph names them first."""
    found = {n["name"]: None for n in graph["inputs"] + graph["outputs"]}
    for n in graph["nodes"]:
        for arg in n["args"] + n["outputs"]:
            names = [arg["as_tensor"]] if "as_tensor" in arg else arg.get("as_tensors", [])
            found.update({v["name"]: None for v in names})
    return found


def module(title, inputs, outputs, nodes, values, metadata=None, parameters=None, buffers=None):
    graph = {"inputs": [name(n) for n in inputs], "outputs": [name(n) for n in outputs], "nodes": nodes,
             "tensor_values": [], "symint_values": []}
    graph["tensor_values"] = [{"name": n, "meta": values[n]} for n in mentioned(graph)]
    return {"name": title, "graph": graph, "metadata": metadata or {}, "parameters": parameters or {},
            "buffers": buffers or {}}


def branch(values, bound):
    """cond(sum(x) > bound, ...): the nodes before it."""
    values.update({"total": meta(sizes=()), "positive_sum": meta("b8", ())})
    return [node("aten.sum.default", [{"as_tensor": name("x")}], "total"),
            node("aten.gt.Scalar", [{"as_tensor": name("total")}, {"as_int": bound}], "positive_sum")]


def cond(true, false, operands, result):
    return node("higher_order.cond", [{"as_tensor": name("positive_sum")}, {"as_gm": true}, {"as_gm": false},
                                      {"as_tensors": [name(n) for n in operands]}], result)


def near():
    values = {n: meta() for n in ("x", "s", "b", "y")}
    return module("near", ["x", "s"], ["y"], [binary("sub", "x", "b", "y")], values,
                  buffers={"b": tensor(0.5, 0.25, 0.125)})


def far():
    values = {n: meta() for n in ("x", "s", "w", "y")}
    return module("far", ["x", "s"], ["y"], [binary("mul", "x", "w", "y")], values,
                  metadata={"of": "negative"}, parameters={"w": tensor(-1, -2, -3)})


def negative():
    values = {n: meta() for n in ("x", "s")}
    before = branch(values, -10)
    values["y"] = meta()
    return module("negative", ["x", "s"], ["y"], [*before, cond(near(), far(), ["x", "s"], "y")], values)


def positive():
    values = {n: meta() for n in ("x", "s", "w", "scaled", "y")}
    return module("positive", ["x", "s"], ["y"],
                  [binary("mul", "x", "w", "scaled"), binary("add", "scaled", "s", "y")], values,
                  metadata={"sign": "+"}, parameters={"w": tensor(2, 3, 5)})


def root():
    values = {n: meta() for n in ("x", "s")}
    before = branch(values, 0)
    values["y"] = meta()
    return module("Branches", ["x"], ["y"], [*before, cond(positive(), negative(), ["x", "s"], "y")], values,
                  parameters={"s": tensor(1, 2, 4)})


if __name__ == "__main__":
    text = json.dumps(root())
    pathlib.Path(__file__).with_name("branches.json").write_text(text + "\n")
