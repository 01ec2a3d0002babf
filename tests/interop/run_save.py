"""What convert writes of weights, read by the readers of each format's own makers; stopped and gone on with, split, replaced."""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy
    import safetensors
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
except ImportError as error:
    print(f"FAIL save: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)
try:
    import gguf

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures/weights"))
    import make_blocks
except ImportError:
    gguf = None


def tensors(dtypes, seed=0):
    draw = torch.Generator().manual_seed(seed)

    def of(dtype, *shape):
        bits = torch.randint(0, 256, (*shape, dtype.itemsize), dtype=torch.uint8, generator=draw)
        return (bits[..., 0] > 99) if dtype is torch.bool else bits.view(dtype).reshape(shape)

    made = {f"of.{str(dtype)[6:]}": of(dtype, 3, 5) for dtype in dtypes}
    return made | {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 7), "large": of(torch.float32, 1100, 1024)}


def same(got, want):
    assert sorted(got) == sorted(want), (sorted(got)[:5], sorted(want)[:5])
    for name, a in got.items():
        b = want[name].contiguous()
        assert a.dtype == b.dtype and a.shape == b.shape, (name, a.dtype, b.dtype, a.shape, b.shape)
        assert torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)), f"{name}: other bits"


def sizes(folder):
    """Of files that are not whole; another process renames them meanwhile."""
    for path in folder.glob("*.part"):
        try:
            yield os.path.getsize(path)
        except FileNotFoundError:
            yield 0


