"""What convert changes of weights, compared with what PyTorch makes of the same tensors."""

import argparse
import json
import pathlib
import shutil
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
    "f8_e4m3": torch.float8_e4m3fn, "F8_e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
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


def check_shards(convert, folder):
    """A model of Hugging Face as the files of ranks: Llama as fairscale's layers split it, GPT as transformers gives it to Megatron-LM."""
    dim, heads, kv_heads, head, hidden, words = 32, 8, 4, 4, 40, 96

    def shards(source, preset, name, ranks, *more, code=0):
        done = subprocess.run([convert.exg, "convert", source, folder / "shards" / name, "--preset", preset, "--shard", str(ranks), *more], capture_output=True, text=True)
        assert done.returncode == code, done
        if code != 0:
            return done.stderr
        files = sorted((folder / "shards").iterdir())
        assert [f.name for f in files] == [name.replace("{rank}", f"0{rank}") for rank in range(ranks)], files
        load = torch.load if name.endswith(("pt", "pth")) else safetensors.torch.load_file
        parts = [load(f) for f in files]
        shutil.rmtree(folder / "shards")
        return parts

    def same(got, want):
        assert got.keys() == want.keys(), got.keys() ^ want.keys()
        assert all(torch.equal(got[name], want[name]) for name in want), [name for name in want if not torch.equal(got[name], want[name])]

    def unpermute(w, n):
        return w.view(n, 2, w.shape[0] // n // 2, dim).transpose(1, 2).reshape(w.shape)

    torch.manual_seed(3)
    sizes = {"self_attn.q_proj": (dim, dim), "self_attn.k_proj": (kv_heads * head, dim), "self_attn.v_proj": (kv_heads * head, dim), "self_attn.o_proj": (dim, dim),
             "mlp.gate_proj": (hidden, dim), "mlp.down_proj": (dim, hidden), "mlp.up_proj": (hidden, dim), "input_layernorm": (dim,), "post_attention_layernorm": (dim,)}  # fmt: skip
    llama = {f"model.layers.{i}.{name}.weight": torch.randn(size).bfloat16() for i in range(2) for name, size in sizes.items()}
    llama |= {"model.embed_tokens.weight": torch.randn(words, dim), "model.norm.weight": torch.randn(dim), "lm_head.weight": torch.randn(words, dim)}
    safetensors.torch.save_file(llama, folder / "llama.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": heads, "num_key_value_heads": kv_heads}))
    count = 0
    for ranks, llama3 in ((1, False), (2, False), (4, True)):
        got = shards(folder / "llama.safetensors", "hf-to-llama", "consolidated.{rank}.pth", ranks, *(("--set", "llama3=1") if llama3 else ()))
        for rank, parts in enumerate(got):
            want = {"norm.weight": llama["model.norm.weight"], "output.weight": llama["lm_head.weight"].chunk(ranks)[rank],
                    "tok_embeddings.weight": llama["model.embed_tokens.weight"].chunk(ranks, 0 if llama3 else 1)[rank]}  # fmt: skip
            for i in range(2):
                layer = {name: llama[f"model.layers.{i}.{name}.weight"] for name in sizes}
                column = {"attention.wq": unpermute(layer["self_attn.q_proj"], heads), "attention.wk": unpermute(layer["self_attn.k_proj"], kv_heads),
                          "attention.wv": layer["self_attn.v_proj"], "feed_forward.w1": layer["mlp.gate_proj"], "feed_forward.w3": layer["mlp.up_proj"]}  # fmt: skip
                row = {"attention.wo": layer["self_attn.o_proj"], "feed_forward.w2": layer["mlp.down_proj"]}
                norms = {"attention_norm": layer["input_layernorm"], "ffn_norm": layer["post_attention_layernorm"]}
                made = {k: v.chunk(ranks)[rank] for k, v in column.items()} | {k: v.chunk(ranks, 1)[rank] for k, v in row.items()} | norms
                want |= {f"layers.{i}.{name}.weight": tensor for name, tensor in made.items()}
            same(parts, want)
            torch.save(parts, folder / f"consolidated.0{rank}.pth")
        merged = [word for rank in range(1, ranks) for word in ("--merge", folder / f"consolidated.0{rank}.pth")]
        same(convert("consolidated.00.pth", *merged, "--preset", "llama-to-hf"), llama)
        count += 1
    got = shards(folder / "llama.safetensors", "hf-to-llama", "tp.{rank}.safetensors", 2, "--dtype", "f16", "--select", "*.0.*")
    same(got[1], {k: v.half() for k, v in shards(folder / "llama.safetensors", "hf-to-llama", "tp.{rank}.pt", 2)[1].items() if ".0." in k})
    assert "8 heads, which are not 3 equal parts" in shards(folder / "llama.safetensors", "hf-to-llama", "tp.{rank}.pt", 3, "--select", "*q_proj*", code=2)
    assert "how ranks share it" in shards(folder / "llama.safetensors", "hf-to-gguf-llama", "tp.{rank}.pt", 2, code=2)
    assert "FOLDER/consolidated.{rank}.pth" in shards(folder / "llama.safetensors", "hf-to-llama", "", 2, code=2)
    assert not (folder / "shards").exists() and not (folder / "shards.part").exists()

    width, words, positions = 24, 300, torch.randn(9, 24)
    gpt = {"transformer.wte.weight": torch.randn(words, width), "transformer.wpe.weight": positions}
    for kind in ("weight", "bias"):
        gpt[f"transformer.ln_f.{kind}"] = torch.randn(width)
        for name, inner, outer in (("ln_1", width, 1), ("attn.c_attn", width, 3), ("attn.c_proj", width, 1), ("ln_2", width, 1), ("mlp.c_fc", width, 4), ("mlp.c_proj", 4 * width, 1 / 4)):
            shape = (inner, int(inner * outer)) if kind == "weight" and not name.startswith("ln") else (int(inner * outer),)
            gpt[f"transformer.h.0.{name}.{kind}"] = torch.randn(shape)
    safetensors.torch.save_file(gpt, folder / "gpt.safetensors")
    (folder / "config.json").write_text(json.dumps({"n_head": 4, "vocab_size": words}))

    def ordered(param):  # transformers_to_megatron_fix_query_key_value_ordering of checkpoint version 2.0
        return param.view(3, 4, width // 4, *param.shape[1:]).transpose(0, 1).contiguous().view(param.shape)

    for ranks in (1, 2, 4):
        parts = shards(folder / "gpt.safetensors", "hf-to-megatron-gpt", "mp_rank_{rank}.pt", ranks)
        total = -(-words // (128 * ranks)) * 128 * ranks
        padded = torch.cat([gpt["transformer.wte.weight"], gpt["transformer.wte.weight"][-1:].expand(total - words, -1)])
        for rank, got in enumerate(parts):
            model, layer = "model.language_model.", "model.language_model.encoder.layers.0."
            want = {f"{model}embedding.word_embeddings.weight": padded.chunk(ranks)[rank], f"{model}embedding.position_embeddings.weight": positions}
            for kind in ("weight", "bias"):
                of = {name: gpt[f"transformer.h.0.{name}.{kind}"] for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")}
                turned = {name: tensor.t() if tensor.ndim == 2 else tensor for name, tensor in of.items()}
                want |= {f"{model}encoder.final_layernorm.{kind}": gpt[f"transformer.ln_f.{kind}"], f"{layer}input_layernorm.{kind}": of["ln_1"],
                         f"{layer}post_attention_layernorm.{kind}": of["ln_2"],
                         f"{layer}self_attention.query_key_value.{kind}": ordered(turned["attn.c_attn"].contiguous()).chunk(ranks)[rank],
                         f"{layer}mlp.dense_h_to_4h.{kind}": turned["mlp.c_fc"].chunk(ranks)[rank]}  # fmt: skip
                for theirs, ours in (("attn.c_proj", "self_attention.dense"), ("mlp.c_proj", "mlp.dense_4h_to_h")):
                    want[f"{layer}{ours}.{kind}"] = turned[theirs].chunk(ranks, 1)[rank] if kind == "weight" else turned[theirs]
            same(got, want)
            torch.save(got, folder / f"rank{rank}.pt")
        merged = [word for rank in range(1, ranks) for word in ("--merge", folder / f"rank{rank}.pt")]
        same(convert("rank0.pt", *merged, "--preset", "megatron-gpt-to-hf", "--set", f"vocab_size={words}"), gpt)
        count += 1
    (folder / "config.json").unlink()
    return count


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
                      check_llama_ranks, check_megatron_ranks, check_shards):  # fmt: skip
            try:
                passed += check(convert, folder)
            except Exception as error:  # noqa: BLE001 - every fault is told
                print(f"FAIL edit: {check.__name__}: {type(error).__name__}: {error}")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
