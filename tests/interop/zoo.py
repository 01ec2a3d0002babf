"""The models of torchvision, timm, transformers and diffusers, as they come: exported, run by exg, compared with PyTorch.

    build/venv/bin/pip install --target build/zoo --no-deps torchvision==0.28.0 timm==1.0.31 pillow
    build/venv/bin/pip install transformers==5.23.0 diffusers==0.42.1
    PYTHONPATH=build/zoo build/venv/bin/python tests/interop/zoo.py --exg build/release/cli/exg [--zoo torchvision,timm,transformers,diffusers]
        [--core] [--dynamic] [--dtype bfloat16] [--only NAME] [--table FILE]

Of torchvision every model, of timm one a family (`--of-family 3`: three), of transformers a small one of every type, of diffusers those of
diffusion.py. `--dynamic` leaves open every size that PyTorch lets, and runs with half as much again of each. Of a narrow `--dtype` exg has to
be as near to what PyTorch computes in float32 of the same numbers as PyTorch is. A line a model, then a table; `--table` adds the lines to a file and leaves out the models that are in it.
"""

import argparse
import logging
import pathlib
import signal
import sys
import tempfile
import time
import warnings

import torch
from architectures import Plain
from diffusion import MODELS, diffusion_model
from run_interop import Exg, Mismatch
from torch.utils import _pytree as pytree

SECONDS = 150  # a model may take
PARAMETERS = 120_000_000  # and have


class Refused(Exception):
    """Before exg has a part in it."""


def break_ties(module):
    """Parameters that begin as zeros would make scores alike, and which of them the greatest is no one says."""
    for parameter in module.parameters():
        if parameter.is_floating_point() and not parameter.any():
            parameter.data.normal_(0, 0.02)


def tensors(value):
    return [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


# ---- torchvision and timm ---------------------------------------------------------------------------------------------------------


def without_operators():
    """torchvision's own operators are built for one PyTorch, and timm and transformers take it in; models do without them, all but those
    that detect."""
    has, fake = torch._C._dispatch_has_kernel_for_dispatch_key, torch.library.register_fake
    torch._C._dispatch_has_kernel_for_dispatch_key = lambda name, key: name.startswith("torchvision::") or has(name, key)
    torch.library.register_fake = lambda op, *a, **k: (lambda f: f) if str(op).startswith("torchvision::") else fake(op, *a, **k)


# How the name begins: what goes in.
VISION = {("mvit", "swin3d", "s3d"): (1, 3, 16, 224, 224), ("r3d", "mc3", "r2plus"): (1, 3, 16, 64, 64), ("vit", "maxvit"): (1, 3, 224, 224),
          ("inception",): (1, 3, 96, 96)}


def torchvision_models(_):
    from torchvision import models

    for name in models.list_models():
        if name.startswith("quantized_"):  # eager quantisation, which torch.export does not take
            continue

        def build(name=name):
            arguments = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
            if any(part in models.get_model_builder(name).__module__ for part in ("detection", "segmentation")):
                arguments["weights_backbone"] = None
            model = models.get_model(name, weights=None, **arguments)
            if "detection" in type(model).__module__:
                return model, ([torch.rand(3, 128, 128)],)
            if name.startswith("raft"):
                return model, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
            shape = next((s for begins, s in VISION.items() if name.startswith(begins)), (1, 3, 64, 64))
            return model, (torch.randn(shape),)

        yield name, build


# What names of small models have in them, and of large ones.
SMALL_WORDS = ("test_", "tiny", "nano", "atto", "femto", "pico", "xxs", "_xs", "small", "mini", "050", "18", "_b0", "_a0", "_s")
LARGE_WORDS = ("large", "huge", "giant", "_xl", "base", "_l", "_h", "enormous", "so400m", "152", "101", "448", "384", "512")


def timm_models(of_family):
    import timm

    for family in timm.list_modules():
        size = lambda name: (sum(w in name for w in LARGE_WORDS) - sum(w in name for w in SMALL_WORDS), len(name))
        for name in sorted(timm.list_models(module=family), key=size)[:of_family]:

            def build(name=name):
                model = timm.create_model(name, pretrained=False)
                return model, (torch.randn(1, *model.default_cfg.get("input_size", (3, 224, 224))),)

            yield name, build


# ---- transformers ---------------------------------------------------------------------------------------------------------------

LAYERS = dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2)
NAMES = dict(vocab_size=99, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=64)
WIDTHS = {**dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "image_size"), 32),
          **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
          **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"), 64),
          **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
          **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 16), **dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "d_kv"), 8),
          "num_key_value_heads": 2, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 32, "patch_size": 8}