class Save:
    def __init__(self, exg, folder):
        self.exg, self.folder = exg, folder

    def call(self, *words, code=0, **given):
        done = subprocess.run([self.exg, *map(str, words)], capture_output=True, text=True, **given)
        assert done.returncode == code, (words, done.returncode, done.stderr)
        return done

    def convert(self, source, name, *words, code=0):
        return self.call("convert", self.folder / source, self.folder / name, *words, code=code)

    def source(self, want, name="in.safetensors"):
        safetensors.torch.save_file({k: v.contiguous() for k, v in want.items()}, self.folder / name)
        return name

    def torch_save(self):
        """Every dtype; tied ones stay so, and nothing is in it that weights_only would not take."""
        dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
                  torch.bool, torch.bfloat16, torch.uint16, torch.uint32, torch.uint64, torch.complex64,
                  torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip
        want = tensors(dtypes)
        self.convert(self.source(want), "out.pt")
        same(torch.load(self.folder / "out.pt", weights_only=True), want)
        same(torch.load(self.folder / "out.pt", weights_only=True, mmap=True), want)
        base = torch.randn(40, 30)
        torch.save({"a": base, "b": base, "c": base.t(), "z": torch.complex(base, base).to(torch.complex128)}, self.folder / "tied.pt")
        self.convert("tied.pt", "out.pt")
        got = torch.load(self.folder / "out.pt", weights_only=True)
        same(got, {"a": base, "b": base, "c": base.t(), "z": torch.complex(base, base).to(torch.complex128)})
        assert got["a"].data_ptr() == got["b"].data_ptr()
        module = torch.nn.Linear(30, 40)
        self.convert(self.source(module.state_dict()), "out.pt")
        other = torch.nn.Linear(30, 40)
        other.load_state_dict(torch.load(self.folder / "out.pt", weights_only=True))
        same(dict(other.state_dict()), dict(module.state_dict()))

    def numpy_save(self):
        """Names are any text; views of a checkpoint are packed."""
        dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
                  torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex64]  # fmt: skip
        want = tensors(dtypes) | {"W": torch.ones(2), "w": torch.zeros(3), "a/b//c": torch.ones(1), "../x": torch.ones(4)}
        note = self.convert(self.source(want), "out.npz", "--metadata", "a=b", code=2)
        assert "CLI-009" in note.stderr, note.stderr
        self.convert("in.safetensors", "out.npz")
        with numpy.load(self.folder / "out.npz") as got:
            same({name: torch.from_numpy(got[name].copy()) for name in got.files}, want)
        self.convert(self.source({}), "empty.npz")
        assert numpy.load(self.folder / "empty.npz").files == []
        numpy.savez(self.folder / "nothing.npz")
        for name in ("empty.npz", "nothing.npz"):
            self.convert(name, "empty.safetensors")
            assert safetensors.torch.load_file(self.folder / "empty.safetensors") == {}
        assert "NPY-DTYPE" in self.convert(self.source({"x": torch.ones(2).bfloat16()}), "out.npz", code=5).stderr
        self.convert("in.safetensors", "out.npy", "--dtype", "f32")
        assert numpy.array_equal(numpy.load(self.folder / "out.npy"), numpy.ones(2, numpy.float32))
        torch.save({"t": torch.arange(12.0).reshape(3, 4).t()}, self.folder / "t.pt")
        self.convert("t.pt", "out.npy")
        assert numpy.array_equal(numpy.load(self.folder / "out.npy"), numpy.arange(12.0, dtype=numpy.float32).reshape(3, 4).T)

    def gguf_save(self):
        """Types, metadata, alignment; quantised tensors of a GGUF come back as they were."""
        if gguf is None:
            return
        dtypes = [torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bfloat16]
        want = tensors(dtypes) | {"long." + "n" * 58: torch.ones(2, 3, 4, 5)}
        for words, align in (((), 32), (("--align", "4K"), 4096)):
            self.convert(self.source(want), "out.gguf", "--metadata", "general.architecture=llama", *words)
            reader = gguf.GGUFReader(self.folder / "out.gguf")
            assert reader.fields["general.architecture"].contents() == "llama"
            got = {}
            for tensor in reader.tensors:
                assert tensor.data_offset % align == 0, (tensor.name, tensor.data_offset)
                dtype = want[tensor.name].dtype
                if tensor.n_elements == 0:
                    got[tensor.name] = torch.zeros(want[tensor.name].shape, dtype=dtype)
                    continue
                raw = torch.from_numpy(numpy.frombuffer(tensor.data.tobytes(), numpy.uint8).copy())
                assert list(reversed(tensor.shape.tolist())) == list(want[tensor.name].shape), tensor.name
                got[tensor.name] = raw.view(dtype).reshape(want[tensor.name].shape)
            same(got, want)
            self.convert("out.gguf", "back.safetensors")
            same(safetensors.torch.load_file(self.folder / "back.safetensors"), want)
        assert "GGUF-TYPE" in self.convert(self.source({"b": torch.tensor([True])}), "out.gguf", code=5).stderr
        assert "GGUF-NAME" in self.convert(self.source({"n" * 64: torch.ones(2)}), "out.gguf", code=5).stderr
        assert "GGUF-SHAPE" in self.convert(self.source({"n": torch.ones(1, 1, 1, 1, 2)}), "out.gguf", code=5).stderr
        for file in (pathlib.Path(__file__).parents[2] / "fixtures/weights").glob("*.gguf"):
            if "part" in file.stem:
                continue
            self.call("convert", file, self.folder / "again.gguf")
            before, after = gguf.GGUFReader(file), gguf.GGUFReader(self.folder / "again.gguf")
            assert [(t.name, t.tensor_type, t.shape.tolist()) for t in before.tensors] == [(t.name, t.tensor_type, t.shape.tolist()) for t in after.tensors]
            if file.stem != "big":
                assert all(numpy.array_equal(a.data.view(numpy.uint8), b.data.view(numpy.uint8)) for a, b in zip(before.tensors, after.tensors))

    def gguf_metadata(self):
        """Every kind of value comes back as it was, and what is not about this file of a split model as well."""
        if gguf is None:
            return
        writer = gguf.GGUFWriter(self.folder / "m.gguf", "llama")
        for name, value in (("uint8", 7), ("int8", -7), ("uint16", 65535), ("int16", -5), ("uint32", 2**32 - 1), ("int32", -(2**31)),
                            ("uint64", 2**64 - 1), ("int64", -(2**63)), ("float32", 0.1), ("float64", 0.1), ("bool", True), ("string", "a\"\u00e4\n")):  # fmt: skip
            getattr(writer, f"add_{name}")(f"x.{name}", value)
        writer.add_array("x.tokens", ["<s>", "a b", "\u00e4"])
        writer.add_array("x.scores", [0.5, -1.25, float("inf")])
        writer.add_array("x.types", [1, 2, -3])
        writer.add_array("x.flags", [True, False])
        writer.add_tensor("w", numpy.ones((2, 3), numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        for words in ((), ("--rename", "w=v"), ("--metadata", "more=1")):
            self.convert("m.gguf", "n.gguf", *words)
            before, after = gguf.GGUFReader(self.folder / "m.gguf").fields, gguf.GGUFReader(self.folder / "n.gguf").fields
            for name, field in before.items():
                if not name.startswith("GGUF."):
                    assert (after[name].types, after[name].contents()) == (field.types, field.contents()), name

    def gguf_decoded(self):
        """Quantised tensors as numbers, as gguf-py decodes them, bit for bit."""
        if gguf is None:
            return
        draw = numpy.random.default_rng(3)
        writer, want = gguf.GGUFWriter(self.folder / "q.gguf", "llama"), {}
        for kind in make_blocks.READ:
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            raw = make_blocks.raw_blocks(kind, 15, draw).reshape(3, 5 * size)
            try:
                want[kind.name] = torch.from_numpy(gguf.quants.dequantize(raw, kind).copy())
            except NotImplementedError:
                continue
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
            assert want[kind.name].shape == (3, 5 * elements)
        writer.add_tensor("plain", numpy.ones(4, numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        want["plain"] = torch.ones(4)
        self.convert("q.gguf", "f.safetensors", "--dtype", "f32")
        same(safetensors.torch.load_file(self.folder / "f.safetensors"), want)
        self.convert("q.gguf", "f.safetensors", "--dtype", "bf16")
        same(safetensors.torch.load_file(self.folder / "f.safetensors"), {k: v.bfloat16() for k, v in want.items()})
        self.convert("q.gguf", "f.safetensors", "--dtype", "Q8_0=f32", "--select", "*Q*_0")
        with safetensors.safe_open(self.folder / "f.safetensors", "pt") as file:
            assert file.metadata()["encoding:TQ1_0"] == "TQ1_0" and "encoding:Q8_0" not in file.metadata()
            assert torch.equal(file.get_tensor("Q8_0"), want["Q8_0"]) and file.metadata()["encoding:Q4_0"] == "Q4_0"

    def fours(self):
        """float4_e2m1, two in a byte, of safetensors and of torch.save: every bit pattern."""
        raw = torch.arange(256, dtype=torch.uint8)
        header = json.dumps({"w": {"dtype": "F4", "shape": [16, 32], "data_offsets": [0, 256]}}).encode()
        (self.folder / "f4.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(raw.tolist()))
        torch.save({"w": raw.reshape(16, 16).view(torch.float4_e2m1fn_x2)}, self.folder / "f4.pt")
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of the OCP microscaling formats
        values = torch.cat([values, -values])
        want = {"w": torch.stack([values[(raw & 15).int()], values[(raw >> 4).int()]], 1).reshape(16, 32)}
        for name in ("f4.safetensors", "f4.pt"):
            self.convert(name, "out.safetensors", "--dtype", "f32")
            same(safetensors.torch.load_file(self.folder / "out.safetensors"), want)

    def sixes(self):
        """float6 of safetensors, four in three bytes: every bit pattern, in rows that are no whole bytes too."""
        for dtype, fraction, bias in (("F6_E2M3", 3, 1), ("F6_E3M2", 2, 3)):  # of the OCP microscaling formats
            code = torch.arange(64)
            exponent, digits = (code & 31) >> fraction, (code & (1 << fraction) - 1) / 2**fraction
            values = torch.where(exponent == 0, digits * 2.0 ** (1 - bias), (1 + digits) * 2.0 ** (exponent - bias)) * torch.where(code < 32, 1.0, -1.0)
            packed = sum(int(c) << 6 * i for i, c in enumerate(code)).to_bytes(48, "little")
            for shape in ([4, 16], [32, 2]):
                header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, 48]}}).encode()
                (self.folder / "f6.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + packed)
                self.convert("f6.safetensors", "out.safetensors", "--dtype", "f32")
                same(safetensors.torch.load_file(self.folder / "out.safetensors"), {"w": values.float().reshape(shape)})

    def scales(self):
        """float8_e8m0 of safetensors: every bit pattern, the last of which is NaN."""
        header = json.dumps({"w": {"dtype": "F8_E8M0", "shape": [256], "data_offsets": [0, 256]}}).encode()
        (self.folder / "f8.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(256)))
        self.convert("f8.safetensors", "out.safetensors", "--dtype", "f32")
        got, want = safetensors.torch.load_file(self.folder / "out.safetensors")["w"], torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu).float()
        assert torch.equal(got[:255], want[:255]) and got[255].isnan() and want[255].isnan(), (got, want)

    def gguf_encoded(self):
        """In blocks, as gguf-py makes them; of K types it decodes what is near. Views and other blocks as source."""
        if gguf is None:
            return
        draw = torch.Generator().manual_seed(4)
        rows = torch.randn(6, 512, generator=draw)
        rows[1] *= 100
        rows[2] = rows[2].abs()
        rows[3, :300] = 0
        want = {"a.attn_q.weight": rows, "a.half": rows.half(), "b.brain": rows.bfloat16(), "b.double": rows.double(), "b.norm": torch.ones(512),
                "b.conv": torch.ones(8, 4, 3), "b.ids": torch.arange(4)}  # fmt: skip
        torch.save(want | {"a.turned": rows.t().contiguous().t()}, self.folder / "w.pt")
        want["a.turned"] = rows
        for kind in make_blocks.MADE:
            note = self.convert("w.pt", "w.gguf", "--dtype", kind.name.lower()).stderr
            assert "b.norm stays as it is" in note and "b.conv stays as it is" in note, note
            reader = gguf.GGUFReader(self.folder / "w.gguf")
            assert reader.fields["general.quantization_version"].contents() == 2
            name = kind.name + ("_S" if kind.name in ("Q4_K", "Q5_K") else "")
            assert reader.fields["general.file_type"].contents() == gguf.LlamaFileType[f"MOSTLY_{name}"]
            for tensor in reader.tensors:
                if tensor.name in ("b.norm", "b.conv", "b.ids"):
                    assert tensor.tensor_type.name == ("I64" if tensor.name == "b.ids" else "F32"), tensor.name
                    continue
                numbers = want[tensor.name].float().numpy()
                assert tensor.tensor_type == kind, (tensor.name, tensor.tensor_type)
                near = gguf.quants.dequantize(tensor.data, kind)
                steps = {"Q4_K": 15, "Q5_K": 31, "Q6_K": 31}.get(kind.name)
                if steps is None:
                    made = gguf.quants.quantize(numbers, kind).reshape(-1).view(numpy.uint8)
                    got = tensor.data.reshape(-1).view(numpy.uint8)
                    if tensor.name == "a.half" and kind.name.endswith("_1"):  # of -0 and 0 gguf-py takes either as the least
                        near, numbers = near + 0.0, gguf.quants.dequantize(made.reshape(tensor.data.shape), kind) + 0.0
                        assert numpy.array_equal(near, numbers)
                    else:
                        assert numpy.array_equal(got, made), (tensor.name, kind)
                else:  # half a step of the largest scale of 256, and half a step of that of 64
                    blocks, numbers = near.reshape(-1, 256), numbers.reshape(-1, 256)
                    reach = numpy.ptp(numpy.concatenate([numbers, numpy.zeros((len(numbers), 1), numpy.float32)], 1), axis=1)
                    assert (abs(blocks - numbers).max(1) <= reach / steps * (0.5 + 15 / 63 + 0.1)).all(), (tensor.name, kind)
        self.convert("w.pt", "w.gguf", "--dtype", "*.attn_*=q8_0", "--select", "a.*")
        assert {t.name: t.tensor_type.name for t in gguf.GGUFReader(self.folder / "w.gguf").tensors} == {
            "a.attn_q.weight": "Q8_0", "a.half": "F16", "a.turned": "F32"}  # fmt: skip
        assert "WGT-BLOCK" in self.convert("w.pt", "w.gguf", "--dtype", "b.norm=q8_0", code=5).stderr
        assert "WGT-DTYPE" in self.convert("w.pt", "w.gguf", "--dtype", "iq1_s", code=2).stderr
        for value in (float("nan"), float("inf"), 1e38):
            torch.save({"w": torch.full((2, 256), value)}, self.folder / "bad.pt")
            assert "WGT-BLOCK" in self.convert("bad.pt", "bad.gguf", "--dtype", "q4_k", code=5).stderr
            assert not (self.folder / "bad.gguf").exists()
        self.convert("w.pt", "w.gguf", "--dtype", "q8_0", "--select", "a.attn*", "--metadata", "general.architecture=llama")
        self.convert("w.gguf", "v.gguf", "--dtype", "q4_0")  # by way of float32, as llama.cpp's --allow-requantize
        first, second = (gguf.GGUFReader(self.folder / name) for name in ("w.gguf", "v.gguf"))
        made = gguf.quants.quantize(gguf.quants.dequantize(first.tensors[0].data, first.tensors[0].tensor_type), gguf.GGMLQuantizationType.Q4_0)
        assert numpy.array_equal(second.tensors[0].data, made)
        assert second.fields["general.file_type"].contents() == gguf.LlamaFileType.MOSTLY_Q4_0
        for name, code in (("w.npz", "NPY-DTYPE"), ("w.pt", "STF-DTYPE")):  # whose readers would take bytes for numbers
            assert code in self.convert("v.gguf", name, code=5).stderr
        self.convert("v.gguf", "w.safetensors")
        with safetensors.safe_open(self.folder / "w.safetensors", "pt") as file:
            assert file.metadata()["encoding:a.attn_q.weight"] == "Q4_0"

    def presets(self):
        """By the rules of each model's own converter (permute() of convert_llama_weights_to_hf.py, and so on), there and back."""
        draw = torch.Generator().manual_seed(6)

        def some(*shape):
            return torch.randn(*shape, generator=draw)

        def pairs(w, heads):  # Meta's neighbours to Hugging Face's halves
            return w.view(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).transpose(1, 2).reshape(w.shape)

        heads, kv, width = 4, 2, 32
        meta = {"tok_embeddings.weight": some(10, width), "norm.weight": some(width), "output.weight": some(10, width)}
        hugging = {"model.embed_tokens.weight": meta["tok_embeddings.weight"], "model.norm.weight": meta["norm.weight"], "lm_head.weight": meta["output.weight"]}
        gguf_names = {"token_embd.weight": "tok_embeddings.weight", "output_norm.weight": "norm.weight", "output.weight": "output.weight"}
        for i in range(2):
            for a, b, c, rows in (("attention.wq", "self_attn.q_proj", "attn_q", heads), ("attention.wk", "self_attn.k_proj", "attn_k", kv),
                                  ("attention.wv", "self_attn.v_proj", "attn_v", None), ("attention.wo", "self_attn.o_proj", "attn_output", None),
                                  ("feed_forward.w1", "mlp.gate_proj", "ffn_gate", None), ("feed_forward.w2", "mlp.down_proj", "ffn_down", None),
                                  ("feed_forward.w3", "mlp.up_proj", "ffn_up", None), ("attention_norm", "input_layernorm", "attn_norm", None),
                                  ("ffn_norm", "post_attention_layernorm", "ffn_norm", None)):  # fmt: skip
                shape = (width,) if a.endswith("norm") else (16 if b in ("self_attn.k_proj", "self_attn.v_proj") else width, width)
                w = some(*shape)
                meta[f"layers.{i}.{a}.weight"] = w
                gguf_names[f"blk.{i}.{c}.weight"] = f"layers.{i}.{a}.weight"
                hugging[f"model.layers.{i}.{b}.weight"] = w if rows is None else pairs(w, rows)
        (self.folder / "meta").mkdir()
        torch.save(meta | {"rope.freqs": some(4)}, self.folder / "meta/consolidated.00.pth")
        (self.folder / "meta/params.json").write_text(json.dumps({"dim": width, "n_heads": heads, "n_kv_heads": kv}))
        self.convert("meta", "out.safetensors", "--preset", "llama-to-hf")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), hugging)
        (self.folder / "config.json").write_text(json.dumps({"num_attention_heads": heads, "num_key_value_heads": kv}))
        self.convert("out.safetensors", "out.pt", "--preset", "hf-to-llama")
        same(torch.load(self.folder / "out.pt", weights_only=True), meta)
        self.convert("out.safetensors", "out.gguf", "--preset", "hf-to-gguf-llama", "--metadata", "llama.attention.head_count=4")
        (self.folder / "config.json").unlink()
        if gguf is not None:
            same({t.name: torch.from_numpy(t.data.copy()) for t in gguf.GGUFReader(self.folder / "out.gguf").tensors},
                 {name: meta[old] for name, old in gguf_names.items()})  # fmt: skip
        self.convert("out.gguf", "back.safetensors", "--preset", "gguf-llama-to-hf", "--set", f"kv_heads={kv}")
        same(safetensors.torch.load_file(self.folder / "back.safetensors"), hugging)
        missing = self.convert("out.safetensors", "x.pt", "--preset", "hf-to-llama", code=2)
        assert "WGT-PRESET" in missing.stderr and "heads" in missing.stderr, missing.stderr
        self.convert("out.safetensors", "x.pt", "--preset", "hf-to-llama", "--set", "heads=5", code=2)

        gpt, megatron = {"transformer.wte.weight": some(12, 16), "transformer.wpe.weight": some(8, 16)}, {}
        where = "model.language_model.encoder."
        megatron["model.language_model.embedding.word_embeddings.weight"] = torch.cat([gpt["transformer.wte.weight"], some(4, 16)])
        megatron["model.language_model.embedding.position_embeddings.weight"] = gpt["transformer.wpe.weight"]
        for kind in ("weight", "bias"):
            gpt[f"transformer.ln_f.{kind}"] = megatron[f"{where}final_layernorm.{kind}"] = some(16)
            for a, b, size in (("ln_1", "input_layernorm", None), ("ln_2", "post_attention_layernorm", None), ("attn.c_attn", "self_attention.query_key_value", (16, 48)),
                               ("attn.c_proj", "self_attention.dense", (16, 16)), ("mlp.c_fc", "mlp.dense_h_to_4h", (16, 64)), ("mlp.c_proj", "mlp.dense_4h_to_h", (64, 16))):  # fmt: skip
                w = some(16) if size is None else some(*size) if kind == "weight" else some(size[1])
                gpt[f"transformer.h.0.{a}.{kind}"] = w
                w = w.t() if size is not None and kind == "weight" else w
                if a == "attn.c_attn":  # [3, heads, size, ...] to [heads, 3, size, ...]
                    w = w.reshape(3, heads, 4, *w.shape[1:]).transpose(0, 1).reshape(w.shape)
                megatron[f"{where}layers.0.{b}.{kind}"] = w
        self.source(gpt, "gpt.safetensors")
        self.convert("gpt.safetensors", "out.safetensors", "--preset", "hf-to-megatron-gpt", "--set", f"heads={heads}")
        words = "model.language_model.embedding.word_embeddings.weight"
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), megatron | {words: megatron[words][:12]})
        self.source(megatron, "megatron.safetensors")
        self.convert("megatron.safetensors", "out.safetensors", "--preset", "megatron-gpt-to-hf", "--set", f"heads={heads}", "--set", "vocab_size=12")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), gpt)

        timm = {"cls_token": some(1, 1, 6), "pos_embed": some(1, 5, 6), "patch_embed.proj.weight": some(6, 3, 2, 2), "patch_embed.proj.bias": some(6)}
        for kind in ("weight", "bias"):
            for name, rows in (("blocks.0.norm1", 6), ("blocks.0.attn.qkv", 18), ("blocks.0.attn.proj", 6), ("blocks.0.norm2", 6),
                               ("blocks.0.mlp.fc1", 24), ("blocks.0.mlp.fc2", 6), ("norm", 6), ("head", 3)):  # fmt: skip
                timm[f"{name}.{kind}"] = some(rows) if kind == "bias" or "norm" in name else some(rows, 24 if "fc2" in name else 6)
        self.source(timm, "timm.safetensors")
        self.convert("timm.safetensors", "hf.safetensors", "--preset", "timm-vit-to-hf")
        got = safetensors.torch.load_file(self.folder / "hf.safetensors")
        for i, part in enumerate(("query", "key", "value")):
            assert torch.equal(got[f"vit.encoder.layer.0.attention.attention.{part}.weight"], timm["blocks.0.attn.qkv.weight"][6 * i : 6 * i + 6])
        assert len(got) == len(timm) + 4
        self.convert("hf.safetensors", "out.safetensors", "--preset", "hf-vit-to-timm")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), timm)
        self.convert("timm.safetensors", "tv.safetensors", "--preset", "timm-vit-to-torchvision")
        layer = torch.nn.TransformerEncoderLayer(6, 1).state_dict()  # torch's own names for fused attention
        got = safetensors.torch.load_file(self.folder / "tv.safetensors")
        names = {n.replace("self_attn", "self_attention") for n in layer if "self_attn" in n}
        assert names <= {n.removeprefix("encoder.layers.encoder_layer_0.") for n in got}
        self.convert("tv.safetensors", "out.safetensors", "--preset", "torchvision-vit-to-timm")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), timm)
        assert "timm-vit-to-hf" in self.convert("timm.safetensors", "out.safetensors", "--preset", "nosuch", code=2).stderr
        (self.folder / "own.preset").write_text("head\\.(.*)  classifier.\\1\n")
        told = self.convert("timm.safetensors", "out.safetensors", "--preset", self.folder / "own.preset", "--select", "head.*", "--select", "norm.bias")
        assert "norm.bias stays as it is" in told.stderr
        assert sorted(safetensors.torch.load_file(self.folder / "out.safetensors")) == ["classifier.bias", "classifier.weight", "norm.bias"]

    def split(self):
        """Names by convention, one model beside no other, the old one or the new one but never a mixture."""
        want = {f"layer.{i}": torch.randn(100, 100, generator=torch.Generator().manual_seed(i)) for i in range(10)}
        self.convert(self.source(want), "m.safetensors", "--split", "100K")
        index = json.loads((self.folder / "m.safetensors.index.json").read_text())
        names = [f"m-{i:05}-of-00005.safetensors" for i in range(1, 6)]
        assert sorted(set(index["weight_map"].values())) == names, index
        assert index["metadata"] == {"total_size": 400000, "format": "pt"}, index["metadata"]
        got = {}
        for name in names:
            part = safetensors.torch.load_file(self.folder / name)
            assert all(index["weight_map"][key] == name for key in part)
            got |= part
        same(got, want)
        with safetensors.safe_open(self.folder / names[0], "pt") as file:
            assert file.metadata() == {"format": "pt"}
        assert "STF-BESIDE" in self.convert("in.safetensors", "m.safetensors", code=2).stderr
        assert "STF-BESIDE" in self.convert("in.safetensors", "m.safetensors", "--split", "200K", code=2).stderr
        changed = {name: tensor + 1 for name, tensor in want.items()}
        self.convert(self.source(changed), "m.safetensors", "--split", "100K")  # the same names: replaced
        assert not list(self.folder.glob("*.part"))
        self.convert("m.safetensors.index.json", "whole.safetensors")
        same(safetensors.torch.load_file(self.folder / "whole.safetensors"), changed)
        self.convert("in.safetensors", "m.safetensors", "--split", "200K", "--force")
        assert len(list(self.folder.glob("m-*"))) == 2 + 1 - (len(list(self.folder.glob("m-*-of-00003*"))) == 0), list(self.folder.glob("m-*"))
        if gguf is not None:
            self.convert("in.safetensors", "g.gguf", "--split", "100K", "--metadata", "k=v")
            parts = sorted(self.folder.glob("g-*.gguf"))
            assert [p.name for p in parts] == [f"g-{i:05}-of-00005.gguf" for i in range(1, 6)]
            fields = gguf.GGUFReader(parts[2]).fields
            assert (fields["split.no"].contents(), fields["split.count"].contents(), fields["split.tensors.count"].contents()) == (2, 5, 10)
            self.convert(parts[3].name, "whole.safetensors")
            same(safetensors.torch.load_file(self.folder / "whole.safetensors"), changed)

    def align(self):
        """A valid file in which all that can lie at a multiple do."""
        want = {f"t{i}": torch.randn(n) for i, n in enumerate((3, 1024, 5, 4096, 1, 2048, 1024))}
        self.convert(self.source(want), "out.safetensors", "--align", "4K")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), want)
        data = (self.folder / "out.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        assert (8 + length) % 4096 == 0
        for name, tensor in want.items():
            if tensor.numel() * 4 % 4096 == 0:
                assert (8 + length + header[name]["data_offsets"][0]) % 4096 == 0, name
        assert "STF-ALIGN" in self.convert("in.safetensors", "out.safetensors", "--align", "3", code=2).stderr

    def merge(self):
        self.source({"a": torch.ones(2)}, "a.safetensors")
        self.source({"b": torch.zeros(2)}, "b.safetensors")
        torch.save({"c": torch.ones(3)}, self.folder / "c.pt")
        self.convert("a.safetensors", "out.safetensors", "--merge", self.folder / "b.safetensors", "--merge", self.folder / "c.pt", "--rename", "^=m.")
        same(safetensors.torch.load_file(self.folder / "out.safetensors"), {"m.a": torch.ones(2), "m.b": torch.zeros(2), "m.c": torch.ones(3)})
        assert "WGT-NAME" in self.convert("a.safetensors", "out.safetensors", "--merge", self.folder / "a.safetensors", code=2).stderr

    def dry(self):
        before = sorted(self.folder.iterdir())
        self.source({"a": torch.ones(20), "b": torch.ones(20)}, "dry.safetensors")
        told = json.loads(self.convert("dry.safetensors", "d.safetensors", "--split", "80", "--dry-run", "--json").stdout)
        assert [(pathlib.Path(f["file"]).name, f["tensors"], f["bytes"]) for f in told["files"]] == [
            ("d-00001-of-00002.safetensors", 1, 80), ("d-00002-of-00002.safetensors", 1, 80)]  # fmt: skip
        assert sorted(self.folder.iterdir()) == sorted([*before, self.folder / "dry.safetensors"])

    def stopped(self):
        """Killed at any moment; then the same bytes as in one go, and nothing left."""
        draw = random.Random(5)
        want = {f"t{i}": torch.randn(1 << 11, 1 << 11, generator=torch.Generator().manual_seed(i)) for i in range(8)}
        self.source(want, "big.safetensors")
        stopped = 0
        for end, words in ((".safetensors", ["--dtype", "f16"]), (".gguf", []), (".npz", []), (".pt", ["--dtype", "*1=f64"]),
                           (".safetensors", ["--split", "40M"]), (".gguf", ["--dtype", "q8_0"]), (".exg", ["--compress", "zstd", "--dtype", "bf16"])):  # fmt: skip
            where = self.folder / "stop"
            where.mkdir()
            self.call("convert", self.folder / "big.safetensors", where / f"one{end}", *words)
            one = {p.name.replace("one", "x", 1): p.read_bytes().replace(b"one-", b"xyz-") for p in where.iterdir()}
            for p in where.iterdir():
                p.unlink()
            for _ in range(3):
                child = subprocess.Popen([self.exg, "convert", self.folder / "big.safetensors", where / f"xyz{end}", "--resume", *words], stderr=subprocess.DEVNULL)
                enough = draw.uniform(0.02, 0.9) * (60 << 20)
                while child.poll() is None and sum(sizes(where)) < enough:
                    time.sleep(0.001)
                child.send_signal(signal.SIGKILL)
                child.wait()
            parts = list(where.glob("*.part"))
            stopped += len(parts) > 0
            if parts:  # damage is found, and written again
                with open(parts[0], "r+b") as file:
                    file.seek(max(0, os.path.getsize(parts[0]) // 2))
                    file.write(b"\xff" * 16)
            self.call("convert", self.folder / "big.safetensors", where / f"xyz{end}", "--resume", *words)
            got = {p.name.replace("xyz", "x", 1): p.read_bytes() for p in where.iterdir()}
            assert sorted(got) == sorted(one), (end, sorted(got), sorted(one))
            assert all(got[name] == one[name] for name in one), (end, words, [n for n in one if got[n] != one[n]])
            for p in where.iterdir():
                p.unlink()
            where.rmdir()
        assert stopped >= 4, f"{stopped} of 7 were stopped while they wrote"

    def several_at_once(self):
        """Saves of other weights to the files of one model, all at once: one model or the other, and who cannot is told."""
        for i in range(2):
            self.source({f"t{k}": torch.full((1 << 18,), float(i)) for k in range(8)}, f"v{i}.safetensors")
        for old in (False, True):
            for _ in range(8):
                where = self.folder / "at-once"
                where.mkdir()
                words = [where / "m.safetensors", "--split", "1M"]
                if old:
                    self.call("convert", self.folder / "v0.safetensors", *words)
                children = [subprocess.Popen([self.exg, "convert", self.folder / f"v{i % 2}.safetensors", *words], stderr=subprocess.PIPE, text=True) for i in range(4)]
                told = [child.communicate()[1] for child in children]
                assert all(c.returncode == 0 or (c.returncode == 3 and "IO-BUSY" in t) for c, t in zip(children, told)), told
                assert any(c.returncode == 0 for c in children)
                files = set(json.loads((where / "m.safetensors.index.json").read_text())["weight_map"].values())
                values = {x for f in files for t in safetensors.torch.load_file(where / f).values() for x in t.unique().tolist()}
                assert len(files) == 8 and len(values) == 1, (old, files, values)
                assert len(list(where.iterdir())) == 9, list(where.iterdir())
                shutil.rmtree(where)

    def patch_killed(self):
        """kill -9 while a patch is made or applied: no OUT that is wrong, nothing left, and the same command again finishes."""
        draw = random.Random(7)
        large = {f"t{i}": torch.randn(1 << 20, generator=torch.Generator().manual_seed(i)) for i in range(16)}
        self.source(large, "a.safetensors")
        self.source({k: v if i % 3 else v + 1e-3 * torch.randn(v.shape) for i, (k, v) in enumerate(large.items())}, "b.safetensors")
        where = self.folder / "where"
        where.mkdir()
        a, b, p, out = self.folder / "a.safetensors", self.folder / "b.safetensors", where / "p.exgpatch", where / "out.safetensors"
        for words, made in ((["--resume", a, b, p], p), ([a, b, p], p), (["--apply", a, self.folder / "p", out], out), (["--apply", "--resume", a, self.folder / "p", out], out)):
            began = time.perf_counter()
            self.call("patch", *words)
            took, want = time.perf_counter() - began, made.read_bytes()
            for _ in range(8):
                made.unlink()
                child = subprocess.Popen([self.exg, "patch", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(draw.uniform(0, took))
                child.send_signal(signal.SIGKILL)
                child.wait()
                assert not made.exists() or made.read_bytes() == want
                assert "--resume" in words or [q.name for q in where.iterdir()] == ([made.name] if made.exists() else []), list(where.iterdir())
                self.call("patch", *words)
                assert made.read_bytes() == want and [q.name for q in where.iterdir()] == [made.name], list(where.iterdir())
            if made == p:
                assert not (self.folder / "p").exists() or want == (self.folder / "p").read_bytes()
                p.rename(self.folder / "p")
            else:
                assert want == b.read_bytes()
                out.unlink()

    def shards_killed(self):
        """kill -9 while the files of ranks are written: no folder that is not whole, and the same command again finishes."""
        draw = random.Random(11)
        went_on = 0
        module = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6)))
        torch.export.save(torch.export.export(module, (torch.ones(2, 1024),)), self.folder / "m.pt2")
        self.source(dict(module.state_dict()), "m.safetensors")

        def contents(folder):
            return {p.name: p.read_bytes() for p in folder.iterdir()}

        def count(folder):
            try:
                return len(os.listdir(folder))
            except FileNotFoundError:
                return -1

        (self.folder / "rows.preset").write_text("(.*) \\1 shard 0\n")
        for name, folder, option, value in (("ranks", "ranks", "--for", "m.pt2"), ("step/.metadata", "step", "--for", "m.pt2"),
                                            ("tp/m.{rank}.pt", "tp", "--preset", "rows.preset"), ("te/m.{rank}.exg", "te", "--preset", "rows.preset")):  # fmt: skip
            words = [self.folder / "m.safetensors", self.folder / name, "--shard", "2", option, self.folder / value]
            self.call("convert", *words)
            part, want, stopped = self.folder / f"{folder}.part", contents(self.folder / folder), 0
            journal = self.folder / f"{folder}.resume"
            for turn in range(20):
                shutil.rmtree(self.folder / folder)
                if turn == 10:
                    words.append("--resume")
                child = subprocess.Popen([self.exg, "convert", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                enough = draw.randint(0, 2)  # files that are whole
                while child.poll() is None and count(part) < enough:
                    time.sleep(0.0005)
                child.send_signal(signal.SIGKILL)
                child.wait()
                assert not (self.folder / folder).exists() or contents(self.folder / folder) == want, list(self.folder.iterdir())
                stopped += part.exists()
                if turn > 10 and part.exists() and draw.random() < 0.5:  # stopped again, and damaged
                    child = subprocess.Popen([self.exg, "convert", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(draw.uniform(0, 0.02))
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                    for p in [*part.iterdir(), journal] if part.exists() and journal.exists() else []:
                        with open(p, "r+b") as file:
                            file.seek(os.path.getsize(p) // 2)
                            file.write(b"\xff" * 16)
                went_on += turn >= 10 and journal.exists() and os.path.getsize(journal) > 40
                if not (self.folder / folder).exists():
                    self.call("convert", *words)
                assert contents(self.folder / folder) == want and not part.exists() and not journal.exists(), list(self.folder.iterdir())
            assert stopped >= 4, f"{stopped} of 20 were stopped while they wrote"
        assert went_on >= 4, f"{went_on} had something to go on with"

    def full(self):
        """A disk that is full: an error, and nothing left."""
        self.source({f"t{i}": torch.ones(512, 512) for i in range(4)}, "f.safetensors")
        where = self.folder / "full"
        where.mkdir()

        def little():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        for name, words in (("o.safetensors", []), ("o.safetensors", ["--split", "1M"]), ("o.gguf", ["--dtype", "q4_0"]), ("o.npz", []), ("o.pt", []),
                            ("o.exg", []), ("o.exg", ["--dtype", "f64", "--compress", "none"])):  # fmt: skip
            done = self.call("convert", self.folder / "f.safetensors", where / name, *words, code=3, preexec_fn=little)
            assert "IO-" in done.stderr and list(where.iterdir()) == [], (name, done.stderr, list(where.iterdir()))

    def container(self):
        """.exg of weights: whatever takes weights takes it."""
        base = (torch.randn(300, 700, generator=torch.Generator().manual_seed(1)) * 0.02).bfloat16()
        want = {"a": base, "b": base, "c": base.t(), "d": torch.arange(5)}
        torch.save(want, self.folder / "c.pt")
        self.convert("c.pt", "c.exg", "--compress", "zstd", "--metadata", "k=v")
        assert base.nbytes / (self.folder / "c.exg").stat().st_size > 1.48, (self.folder / "c.exg").stat().st_size
        self.convert("c.exg", "back.pt")
        got = torch.load(self.folder / "back.pt", weights_only=True)
        same(got, want)
        assert got["a"].data_ptr() == got["b"].data_ptr()
        self.call("verify", self.folder / "c.exg", "--data")
        self.call("diff", self.folder / "c.pt", self.folder / "c.exg")
        assert "k = " in self.call("inspect", self.folder / "c.exg").stdout
        self.convert("c.exg", "part.exg", "--select", "[ad]", "--dtype", "f32", "--rename", "^=x.")
        self.convert("part.exg", "part.safetensors")
        same(safetensors.torch.load_file(self.folder / "part.safetensors"), {"x.a": base.float(), "x.d": torch.arange(5)})
        self.source({"e": torch.ones(1000), "f": torch.ones(1000), "g": torch.zeros(1000)}, "e.safetensors")
        self.convert("e.safetensors", "once.exg", "--deduplicate")
        assert (self.folder / "once.exg").stat().st_size < 9500
        self.convert("once.exg", "each.safetensors")
        same(safetensors.torch.load_file(self.folder / "each.safetensors"), {"e": torch.ones(1000), "f": torch.ones(1000), "g": torch.zeros(1000)})
        program = pathlib.Path(__file__).parents[2] / "fixtures/mlp.pt2"
        self.call("convert", program, self.folder / "p.safetensors")
        self.convert("p.safetensors", "p.exg")
        self.call("repack", program, self.folder / "p.pt2", "--weights-from", self.folder / "p.exg")
        for name in ("p.pt2", "p.json"):
            told = self.convert("p.exg", name, code=5).stderr
            assert "FMT-WEIGHTS" in told and "--weights-from" in told, told
        assert "FMT-WEIGHTS" in self.call("run", self.folder / "p.exg", code=5).stderr

    def shards(self):
        """A file for each rank of a mesh, put together again by PyTorch's own reader and consolidation; the parts are Megatron's."""
        program = pathlib.Path(__file__).parents[2] / "fixtures/lm.core.dynamic.pt2"
        self.call("convert", program, self.folder / "lm.safetensors", "--metadata", "k=v")
        want = safetensors.torch.load_file(self.folder / "lm.safetensors")
        for mesh, mode in (("2", "tensor"), ("4", "tensor"), ("2", "fsdp"), ("2x2", "fsdp,tensor"), ("3", "tensor"), ("2", "replicate")):
            where = self.folder / f"{mesh}.{mode}"
            self.convert("lm.safetensors", where.name, "--shard", mesh, "--place", mode, "--for", program)
            # One that has what another one has already writes nothing.
            ranks = {"replicate": [1], "fsdp,tensor": range(1, 5)}.get(mode, range(1, int(mesh[0]) + 1))
            files = sorted(where.iterdir())
            front = "" if mode == "replicate" else "shard-{:05}-"
            assert [f.name for f in files] == [f"{front}model-00001-of-00001.safetensors".format(r) for r in ranks], files
            whole = self.folder / f"whole.{where.name}"
            whole.mkdir()
            consolidate_safetensors_files(str(where), str(whole), fqn_to_index_mapping=dict.fromkeys(want, 1))
            got = {}
            for file in whole.glob("*.safetensors"):
                got |= safetensors.torch.load_file(file)
            same(got, want)
            into = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
            self.convert(where.name, "back.safetensors")
            same(safetensors.torch.load_file(self.folder / "back.safetensors"), want)
            with warnings.catch_warnings(action="ignore"):
                torch.distributed.checkpoint.load(into, storage_reader=HuggingFaceStorageReader(str(where)), no_dist=True)
            same(into, want)
            if (mesh, mode) == ("2", "tensor"):
                with safetensors.safe_open(files[1], "pt") as file:
                    assert file.metadata()["k"] == "v" and file.metadata()["format"] == "pt"
                    begins = json.loads(file.metadata()["DCP_SHARDING_INFO"])
                    shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}
                for name, begin, shape in (("attention.q", [64, 0], [64, 128]), ("attention.o", [0, 64], [128, 64]),
                                           ("mlp.up", [128, 0], [128, 128]), ("mlp.down", [0, 128], [128, 128])):  # fmt: skip
                    name = f"blocks.1.{name}.weight"
                    assert begins[name] == {"saved_offsets": begin} and shapes[name] == shape, (name, begins[name], shapes[name])
                assert "blocks.1.mlp_norm.weight" not in shapes
        told = self.convert("lm.safetensors", "dry", "--shard", "2", "--for", program, "--dry-run").stdout
        assert "dry/shard-00002-model-00001-of-00001.safetensors  17 tensors" in told and not (self.folder / "dry").exists(), told
        assert "IO-KIND" in self.convert("lm.safetensors", "2.tensor", "--shard", "2", "--for", program, code=2).stderr
        self.source({"head.weight": torch.ones(3)}, "other.safetensors")
        assert "WGT-SLICE" in self.convert("other.safetensors", "o", "--shard", "2", "--for", program, code=1).stderr
        assert "CLI-009" in self.convert("lm.safetensors", "o", "--shard", "2", code=2).stderr

        def little():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        self.call("convert", self.folder / "lm.safetensors", self.folder / "o", "--shard", "2", "--for", program, code=3, preexec_fn=little)
        assert not list(self.folder.glob("o*")) or list(self.folder.glob("o*")) == [self.folder / "other.safetensors"]

    def another(self):
        """What another save left is not gone on with."""
        where = self.folder / "other"
        where.mkdir()
        first = {f"t{i}": torch.full((1 << 22,), float(i)) for i in range(4)}
        second = {name: tensor + 1 for name, tensor in first.items()}
        self.source(first, "s.safetensors")
        child = subprocess.Popen([self.exg, "convert", self.folder / "s.safetensors", where / "o.safetensors", "--resume"], stderr=subprocess.DEVNULL)
        while child.poll() is None and not any(size > 1 << 20 for size in sizes(where)):
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
        times = os.stat(self.folder / "s.safetensors")
        self.source(second, "s.safetensors")
        os.utime(self.folder / "s.safetensors", ns=(times.st_atime_ns, times.st_mtime_ns))
        self.call("convert", self.folder / "s.safetensors", where / "o.safetensors", "--resume")
        same(safetensors.torch.load_file(where / "o.safetensors"), second)
        assert [p.name for p in where.iterdir()] == ["o.safetensors"], list(where.iterdir())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", type=pathlib.Path, required=True)
    exg = parser.parse_args().exg.resolve()
    checks = [name for name in vars(Save) if not name.startswith("_") and name not in ("call", "convert", "source")]
    failed = 0
    for name in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                getattr(Save(exg, pathlib.Path(folder)), name)()
            except Exception as error:  # noqa: BLE001 - every fault is told
                print(f"FAIL save: {name}: {type(error).__name__}: {error}")
                failed += 1
    print(f"{len(checks) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
