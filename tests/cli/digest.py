"""digest.py EXG - exg digest, and its proofs, against another implementation of schema/README.md, "The digest".

The tree is built here from the text alone, with hashlib: of .safetensors files, and of the model.json that PyTorch wrote into a .pt2.
Proofs are checked by a checker of their own, and made worse in every way that one change can.
"""

import hashlib
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = str(pathlib.Path(sys.argv[1]).resolve())
BLOCK = 1 << 20
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip


# ---- the digest, in forty lines ---------------------------------------------------------------------


def h(tag, *pieces):
    return hashlib.sha256(bytes([tag]) + b"".join(pieces)).digest()


def number(n):
    return struct.pack("<Q", n)


def counted(text):
    return number(len(text)) + text


def tree(leaves):
    if len(leaves) <= 1:
        return leaves[0] if leaves else h(1)
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return h(1, tree(leaves[:left]), tree(leaves[left:]))


def blocks_of(data):
    return [h(0, data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]


def tensor(name, dtype, shape, blocks_root):
    return h(2, counted(name.encode()), counted(dtype.encode()), number(len(shape)), *map(number, shape), blocks_root)


def weights(tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    leaves = [tensor(n, d, s, tree(blocks_of(b))) for n, (d, s, b) in sorted(tensors.items(), key=lambda t: t[0].encode())]
    return h(3, number(len(leaves)), tree(leaves))


def parts(document):
    """Of the JSON of a program: the hashes of graph, signature and the rest."""
    module = document["graph_module"]
    graph, signature = module.pop("graph"), module.pop("signature")
    texts = {"graph": graph, "signature": signature, "rest": document}
    return {k: h(4, counted(k.encode()), counted(json.dumps(v, sort_keys=True, separators=(",", ":")).encode())) for k, v in texts.items()}


def program(weights_hash, of):
    return h(5, weights_hash, of["graph"], of["signature"], of["rest"])


# ---- and its proofs ---------------------------------------------------------------------------------


def climb(at, count, first, leaves, beside):
    if at + count <= first or at >= first + len(leaves):
        return bytes.fromhex(beside.pop(0))
    if count == 1:
        return leaves[at - first]
    left = 1 << (count - 1).bit_length() - 1
    a = climb(at, left, first, leaves, beside)
    return h(1, a, climb(at + left, count - left, first, leaves, beside))


def root_of_proof(proof, dtype, shape, data):
    first, end = proof["rows"]
    rows = shape[0] if shape else 1
    row = len(data) // max(rows, 1)
    begin, last, count = first * row // BLOCK, -(-(end or rows) * row // BLOCK), -(-len(data) // BLOCK)
    root = climb(0, count, begin, blocks_of(data)[begin:last], list(proof["blocks"])) if count else tree([])
    made = tensor(proof["tensor"], dtype, shape, root)
    made = h(3, number(proof["count"]), climb(0, proof["count"], proof["index"], [made], list(proof["tensors"])))
    return program(made, {k: bytes.fromhex(v) for k, v in proof["program"].items()}) if proof["program"] else made


# ---- files ------------------------------------------------------------------------------------------


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {n: (NAMES[t["dtype"]], t["shape"], data[8 + size + t["data_offsets"][0] : 8 + size + t["data_offsets"][1]]) for n, t in header.items()}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(d for _, _, d in tensors.values()))


def exg(*words, code=0):
    done = subprocess.run([EXG, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def digest(path):
    return exg("digest", path).split("\n")[0]


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}, not {wanted}")


def check_weights(path):
    check(path, digest(path), "sha256:" + weights(read_safetensors(path)).hex())


def check_program(path, folder):
    exg("convert", path, folder / "w.safetensors")
    with zipfile.ZipFile(ROOT / path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        of = parts(json.loads(archive.read(name)))
    made = {"weights": weights(read_safetensors(folder / "w.safetensors")), **of}
    made["digest"] = program(made["weights"], of)
    for end in ("pt2", "exg", "json"):
        exg("convert", path, folder / f"p.{end}")
        said = json.loads(exg("digest", folder / f"p.{end}", "--json"))
        said.pop("format")
        check(f"{path} as .{end}", said, {k: "sha256:" + v.hex() for k, v in made.items()})
    return "sha256:" + made["digest"].hex()


def check_proof(path, tensors, root, folder, name, rows=None):
    words = ["--rows", f"{rows[0]}:{rows[1]}"] if rows else []
    proof = json.loads(exg("digest", path, "--proof", name, *words))
    check(f"{path} {name} {rows}", "sha256:" + root_of_proof(proof, *tensors[name]).hex(), root)
    (folder / "proof.json").write_text(json.dumps(proof))
    write_safetensors(folder / "part.safetensors", {name: (next(k for k, v in NAMES.items() if v == tensors[name][0]), *tensors[name][1:])})
    for file in (path, folder / "part.safetensors"):
        exg("digest", file, "--check-proof", folder / "proof.json", "--root", root)
    return proof


def worse(proof):
    """The proof with one thing changed, in every way."""
    for key, value in proof.items():
        yield {k: v for k, v in proof.items() if k != key}
        for other in (value + 1, -1, 2**63 - 1, "1") if isinstance(value, int) else ("", None, [], {}) if isinstance(value, str) else ():
            yield proof | {key: other}
        if isinstance(value, list):
            yield proof | {key: value + value[-1:] if value else ["00" * 32]}
            for i, item in enumerate(value if key != "rows" else ()):  # fewer rows of the same blocks are proved, too
                yield proof | {key: value[:i] + value[i + 1 :]}
                yield proof | {key: value[:i] + [item + 1 if isinstance(item, int) else "%064x" % (int(item, 16) ^ 1)] + value[i + 1 :]}
        if isinstance(value, dict):
            yield proof | {key: None}
            for k in value:
                yield proof | {key: value | {k: "ab" * 32}}


def check_worse(path, proof, root, folder):
    count = 0
    for made in worse(proof):
        (folder / "worse.json").write_text(json.dumps(made))
        done = subprocess.run([EXG, "digest", path, "--check-proof", folder / "worse.json", "--root", root], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2, 4) and "PRF-" in done.stderr, (made, done)
        count += 1
    return count


def main():
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in ("fixtures/many.inputs.safetensors", "fixtures/mlp.expected.safetensors", "fixtures/integer.inputs.safetensors"):
            check_weights(path)
        big = {f"t{i}": ("F16", [size, 7], random.randbytes(14 * size)) for i, size in enumerate((0, 1, BLOCK // 14, BLOCK // 14 + 1, 300000, 5))}
        big["é"] = ("I64", [], random.randbytes(8))
        write_safetensors(folder / "big.safetensors", big)
        path, tensors = folder / "big.safetensors", read_safetensors(folder / "big.safetensors")
        check_weights(path)
        root = digest(path)
        for one in tensors:
            check_proof(path, tensors, root, folder, one)
        for rows in ((0, 1), (299999, 300000), (0, 300000), (74898, 74899), (100000, 200000)):
            proof = check_proof(path, tensors, root, folder, "t4", rows)
        count = check_worse(path, proof, root, folder)
        # the rows that are proved, and no others: a byte is another one
        for at, code in ((150000 * 14, 1), (0, 0), (len(big["t4"][2]) - 1, 0)):
            data = bytearray(big["t4"][2])
            data[at] ^= 1
            write_safetensors(folder / "other.safetensors", {"t4": ("F16", [300000, 7], bytes(data))})
            (folder / "proof.json").write_text(json.dumps(proof))
            exg("digest", folder / "other.safetensors", "--check-proof", folder / "proof.json", "--root", root, code=code)
        for path in ("fixtures/mlp.pt2", "fixtures/lm.core.dynamic.pt2", "fixtures/branch.pt2", "fixtures/constants.pt2", "fixtures/regression.joint.pt2"):
            root = check_program(path, folder)
        root = check_program("fixtures/mlp.pt2", folder)
        exg("convert", "fixtures/mlp.pt2", folder / "w.safetensors")
        tensors = read_safetensors(folder / "w.safetensors")
        proof = check_proof("fixtures/mlp.pt2", tensors, root, folder, "up.weight", (3, 5))
        count += check_worse("fixtures/mlp.pt2", proof, root, folder)
        print(f"{count} proofs made worse, none was taken")


if __name__ == "__main__":
    main()