SMALLER = ({**LAYERS, **NAMES, **WIDTHS, "head_dim": 8, "rotary_dim": 8}, {**LAYERS, **NAMES, **WIDTHS},
           {**LAYERS, **NAMES, **WIDTHS, "num_key_value_heads": 4}, {**LAYERS, **NAMES}, LAYERS, {})


def given(model, config, kind):
    """Inputs by name."""
    name = getattr(model, "main_input_name", "input_ids")
    if name == "pixel_values":
        size = getattr(config, "image_size", None) or 224
        size = size if isinstance(size, int) else size[0]
        return {name: torch.randn(1, getattr(config, "num_channels", None) or 3, size, size)}
    if name == "input_values":
        return {name: torch.randn(1, 16000)}
    if name == "input_features":
        return {name: torch.randn(1, getattr(config, "num_mel_bins", 80), 100)}
    tokens = torch.randint(3, 90, (2, 12))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return inputs | ({"decoder_input_ids": tokens[:, :5].clone()} if kind == "to text" else {})


def smaller_one(base, smaller):
    """A configuration like another, and so are those that it has of its parts."""
    arguments = {k: v for k, v in smaller.items() if isinstance(getattr(base, k, ""), (int, type(None)))}
    parts = {k: smaller_one(v, smaller) for k, v in vars(base).items() if hasattr(v, "model_type")}
    return type(base)(**arguments, **parts)


def small_model(transformers, configuration, model_class, kind):
    """The smallest that its configuration allows and that PyTorch runs."""
    why = "no small one"
    for smaller in SMALLER:
        try:
            config = smaller_one(configuration(), smaller)
            config.use_cache = False
            with torch.device("meta"):
                count = sum(p.numel() for p in model_class(config).parameters())
            if count > PARAMETERS:
                why = f"{count / 1e6:.0f} million parameters"
                continue
            model = model_class(config).eval()
            inputs = given(model, config, kind)
            model = Plain(model, list(inputs))
            with torch.no_grad():
                model(*inputs.values())
            return model, tuple(inputs.values())
        except Exception as error:
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
    raise Refused(why)


