"""What convert changes of weights, compared with what PyTorch makes of the same tensors."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import safetensors
    import safetensors.torch
    import torch
except ImportError as error:
    print(f"FAIL edit: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)

# As --dtype takes them.
DTYPES = {
    "f16": torch.float16, "bfloat16": torch.bfloat16, "F32": torch.float32, "f64": torch.float64,
    "f8_e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz, "f8e5m2fnuz": torch.float8_e5m2fnuz,
}  # fmt: skip
SOURCES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)


def numbers(dtype):
    """All of a narrow dtype; of a wide one what is hard to round."""
    if dtype.itemsize == 1:
        return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)
    if dtype.itemsize == 2:
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    random = torch.Generator().manual_seed(3)
    spread = torch.randn(200000, generator=random, dtype=torch.float64) * torch.exp2(
        torch.randint(-40, 40, (200000,), generator=random).double())
    halves = torch.arange(-4096, 4096).double() / 16 * (1 + 2.0**-9)
    hard = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 65504, 65519.99, 65520, 448, 464, 465,
                         57344, 61439, 61440, 3.4e38, 2.0**-24, 2.0**-25, 2.0**-149, 240, 248])  # fmt: skip
    return torch.cat([spread, halves, hard.double()]).to(dtype)


def check_casts(convert, folder):
    source = {str(dtype)[6:]: numbers(dtype) for dtype in SOURCES}
    source |= {"ids": torch.tensor([0, 1, -7, 2**24 + 1, 2**40 + 2**16 + 1]), "flags": torch.tensor([True, False])}
    safetensors.torch.save_file(source, folder / "all.safetensors")
    count = 0
    for name, dtype in DTYPES.items():
        got = convert("all.safetensors", "--dtype", name, "--dtype", f"ids={name}")
        for key, tensor in source.items():
            want = tensor.to(dtype) if tensor.is_floating_point() or key == "ids" else tensor
            nan = want.double().isnan() if want.is_floating_point() else torch.zeros(want.shape, dtype=torch.bool)
            assert got[key].dtype == want.dtype, (key, name, got[key].dtype)
            if want.is_floating_point():
                assert torch.equal(got[key].double().isnan(), nan), f"{key} to {name}: NaN elsewhere"
            differ = (got[key].view(torch.uint8).reshape(*want.shape, -1) != want.view(torch.uint8).reshape(*want.shape, -1)).any(-1) & ~nan
            assert not differ.any(), f"{key} to {name}: {tensor[differ][:3]} gave {got[key][differ][:3]}, not {want[differ][:3]}"
            count += 1
    return count


def check_views(convert, folder):
    """Strided, tied and transposed ones of a checkpoint."""
    base = torch.randn(64, 48, generator=torch.Generator().manual_seed(1))
    source = {"base": base, "turned": base.t(), "corner": base[3:9, 5:20:2], "tied": base}
    torch.save({"state_dict": source, "optimizer": {"m": torch.zeros(3)}, "epoch": 3}, folder / "views.pt")
    got = convert("views.pt", "--model-only", "--dtype", "f16", "--transpose", "*.corner")
    assert sorted(got) == sorted(source), sorted(got)
    for key, tensor in source.items():
        assert torch.equal(got[key], (tensor.t() if key == "corner" else tensor).half()), key
    got = convert("views.pt", "--model-only", "--deduplicate")
    assert sorted(got) == ["base", "corner", "turned"], sorted(got)
    with safetensors.safe_open(folder / "out.safetensors", "pt") as file:
        assert file.metadata()["tied"] == "base", file.metadata()
    module = torch.nn.Module()
    module.base = module.tied = torch.nn.Parameter(torch.zeros(64, 48))
    module.corner, module.turned = (torch.nn.Parameter(torch.zeros(t.shape)) for t in (source["corner"], source["turned"]))
    safetensors.torch.load_model(module, folder / "out.safetensors")  # its own convention, strict
    assert torch.equal(module.tied, base)
    return 3


def check_diff(convert, folder):
    """What differs between two files of weights, of whatever formats, in PyTorch's numbers."""
    draw = torch.Generator().manual_seed(7)
    a = {"same": torch.randn(5, 5, generator=draw), "moved": torch.randn(40, 3, generator=draw), "rounded": torch.randn(9, 7, generator=draw),
         "off": torch.randn(6, 6, generator=draw), "gone": torch.ones(2), "ids": torch.arange(5), "flat": torch.randn(12, generator=draw),
         "drift": torch.randn(1000, generator=draw)}  # fmt: skip
    b = {"same": a["same"], "new.moved": a["moved"], "rounded": a["rounded"].bfloat16(), "off": a["off"].half(), "extra": torch.zeros(3),
         "ids": torch.arange(5) + 1, "flat": a["flat"].reshape(3, 4), "drift": a["drift"] + 1e-3 * torch.randn(1000, generator=draw)}  # fmt: skip
    b["off"][2, 3] += 1
    safetensors.torch.save_file(a, folder / "a.safetensors")
    torch.save(b, folder / "b.pt")
    done = subprocess.run([convert.exg, "diff", folder / "a.safetensors", folder / "b.pt", "--json"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    found = {(d["kind"], d["a"], d["b"]): d for d in json.loads(done.stdout)["differences"]}
    assert set(found) == {("renamed", "moved", "new.moved"), ("cast", "rounded", "rounded"), ("changed", "off", "off"), ("removed", "gone", None),
                          ("added", None, "extra"), ("changed", "ids", "ids"), ("reshaped", "flat", "flat"), ("changed", "drift", "drift")}, set(found)  # fmt: skip
    drift, off = found["changed", "drift", "drift"], found["changed", "off", "off"]
    x, y = a["drift"].double(), b["drift"].double()
    assert drift["differing"] == (x != y).sum() and drift["total"] == 1000
    assert abs(drift["max_abs"] - (x - y).abs().max()) < 1e-12 and abs(drift["max_rel"] - ((x - y) / x).abs().max()) < 1e-9
    assert abs(drift["cosine"] - torch.nn.functional.cosine_similarity(x, y, dim=0)) < 1e-12, drift
    assert off["differing"] == 1 and off["total"] == 36, off
    assert abs(off["max_abs"] - (a["off"].half().double() - b["off"].double()).abs().max()) < 1e-12, off
    for words in (("a.safetensors", "a.safetensors"), ("b.pt", "b.pt")):
        assert subprocess.run([convert.exg, "diff", *(folder / w for w in words)], capture_output=True).returncode == 0
    module = torch.nn.Linear(3, 2)
    torch.export.save(torch.export.export(module, (torch.ones(1, 3),)), folder / "m.pt2")
    safetensors.torch.save_file(module.state_dict(), folder / "m.safetensors")
    assert subprocess.run([convert.exg, "diff", folder / "m.pt2", folder / "m.safetensors"], capture_output=True).returncode == 0
    return 4


def check_verify(convert, folder):
    """Shares of NaN, infinities, zeros and denormal numbers as PyTorch counts them; weights for a program; several files."""
    random = torch.Generator().manual_seed(11)
    count = 0
    for dtype, tiny in ((torch.float32, 2.0**-140), (torch.float16, 2.0**-20), (torch.bfloat16, 2.0**-130), (torch.float64, 2.0**-1070)):
        x = torch.randn(20000, generator=random).to(dtype)
        x[torch.randint(0, 20000, (900,), generator=random)] = tiny
        x[torch.randint(0, 20000, (70,), generator=random)] = float("nan")
        x[torch.randint(0, 20000, (50,), generator=random)] = float("-inf")
        safetensors.torch.save_file({"x": x, "zero": torch.zeros(7, dtype=dtype)}, folder / "v.safetensors")
        done = subprocess.run([convert.exg, "verify", folder / "v.safetensors", "--values", "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = {d["code"]: d["message"] for d in json.loads(done.stdout)["diagnostics"]}
        denormal = ((x != 0) & (x.abs() < torch.finfo(dtype).smallest_normal)).sum()
        assert found == {
            "WGT-020": f"of 20000 elements {x.isnan().sum()} are NaN and {x.isinf().sum()} infinite",
            "WGT-021": "all 7 elements are 0", "WGT-022": f"of 20000 elements {denormal} are denormal"}, found  # fmt: skip
        count += 1
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    torch.export.save(torch.export.export(module, (torch.ones(1, 3),)), folder / "m.pt2")
    state = dict(module.state_dict())
    safetensors.torch.save_file(state, folder / "good.safetensors")
    safetensors.torch.save_file({"0.weight": state["0.weight"].t().contiguous(), "1.weight": state["1.weight"].half(), "1.bias": state["1.bias"], "more": torch.ones(1)}, folder / "bad.safetensors")
    done = subprocess.run([convert.exg, "verify", folder / "good.safetensors", folder / "bad.safetensors", "--for", folder / "m.pt2", "--json"], capture_output=True, text=True)
    good, bad = json.loads(done.stdout)["files"]
    assert done.returncode == 4 and good["errors"] == 0, done
    assert [(d["code"], d["where"]) for d in bad["diagnostics"] if d["code"] < "WGT-019"] == [
        ("WGT-017", 'weights["0.weight"]'), ("WGT-017", 'weights["0.bias"]'), ("WGT-017", 'weights["1.weight"]'), ("WGT-018", 'weights["more"]')], bad  # fmt: skip
    return count + 1


def check_inspect(convert, folder):
    """Sums by dtype, parameters once, modules, and statistics, as PyTorch has them."""
    random = torch.Generator().manual_seed(13)
    base = torch.randn(30, 20, generator=random)
    source = {"enc.0.weight": base, "enc.1.weight": torch.randn(7, 5, generator=random).bfloat16(), "tied": base, "steps": torch.arange(9)}
    torch.save(source, folder / "i.pt")
    shown = json.loads(subprocess.run([convert.exg, "inspect", folder / "i.pt", "--values", "--json"], capture_output=True, text=True).stdout)
    assert shown["parameters"] == 30 * 20 + 35, shown["parameters"]
    assert [(d["name"], d["tensors"], d["elements"], d["bytes"]) for d in shown["dtypes"]] == [("f32", 1, 600, 2400), ("i64", 1, 9, 72), ("bf16", 1, 35, 70)]
    for tensor in shown["tensors"]:
        want, got = source[tensor["name"]].double(), tensor["statistics"]
        assert got["min"] == want.min() and got["max"] == want.max() and got["nan"] == 0, tensor
        assert abs(got["mean"] - want.mean()) < 1e-12 and abs(got["deviation"] - want.std(correction=0)) < 1e-9, tensor
    tree = json.loads(subprocess.run([convert.exg, "inspect", folder / "i.pt", "--tree", "--json"], capture_output=True, text=True).stdout)
    assert {m["path"]: (m["parameters"], m["buffers"]) for m in tree["modules"]} == {"": (635, 9), "enc": (635, 0), "enc.0": (600, 0), "enc.1": (35, 0)}, tree
    return 3


def check_weights_from(convert, folder):
    """Weights of checkpoints, with prefixes and in other dtypes, in an exported program: it computes what the module does."""
    def module(seed):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))

    def run(*words, code=0):
        done = subprocess.run([convert.exg, "repack", folder / "m.pt2", folder / "o.pt2", *map(str, words)], capture_output=True, text=True)
        assert done.returncode == code, done
        return torch.export.load(folder / "o.pt2").module() if code == 0 else done.stderr

    x, tuned = torch.randn(1, 3), module(5)
    torch.export.save(torch.export.export(module(1), (x,)), folder / "m.pt2")
    torch.save({"state_dict": {f"module.{k}": v for k, v in tuned.state_dict().items()}, "optimizer": {"m": x}}, folder / "l.ckpt")
    assert "--prefix-strip state_dict.module." in run("--weights-from", folder / "l.ckpt", code=1)
    got = run("--weights-from", folder / "l.ckpt", "--model-only", "--prefix-strip", "module.")
    assert torch.equal(got(x), tuned(x))
    safetensors.torch.save_file({k: v.bfloat16() for k, v in tuned.state_dict().items()}, folder / "h.safetensors")
    rounded = module(5)
    rounded.load_state_dict({k: v.bfloat16().float() for k, v in tuned.state_dict().items()})
    assert torch.equal(run("--weights-from", folder / "h.safetensors", "--dtype", "f32")(x), rounded(x))
    safetensors.torch.save_file({k: v for k, v in tuned.state_dict().items() if k.startswith("2.")}, folder / "part.safetensors")
    mixed = module(1)
    mixed[2].load_state_dict(tuned[2].state_dict())
    assert "WGT-FILL" in run("--weights-from", folder / "part.safetensors", code=1)
    assert torch.equal(run("--weights-from", folder / "part.safetensors", "--partial")(x), mixed(x))
    return 3


def check_ranks(convert, folder):
    """A Llama in as many files as ranks, as Meta gives it, is the one that it was cut from."""
    torch.manual_seed(0)
    whole = {"tok_embeddings.weight": torch.randn(40, 16), "norm.weight": torch.randn(16), "output.weight": torch.randn(40, 16).bfloat16()}
    for layer in ("layers.0.", "layers.1."):
        for name, rows, columns in (("attention.wq", 16, 16), ("attention.wk", 8, 16), ("attention.wv", 8, 16), ("attention.wo", 16, 16),
                                    ("feed_forward.w1", 24, 16), ("feed_forward.w2", 16, 24), ("feed_forward.w3", 24, 16)):  # fmt: skip
            whole[f"{layer}{name}.weight"] = torch.randn(rows, columns)
        whole |= {f"{layer}{name}.weight": torch.randn(16) for name in ("attention_norm", "ffn_norm")}
    columns = [name for name in whole if any(part in name for part in (".wo.", ".w2.", "tok_"))]
    words = [word for name in ("*.w[qkv13].weight=0", "output.weight=0", "*.w[o2].weight=-1", "tok_*=1") for word in ("--concat", name)]
    for ranks in (2, 4):
        for rank in range(ranks):
            parts = {k: v if "norm" in k else v.chunk(ranks, 1 if k in columns else 0)[rank].clone() for k, v in whole.items()}
            torch.save(parts, folder / f"consolidated.0{rank}.pth")
        others = [word for rank in range(1, ranks) for word in ("--merge", folder / f"consolidated.0{rank}.pth")]
        got = convert("consolidated.00.pth", *others, *words)
        assert got.keys() == whole.keys()
        assert all(torch.equal(got[name], whole[name]) for name in whole)
    return 2


def check_llama_ranks(convert, folder):
    """Ranks of a Llama by the preset alone, as transformers' convert_llama_weights_to_hf puts them together."""
    dim, heads, kv_heads, head, hidden = 32, 8, 4, 4, 40

    def permute(w, n, rows):
        return w.view(n, rows // n // 2, 2, dim).transpose(1, 2).reshape(rows, dim)

    (folder / "params.json").write_text(json.dumps({"n_heads": heads, "n_kv_heads": kv_heads}))
    torch.manual_seed(1)
    for ranks, llama3 in ((2, False), (4, True), (4, False)):
        def draw(rows, columns):
            return [torch.randn(rows, columns) for _ in range(ranks)]

        layer = {"attention.wq": draw(heads // ranks * head, dim), "attention.wk": draw(kv_heads // ranks * head, dim), "attention.wv": draw(kv_heads // ranks * head, dim),
                 "attention.wo": draw(dim, heads // ranks * head), "feed_forward.w1": draw(hidden // ranks, dim), "feed_forward.w2": draw(dim, hidden // ranks),
                 "feed_forward.w3": draw(hidden // ranks, dim)}  # fmt: skip
        tokens = draw(96 // ranks, dim) if llama3 else draw(96, dim // ranks)
        output, norm = draw(96 // ranks, dim), torch.randn(dim)
        for rank in range(ranks):
            parts = {f"layers.0.{name}.weight": part[rank] for name, part in layer.items()}
            parts |= {"tok_embeddings.weight": tokens[rank], "output.weight": output[rank], "norm.weight": norm, "layers.0.ffn_norm.weight": norm + 1,
                      "layers.0.attention_norm.weight": norm + 2, "rope.freqs": torch.ones(2) * rank}  # fmt: skip
            torch.save(parts, folder / f"consolidated.0{rank}.pth")
        got = convert("consolidated.00.pth", *(word for rank in range(1, ranks) for word in ("--merge", folder / f"consolidated.0{rank}.pth")), "--preset", "llama-to-hf")
        names = {"self_attn.q_proj": permute(torch.cat(layer["attention.wq"]), heads, dim), "self_attn.k_proj": permute(torch.cat(layer["attention.wk"]), kv_heads, kv_heads * head),
                 "self_attn.v_proj": torch.cat(layer["attention.wv"]), "self_attn.o_proj": torch.cat(layer["attention.wo"], 1), "mlp.gate_proj": torch.cat(layer["feed_forward.w1"]),
                 "mlp.down_proj": torch.cat(layer["feed_forward.w2"], 1), "mlp.up_proj": torch.cat(layer["feed_forward.w3"]),
                 "input_layernorm": norm + 2, "post_attention_layernorm": norm + 1}  # fmt: skip
        want = {f"model.layers.0.{name}.weight": tensor for name, tensor in names.items()}
        want |= {"model.embed_tokens.weight": torch.cat(tokens, 0 if llama3 else 1), "lm_head.weight": torch.cat(output), "model.norm.weight": norm}
        assert got.keys() == want.keys(), got.keys() ^ want.keys()
        assert all(torch.equal(got[name], want[name]) for name in want)
    torch.save(parts | {"norm.weight": norm + 3}, folder / "consolidated.03.pth")  # a rank of another model
    done = subprocess.run([convert.exg, "convert", folder / "consolidated.00.pth", folder / "no.safetensors", "--merge", folder / "consolidated.03.pth", "--preset", "llama-to-hf"], capture_output=True, text=True)
    assert done.returncode == 2 and "WGT-NAME" in done.stderr and not (folder / "no.safetensors").exists(), done
    (folder / "params.json").unlink()
    return 4


def check_megatron_ranks(convert, folder):
    """Tensor parallel ranks of Megatron-LM by the preset alone, as transformers merges and converts them."""
    hidden, heads, ranks, words = 24, 4, 2, 20

    def draw(*sizes):
        return [torch.randn(*sizes) for _ in range(ranks)]

    torch.manual_seed(2)
    layer = {"self_attention.query_key_value.weight": draw(3 * hidden // ranks, hidden), "self_attention.query_key_value.bias": draw(3 * hidden // ranks),
             "self_attention.dense.weight": draw(hidden, hidden // ranks), "mlp.dense_h_to_4h.weight": draw(4 * hidden // ranks, hidden),
             "mlp.dense_h_to_4h.bias": draw(4 * hidden // ranks), "mlp.dense_4h_to_h.weight": draw(hidden, 4 * hidden // ranks)}  # fmt: skip
    same = {name: torch.randn(hidden) for name in ("self_attention.dense.bias", "mlp.dense_4h_to_h.bias", "input_layernorm.weight", "input_layernorm.bias",
                                                   "post_attention_layernorm.weight", "post_attention_layernorm.bias")}  # fmt: skip
    embedding, positions, final = draw(words // ranks, hidden), torch.randn(9, hidden), torch.randn(hidden)
    for rank in range(ranks):
        encoder = {f"layers.0.{name}": part[rank] for name, part in layer.items()} | {f"layers.0.{name}": part for name, part in same.items()}
        encoder |= {"final_layernorm.weight": final, "final_layernorm.bias": final + 1}
        model = {"language_model": {"embedding": {"word_embeddings": {"weight": embedding[rank]}, "position_embeddings": {"weight": positions}}, "encoder": encoder}}
        torch.save({"model": model, "checkpoint_version": 3.0, "iteration": 7, "rng_state": [{"cuda": torch.ByteTensor([rank] * 8)}],
                    "optimizer": {"state": {0: {"exp_avg": torch.randn(5)}}}}, folder / f"rank{rank}.pt")  # fmt: skip
    got = convert("rank0.pt", "--merge", folder / "rank1.pt", "--preset", "megatron-gpt-to-hf", "--set", f"heads={heads}", "--set", "vocab_size=17", "--prefix-strip", "model.", "--select", "model.*")
    again = convert("rank0.pt", "--merge", folder / "rank1.pt", "--preset", "megatron-gpt-to-hf", "--set", f"heads={heads}", "--set", "vocab_size=17")

    def ordered(param):  # fix_query_key_value_ordering
        shape = param.shape
        return param.view(heads, 3, hidden // heads, *shape[1:]).transpose(0, 1).contiguous().view(shape)

    parts = {name: torch.cat(part, 1 if name in ("self_attention.dense.weight", "mlp.dense_4h_to_h.weight") else 0) for name, part in layer.items()} | same
    want = {"attn.c_attn.weight": ordered(parts["self_attention.query_key_value.weight"]).t(), "attn.c_attn.bias": ordered(parts["self_attention.query_key_value.bias"])}
    for theirs, ours in (("self_attention.dense", "attn.c_proj"), ("mlp.dense_h_to_4h", "mlp.c_fc"), ("mlp.dense_4h_to_h", "mlp.c_proj")):
        want |= {f"{ours}.weight": parts[f"{theirs}.weight"].t(), f"{ours}.bias": parts[f"{theirs}.bias"]}
    for theirs, ours in (("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2")):
        want |= {f"{ours}.{kind}": parts[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
    want = {f"transformer.h.0.{name}": tensor for name, tensor in want.items()}
    want |= {"transformer.wte.weight": torch.cat(embedding)[:17], "transformer.wpe.weight": positions, "transformer.ln_f.weight": final, "transformer.ln_f.bias": final + 1}
    assert got.keys() == want.keys(), got.keys() ^ want.keys()
    for made in (got, again):
        assert all(torch.equal(made[name], want[name]) for name in want)
    assert not any("rng_state" in name or "exp_avg" in name for name in again), again.keys()
    return 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", type=pathlib.Path, required=True)
    exg = parser.parse_args().exg.resolve()
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def convert(file, *words):
            done = subprocess.run([exg, "convert", folder / file, folder / "out.safetensors", *words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return safetensors.torch.load_file(folder / "out.safetensors")

        convert.exg = exg
        for check in (check_casts, check_views, check_diff, check_verify, check_inspect, check_weights_from, check_ranks,
                      check_llama_ranks, check_megatron_ranks):  # fmt: skip
            try:
                passed += check(convert, folder)
            except Exception as error:  # noqa: BLE001 - every fault is told
                print(f"FAIL edit: {check.__name__}: {type(error).__name__}: {error}")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
