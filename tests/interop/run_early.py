"""Early files as .pt2: torch.export.load opens them, and they give what the formulas in the file give when PyTorch's operators are
called one by one; so does exg. See README.md beside this file. Rows S002-18, S002-33, S002-49,
S002-60, S002-61, S002-96, S002-99, S002-114, S002-115."""

import base64
import json
import operator
import sys

from run_interop import fail, run_cases, torch

DTYPES = {
    "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16,
    "f32": torch.float32, "f64": torch.float64, "c32": torch.complex32, "c64": torch.complex64, "c128": torch.complex128,
    "b8": torch.bool, "bf16": torch.bfloat16,
}

# ---- early files, written down ---------------------------------------------------------------


def sym(value):
    return {"as_int": value} if isinstance(value, int) else {"as_sym": value}


def meta(sizes, dtype="f32", strides=None, offset=0):
    if strides is None:
        strides = [1] * len(sizes)
        for i in range(len(sizes) - 2, -1, -1):
            strides[i] = strides[i + 1] * sizes[i + 1] if isinstance(sizes[i + 1], int) and isinstance(strides[i + 1], int) else sizes[i + 1]
    return {"dtype": dtype, "sizes": [sym(s) for s in sizes], "requires_grad": False, "device": {"type": "cpu", "index": -1},
            "strides": [sym(s) for s in strides], "storage_offset": sym(offset), "layout": "strided"}


def big_endian(values, dtype):
    """The bytes of a list of numbers, each number's (each half's) the other way around than this machine has them."""
    data = torch.tensor(values, dtype=DTYPES[dtype])
    width = data.element_size() // (2 if data.is_complex() else 1)
    rows = torch.tensor(bytearray(bytes(data.untyped_storage())), dtype=torch.uint8).reshape(-1, width)
    return bytes(rows.flip(1).flatten().tolist())


def tensor(values, sizes=None, dtype="f32", strides=None, offset=0):
    data = base64.b64encode(big_endian(values, dtype)).decode()
    return {"storage": {"data_location": "Internal", "data": {"buffer": data}},
            "meta": meta([len(values)] if sizes is None else sizes, dtype, strides, offset)}


def ref(name):
    return {"as_tensor": {"name": name}}


def node(target, args, outputs, stack="", extra=None, kwargs=None):
    outputs = [ref(output) if isinstance(output, str) else output for output in outputs]
    args = [ref(arg) if isinstance(arg, str) else arg for arg in args]
    return {"target": target, "args": args, "kwargs": kwargs or {}, "outputs": outputs,
            "metadata": {"stack_trace": "", "nn_module_stack": stack, "extra": extra or {}}}


def module(inputs, outputs, nodes, values, symbols=None, parameters=None, buffers=None, name="", metadata=None):
    own = {**(parameters or {}), **(buffers or {})}
    values = {**values, **{key: value["meta"] for key, value in own.items()}}
    return {
        "name": name,
        "graph": {"inputs": [{"name": key} for key in inputs], "outputs": [{"name": key} for key in outputs], "nodes": nodes,
                  "tensor_values": [{"name": key, "meta": value} for key, value in values.items()],
                  "symint_values": [{"name": key, "value": sym(value)} for key, value in (symbols or {}).items()]},
        "metadata": metadata or {}, "parameters": parameters or {}, "buffers": buffers or {},
    }


# ---- what they mean, by PyTorch's operators one by one ---------------------------------------


def read(one):
    dtype, data = DTYPES[one["meta"]["dtype"]], base64.b64decode(one["storage"]["data"]["buffer"])
    item = torch.empty(0, dtype=dtype)
    width = item.element_size() // (2 if item.is_complex() else 1)
    rows = torch.tensor(bytearray(data), dtype=torch.uint8).reshape(-1, width).flip(1).contiguous()
    whole = rows.flatten().view(dtype)
    numbers = {key: [each["as_int"] for each in one["meta"][key]] for key in ("sizes", "strides")}
    return torch.as_strided(whole, numbers["sizes"], numbers["strides"], one["meta"]["storage_offset"]["as_int"])


def user_inputs(early):
    """A parameter may stand among the inputs too, and is none of the caller's."""
    names = [each["name"] for each in early["graph"]["inputs"]]
    return [name for name in names if name not in early["parameters"] and name not in early["buffers"]]