def transformers_models(_):
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    kinds = {"text": "CAUSAL_LM", "to text": "SEQ_TO_SEQ_CAUSAL_LM", "masked": "MASKED_LM", "image": "IMAGE_CLASSIFICATION"}
    mappings = [(k, getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")) for k, name in kinds.items()]
    seen = set()
    for kind, mapping in (*mappings, ("any", modeling_auto.MODEL_MAPPING_NAMES)):
        for name, class_name in mapping.items():
            if name not in seen:
                seen.add(name)
                class_name = class_name if isinstance(class_name, str) else class_name[0]

                def build(name=name, class_name=class_name, kind=kind):
                    configuration = getattr(transformers, configuration_auto.CONFIG_MAPPING_NAMES[name])
                    return small_model(transformers, configuration, getattr(transformers, class_name), kind)

                yield name, build


# ---- diffusers ---------------------------------------------------------------------------------------------------------------------


def diffusers_models(_):
    import diffusers

    for name in MODELS:
        yield name, lambda name=name: diffusion_model(diffusers, name)


ZOOS = {"torchvision": torchvision_models, "timm": timm_models, "transformers": transformers_models, "diffusers": diffusers_models}

# ---- comparison ---------------------------------------------------------------------------------------------------------------------


def longer(program, inputs):
    """The inputs, half as much again along every size that is left open."""
    made = {}
    for name, value in inputs.items():
        node = next(n for n in program.graph.nodes if n.name == name)
        for dim, size in enumerate(node.meta["val"].shape):
            if isinstance(size, torch.SymInt):
                symbols = {s: size.node.shape_env.var_to_val[s] * 3 // 2 for s in size.node.expr.free_symbols}
                count = int(size.node.expr.subs(symbols))
                value = value.index_select(dim, torch.arange(count) % value.shape[dim])
        made[name] = value
    return made


def of_dtype(value, dtype):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, value)


def export(build, options, path):
    """Saves the program; its inputs by name, what PyTorch makes of them, and what in float32 if they are narrower."""
    try:
        module, args = build()
        if sum(p.numel() for p in module.parameters()) > PARAMETERS:
            raise Refused("too large")
        module.eval()
        break_ties(module)
        exact = None
        with torch.no_grad():
            if options.dtype != torch.float32:
                args = of_dtype(args, options.dtype)
                exact = module.to(options.dtype).float()(*of_dtype(args, torch.float32))
                module.to(options.dtype)
            expected = module(*args)
    except Refused as error:
        raise Refused(f"not built: {error}")
    except Exception as error:
        raise Refused(f"not run by PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}")
    try:
        with torch.no_grad():
            shapes = pytree.tree_map_only(torch.Tensor, lambda t: [torch.export.Dim.AUTO] * t.dim(), args)
            shapes = (shapes,) if isinstance(module, Plain) else shapes
            program = torch.export.export(module, args, strict=False, dynamic_shapes=shapes if options.dynamic else None)
            program = program.run_decompositions() if options.core else program
        torch.export.save(program, path)
    except Exception as error:
        raise Refused(f"not exported by PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}")
    leaves, spec = pytree.tree_flatten(args)
    inputs = dict(zip((s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"), leaves))
    if options.dynamic:
        inputs = longer(program, inputs)
        args = pytree.tree_unflatten(list(inputs.values()), spec)
        try:
            with torch.no_grad():
                program.module()(*args)
                expected = module(*args)
                exact = None if exact is None else module.float()(*of_dtype(args, torch.float32))
        except Exception as error:
            raise Refused(f"longer not run by PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}")
    return inputs, tensors(expected), tensors(exact)


def close(got, expected):
    """As PyTorch's tests ask, a hundredfold for what many layers add up, or that near beside the greatest."""
    try:
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
        return True
    except AssertionError:
        same = got.shape == expected.shape and got.dtype == expected.dtype and expected.is_floating_point()
        return same and bool((got - expected).abs().max() <= 1e-4 * expected.abs().max())


def as_near(got, expected, exact):
    """Is exg no further from the exact answer than PyTorch, by the mean square? Two such sums of roundings are not equal to a tenth."""
    if got.shape != expected.shape or got.dtype != expected.dtype or not got.is_floating_point():
        return False
    off = [(x.double() - exact.double()).square().mean().sqrt() for x in (got, expected)]
    return bool(off[0] <= 1.2 * off[1])


def compare(exg, options, build, model):
    """None, or why exg and PyTorch do not agree."""
    inputs, expected, exact = export(build, options, model)
    results, _ = exg.run(model, inputs)
    for i, value in enumerate(expected):
        if str(i) not in results:
            return f"output {i} is not there"
        if not close(results[str(i)], value) and not (exact and as_near(results[str(i)], value, exact[i])):
            got = results[str(i)]
            if got.shape != value.shape:
                return f"output {i} is of another shape"
            return f"output {i} differs by {(got.double() - value.double()).abs().max():.3g} of {value.abs().max():.3g}"
    return None


def expire(*_):
    raise Refused(f"more than {SECONDS} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--zoo", default=",".join(ZOOS))
    parser.add_argument("--of-family", type=int, default=1, help="models of a family of timm")
    parser.add_argument("--core", action="store_true", help="after run_decompositions()")
    parser.add_argument("--dynamic", action="store_true", help="sizes left open")
    parser.add_argument("--dtype", default="float32", help="of weights and inputs: bfloat16")
    parser.add_argument("--only", default="", help="names that begin so")
    parser.add_argument("--table", type=pathlib.Path)
    options = parser.parse_args()
    options.dtype = getattr(torch, options.dtype)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    without_operators()
    signal.signal(signal.SIGALRM, expire)
    known = options.table.read_text().splitlines() if options.table and options.table.exists() else []
    done = {" ".join(line.split()[1:3]) for line in known}
    counts = {}
    for zoo in options.zoo.split(","):
        for name, build in ZOOS[zoo](options.of_family):
            if not name.startswith(options.only) or f"{zoo} {name}" in done:
                continue
            torch.manual_seed(0)
            start = time.monotonic()
            signal.alarm(SECONDS)
            try:
                with tempfile.TemporaryDirectory(prefix="exg-zoo-") as room:
                    why = compare(Exg(options.exg, room), options, build, pathlib.Path(room) / "m.pt2")
                verdict = "FAIL" if why else "ok"
            except Refused as error:
                verdict, why = "none", str(error)
            except Mismatch as error:
                verdict, why = "FAIL", str(error)
            except Exception as error:
                verdict, why = "FAIL", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
            signal.alarm(0)
            line = f"{verdict:4} {zoo} {name} {why or ''}".rstrip()
            counts[zoo, verdict] = counts.get((zoo, verdict), 0) + 1
            print(f"{line} ({time.monotonic() - start:.0f} s)", flush=True)
            if options.table:
                with options.table.open("a") as table:
                    table.write(line + "\n")
    print(f"{'zoo':14} {'agree':>6} {'of':>4}  not built, not run or not exported by PyTorch")
    for zoo in options.zoo.split(","):
        agree, fail, none = (counts.get((zoo, v), 0) for v in ("ok", "FAIL", "none"))
        print(f"{zoo:14} {agree:6} {agree + fail:4}  {none}")
    return 1 if any(verdict == "FAIL" for _, verdict in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
