#!/usr/bin/env python3
"""What exg writes of a .pt2 as early JSON is what the two schemas say: the archive is translated here once more, from what PyTorch
wrote in it, into the dataclasses of the first schema (FIELDS), and compared, key by key in their order.

    check_early.py FILE.pt2 FILE.json [FILE.pt2 FILE.json]...

What the early schema has no word for is None in a place and left out of a list; `exg.carry` holds it, which is not looked into."""
import base64
import json
import sys
import zipfile

# The dataclasses, their fields in their order.
FIELDS = {
    "GraphModule": "name graph metadata parameters buffers",
    "Graph": "inputs outputs nodes tensor_values symint_values",
    "Node": "target args kwargs outputs metadata",
    "NodeMetadata": "stack_trace nn_module_stack extra",
    "TensorValue": "name meta",
    "SymIntValue": "name value",
    "TensorMeta": "dtype sizes requires_grad device strides storage_offset layout",
    "Device": "type index",
    "TensorArgument": "name",
    "Tensor": "storage meta",
    "Storage": "data_location data",
    "Buffer": "buffer",
}
# Numbers of PyTorch's enums in schema 8 (torch/_export/serde/schema.py) -> names of the first schema; what is newer has none.
DTYPES = dict(enumerate("u8 i8 i16 i32 i64 f16 f32 f64 c32 c64 c128 b8 bf16".split(), 1))
WIDTHS = dict(zip(DTYPES.values(), (1, 1, 2, 4, 8, 2, 4, 8, 2, 4, 8, 1, 2)))  # of an element; of a half of a complex one
LAYOUTS = dict(enumerate("sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn strided".split(), 1))
FORMATS = dict(enumerate("contiguous_format channels_last channels_last_3d preserve_format".split(), 1))
# Union members that are called otherwise, and those that are called the same.
RENAMED = {"as_string": "as_str"}
SAME = {"as_tensors", "as_bool", "as_bools", "as_int", "as_ints", "as_float", "as_floats"}
NONE = {"as_none": True}


def make(kind, *values):
    names = FIELDS[kind].split()
    assert len(names) == len(values)
    return dict(zip(names, values))


def sym_int(one):
    ((tag, value),) = one.items()
    return {"as_int": value} if tag == "as_int" else {"as_sym": value["expr_str"]}


def device(one):
    return make("Device", one["type"], -1 if one["index"] is None else one["index"])


def meta(one):
    """None: of a dtype or a layout that is newer."""
    if one["dtype"] not in DTYPES or one["layout"] not in LAYOUTS:
        return None
    return make("TensorMeta", DTYPES[one["dtype"]], [sym_int(s) for s in one["sizes"]], one["requires_grad"], device(one["device"]),
                [sym_int(s) for s in one["strides"]], sym_int(one["storage_offset"]), LAYOUTS[one["layout"]])  # fmt: skip


class Scope:
    """A graph's values under the names that they have in an early file."""

    def __init__(self, names):
        self.names = names

    def ref(self, name):
        return make("TensorArgument", self.names.get(name, name))

    def argument(self, one):
        ((tag, value),) = one.items()
        if tag == "as_tensor":
            return {tag: self.ref(value["name"])}
        if tag == "as_tensors":
            return {tag: [self.ref(each["name"]) for each in value]}
        if tag == "as_sym_int":
            return {"as_int": value["as_int"]} if "as_int" in value else {"as_symint": self.ref(value["as_name"])}
        if tag == "as_sym_ints":
            if all("as_name" in each for each in value):
                return {"as_symints": [self.ref(each["as_name"]) for each in value]}
            return {"as_ints": [each["as_int"] for each in value]} if all("as_int" in each for each in value) else NONE
        if tag == "as_graph":
            module = make("GraphModule", value["name"], Scope({}).graph(value["graph"]), {}, {}, {})
            return {"as_gm": module}
        if tag == "as_device":
            return {tag: device(value)}
        for name, table in (("as_scalar_type", DTYPES), ("as_layout", LAYOUTS), ("as_memory_format", FORMATS)):
            if tag == name:
                return {tag: table[value]} if value in table else NONE
        return {RENAMED.get(tag, tag): value} if tag in SAME or tag in RENAMED else NONE

    def node(self, one):
        said = {kind: [(each["name"], self.argument(each["arg"])) for each in one["inputs"] if (each.get("kind") == 2) == (kind == 2)]
                for kind in (1, 2)}  # fmt: skip
        outputs = [self.argument(each) for each in one["outputs"] if next(iter(each)) in ("as_tensor", "as_tensors")
                   or "as_name" in each.get("as_sym_int", {})]  # fmt: skip
        extra = dict(one["metadata"])
        own = make("NodeMetadata", extra.pop("stack_trace", ""), extra.pop("nn_module_stack", ""), extra)
        target = one["target"].removeprefix("torch.ops.")
        return make("Node", target, [arg for _, arg in said[1]], dict(said[2]), outputs, own)

    def graph(self, one, lifted=()):
        tensors = [each["as_tensor"]["name"] for each in one["inputs"] if "as_tensor" in each]
        values = [(name, meta(each)) for name, each in one["tensor_values"].items()]
        return make(
            "Graph",
            [self.ref(name) for name in tensors if name not in lifted],
            [self.ref(each["as_tensor"]["name"]) for each in one["outputs"] if "as_tensor" in each],
            [self.node(each) for each in one["nodes"]],
            [make("TensorValue", self.names.get(name, name), each) for name, each in values if each is not None],
            [make("SymIntValue", name, sym_int(each)) for name, each in one["sym_int_values"].items()],
        )