def evaluate(early, inputs):
    values = {key: read(one) for key, one in {**early["parameters"], **early["buffers"]}.items()}
    values.update(dict(zip(user_inputs(early), inputs)))

    def argument(arg):
        ((kind, given),) = arg.items()
        if kind in ("as_tensor", "as_symint"):
            return values[given["name"]]
        if kind in ("as_tensors", "as_symints"):
            return [values[each["name"]] for each in given]
        return getattr(torch, given) if kind == "as_memory_format" else given

    for each in early["graph"]["nodes"]:
        args = [argument(arg) for arg in each["args"]]
        kwargs = {key: argument(arg) for key, arg in each["kwargs"].items()}
        if each["target"].endswith("higher_order.cond"):
            results = evaluate(args[1] if args[0] else args[2], args[3])
        elif each["target"].startswith("_operator."):
            results = getattr(operator, each["target"].removeprefix("_operator."))(*args)
        else:
            op = torch.ops
            for part in each["target"].removeprefix("torch.ops.").split("."):
                op = getattr(op, part)
            results = op(*args, **kwargs)
        results = results if isinstance(results, (tuple, list)) else [results]
        values.update({output[next(iter(output))]["name"]: result for output, result in zip(each["outputs"], results)})
    return [values[each["name"]] for each in early["graph"]["outputs"]]