def tensor(one, data):
    own = meta(one["tensor_meta"])
    width = WIDTHS[own["dtype"]]
    turned = b"".join(data[at : at + width][::-1] for at in range(0, len(data), width))  # big endian
    buffer = make("Buffer", base64.b64encode(turned).decode())
    return make("Tensor", make("Storage", "Internal", buffer), own)


def translate(path):
    """The GraphModule of an archive."""
    archive = zipfile.ZipFile(path)
    members = {name.split("/", 1)[-1]: name for name in archive.namelist()}
    module = json.loads(archive.read(members["models/model.json"]))["graph_module"]
    names, tables, lifted = {}, {}, {}
    for spec, value in zip(module["signature"]["input_specs"], module["graph"]["inputs"]):
        ((tag, said),) = spec.items()
        target = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}.get(tag)
        if target is not None:
            lifted[value["as_tensor"]["name"]] = said[target]
            tables[said[target]] = "parameters" if tag == "parameter" else "buffers"
    free = {name for name in module["graph"]["tensor_values"] if name not in lifted}
    names = dict(lifted)
    assert not free & set(names.values()), "a value is called as a weight: not what this is for"
    found = {"parameters": {}, "buffers": {}}
    for folder, config in (("weights", "model_weights_config"), ("constants", "model_constants_config")):
        for name, one in json.loads(archive.read(members[f"data/{folder}/{config}.json"]))["config"].items():
            table = tables.get(name, "parameters" if one["is_param"] else "buffers")
            found[table][name] = tensor(one, archive.read(members[f"data/{folder}/{one['path_name']}"]))
    return make("GraphModule", "model", Scope(names).graph(module["graph"], lifted), module["metadata"], *found.values())


def difference(is_so, wanted, at=""):
    """The first place where they are not the same, or None."""
    if type(is_so) is not type(wanted):
        return f"{at}: {is_so!r}, not {wanted!r}"
    if isinstance(wanted, dict):
        if list(is_so) != list(wanted):
            return f"{at}: keys {list(is_so)}, not {list(wanted)}"
        return next((d for key in wanted if (d := difference(is_so[key], wanted[key], f"{at}.{key}"))), None)
    if isinstance(wanted, list):
        if at.endswith("_values"):  # a table; its order is the writer's
            is_so, wanted = (sorted(table, key=lambda row: row["name"]) for table in (is_so, wanted))
        if len(is_so) != len(wanted):
            return f"{at}: {len(is_so)} items, not {len(wanted)}"
        return next((d for i in range(len(wanted)) if (d := difference(is_so[i], wanted[i], f"{at}[{i}]"))), None)
    return None if is_so == wanted else f"{at}: {is_so!r}, not {wanted!r}"


def main():
    faults = 0
    for path, written in zip(sys.argv[1::2], sys.argv[2::2]):
        is_so = json.load(open(written, encoding="utf-8"))
        carry = is_so["metadata"].pop("exg.carry", "")
        found = difference(is_so, translate(path)) or (None if carry else "nothing is carried of a program that says more")
        print(f"{path}: {found or 'as the schemas say'}")
        faults += found is not None
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