def check(exg, early, inputs):
    source, path = exg.path(".json"), exg.path(".pt2")
    source.write_text(json.dumps(early))
    exg.command("convert", source, path)
    expected = evaluate(early, inputs)
    got = torch.export.load(path).module()(*inputs)
    got = list(got) if isinstance(got, (tuple, list)) else [got]
    if len(got) != len(expected) or not got:
        fail(f"{len(got)} outputs, and {len(expected)} are expected")
    for one, other in zip(got, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    if all(one.dtype not in (torch.complex32, torch.complex128) for one in expected):  # safetensors has no name for them
        named = dict(zip(user_inputs(early), inputs))
        for file in (source, path):
            for i, one in enumerate(expected):
                torch.testing.assert_close(exg.run(file, named)[0][str(i)], one, rtol=1e-6, atol=1e-6)
    again = exg.path(".json")
    exg.command("convert", path, again)
    if again.read_text() != source.read_text():
        fail("it comes back from .pt2 as something else")


# ---- the cases -------------------------------------------------------------------------------

X = torch.tensor([1.0, -2.0])
TWO = meta([2])


def adds(x="x", y="y", w="w", **more):
    return module([x], [y], [node("aten.add.Tensor", [x, w], [y])], {x: TWO, y: TWO}, parameters={w: tensor([3, 4])}, **more), [X]


def branch(name, target, own):
    return {"as_gm": module(["a"], ["r"], [node(target, ["a", "p"], ["r"])], {"a": TWO, "r": TWO}, parameters={"p": tensor(own)},
                            name=name, metadata={"of": target})}


def chooses(name, truth, inner=None):
    first = branch(name, "aten.add.Tensor", [1, 2])
    if inner is not None:  # the first branch has branches
        cond = node("higher_order.cond", ["c", branch(inner, "aten.sub.Tensor", [5, 6]), branch(inner, "aten.mul.Tensor", [7, 8]),
                                          {"as_tensors": [{"name": "a"}]}], ["r"])
        gt = node("aten.ge.Scalar", ["s", {"as_int": 0}], ["c"])
        total = node("aten.sum.default", ["a"], ["s"])
        first = {"as_gm": module(["a"], ["r"], [total, gt, cond], {"a": TWO, "r": TWO, "s": meta([]), "c": meta([], "b8")}, name=name)}
    early = module(["c", "x"], ["y"], [node("torch.ops.higher_order.cond", [
        "c", first, branch(name, "aten.mul.Tensor", [10, 20]), {"as_tensors": [{"name": "x"}]}], ["y"])],
        {"c": meta([], "b8"), "x": TWO, "y": TWO})
    return early, [torch.tensor(truth), X]


def sizes(*shape):
    rows = meta(["s0", 2])
    early = module(["x"], ["z"], [
        node("aten.sym_size.int", ["x", {"as_int": 0}], [{"as_symint": {"name": "rows"}}]),
        node("aten.add.Tensor", ["x", "w"], ["y"]),
        node("aten.view.default", ["y", {"as_symints": [{"name": "rows2"}]}], ["z"]),
    ], {"x": rows, "y": rows, "z": meta(["2*s0"])}, {"rows": "s0", "rows2": "2*s0"}, {"w": tensor([3, 4])})
    early["graph"]["nodes"].insert(1, node("_operator.mul", [{"as_symint": {"name": "rows"}}, {"as_int": 2}],
                                           [{"as_symint": {"name": "rows2"}}]))
    return early, [torch.arange(float(shape[0] * 2)).reshape(shape[0], 2)]


def named_size(symbol):
    """A symbol that sympy knows as something else, if it is not told."""
    size = meta([f"2*{symbol}"])
    return module(["x"], ["y"], [node("aten.neg.default", ["x"], ["y"])], {"x": size, "y": size}), [torch.arange(4.0)]


def keeps(dtype):
    values = [True, False] if dtype == "b8" else [1, 200] if dtype == "u8" else [1 - 2j, -0.5] if dtype[0] == "c" else [1, -2]
    one = module([], ["y"], [node("aten.clone.default", ["w"], ["y"])], {"y": meta([2], dtype)}, buffers={"w": tensor(values, dtype=dtype)})
    return one, []


def views():
    turned = tensor([1, 2, 3, 4, 5, 6], [3, 2], strides=[1, 3])
    late = tensor([0, 0, 0, 0, 0, 7, 8], [2], offset=5)
    y = meta([3, 2])
    return module(["x"], ["y"], [node("aten.mul.Tensor", ["t", "v"], ["q"]), node("aten.add.Tensor", ["q", "x"], ["y"])],
                  {"x": TWO, "q": y, "y": y}, parameters={"t": turned}, buffers={"v": late}), [X]


def listed(*names, outputs=("y",)):
    """The inputs and outputs that the file lists: parameters and buffers may be among them."""
    early = module(names, outputs, [node("aten.add.Tensor", ["x", "w"], ["q"]), node("aten.mul.Tensor", ["q", "b"], ["y"])],
                   {"x": TWO, "q": TWO, "y": TWO}, parameters={"w": tensor([3, 4])}, buffers={"b": tensor([5, 6])})
    return early, [X]


def takes_item():
    """A size that lies in the data: a symbol that no input has."""
    early = module(["n", "x"], ["y"], [
        node("aten._local_scalar_dense.default", ["n"], [{"as_symint": {"name": "k"}}]),
        node("aten.mul.Tensor", ["x", {"as_symint": {"name": "k"}}], ["y"]),
    ], {"n": meta([], "i64"), "x": TWO, "y": TWO}, {"k": "u0"})
    return early, [torch.tensor(-3), X]


def turned(memory_format):
    """A copy, and its elements in the order of memory, where the format shows."""
    shape = [1, 2, 2, 3] if memory_format == "channels_last" else [1, 2, 1, 2, 3]
    strides = {"channels_last": [12, 1, 6, 2], "channels_last_3d": [12, 1, 12, 6, 2]}.get(memory_format)
    early = module(["x"], ["z"], [
        node("aten.clone.default", ["x"], ["y"], kwargs={"memory_format": {"as_memory_format": memory_format}}),
        node("aten.as_strided.default", ["y", {"as_ints": [12]}, {"as_ints": [1]}], ["z"]),
    ], {"x": meta(shape), "y": meta(shape, strides=strides), "z": meta([12])})
    return early, [torch.arange(12.0).reshape(shape)]


CASES = {
    **{f"program called {name!r}": adds(name=name) for name in ("", "m", "a/b c", "model", "é")},
    **{f"input called {name!r}": adds(x=name) for name in ("class", "self", "torch", "pytree", "a.b", "1", "é", "None", "input")},
    **{f"result called {name!r}": adds(y=name) for name in ("class", "self", "torch", "a.b", "w_1", "add")},
    **{f"parameter called {name!r}": adds(w=name) for name in ("layer.0.weight", "torch", "a-b", "0", "x.y", "input")},
    "metadata of any text": adds(metadata={"custom": "no json", "é": ""}),
    **{f"branches called {name!r}": chooses(name, truth) for name in ("GraphModule", "", "<lambda>", "forward", "x", "c", "a.b", "w")
       for truth in (True,)},
    **{f"branches, {truth}": chooses("GraphModule", truth) for truth in (True, False)},
    **{f"branches in branches called {inner!r}": chooses("GraphModule", True, inner) for inner in ("GraphModule", "", "other")},
    **{f"{rows} rows of s0": sizes(rows) for rows in (3, 5)},
    **{f"a size of {symbol}": named_size(symbol) for symbol in ("N", "E", "S", "lambda", "batch")},
    **{f"values of {dtype}": keeps(dtype) for dtype in DTYPES},
    "views": views(),
    **{f"a copy in {name}": turned(name) for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")},
    "a parameter listed before": listed("w", "x"),
    "a parameter listed behind": listed("x", "w"),
    "a buffer and a parameter listed": listed("b", "x", "w"),
    "two outputs alike": listed("x", outputs=("y", "y")),
    "an input, a parameter and a buffer as outputs": listed("x", outputs=("x", "w", "y", "b")),
    "a number out of the data": takes_item(),
}


def stacks():
    for text in ("one, two", "a,b,c", "a,b[c,d],e;f", "L['self'],,torch.nn.Linear"):
        early, inputs = adds()
        early["graph"]["nodes"][0]["metadata"] = {"stack_trace": "net.py:1", "nn_module_stack": text,
                                                  "extra": {"custom": "{", "source_fn_stack": "x", "from_node": "", "torch_fn": "f"}}
        yield f"module stack {text!r}", (early, inputs)


def main():
    CASES.update(stacks())
    return run_cases(__doc__, ("", check, CASES))


if __name__ == "__main__":
    sys.exit(main())
