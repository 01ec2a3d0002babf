"""Parameters that are tensor subclasses: what torchao quantises, exported as it is. exg reads the tensors inside of the pickles,
runs the program as PyTorch does, keeps the pickles in every form, and writes the tensors as safetensors. See README.md beside
this file."""

import subprocess
import sys
import zipfile

from run_interop import fail, run_cases, safetensors, torch

try:
    import torchao.quantization as q
    from torchao.prototype.mx_formats import inference_workflow as mx
    from torchao.quantization import quantize_
    from torchao.quantization.quantize_.common import KernelPreference
except ImportError:
    q = None


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 128), torch.nn.Linear(128, 32, bias=False)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))



CONFIGS = {
    "int8 weights": (lambda: q.Int8WeightOnlyConfig(), torch.float32),
    "int8 weights, bfloat16": (lambda: q.Int8WeightOnlyConfig(), torch.bfloat16),
    "int8 by group": (lambda: q.Int8WeightOnlyConfig(granularity=q.PerGroup(32)), torch.float32),
    "int8 dynamic": (lambda: q.Int8DynamicActivationInt8WeightConfig(), torch.float32),
    "int8 dynamic, bfloat16": (lambda: q.Int8DynamicActivationInt8WeightConfig(), torch.bfloat16),
    "intx 4 bits": (lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=q.PerGroup(32)), torch.float32),
    "intx 2 bits by row": (lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int2, granularity=q.PerAxis(0)), torch.float32),
    "int8 activations, intx 4 bits": (
        lambda: q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=q.PerGroup(32)),
        torch.float32,
    ),
    "float8 weights": (lambda: q.Float8WeightOnlyConfig(), torch.float32),
    "float8 weights, bfloat16": (lambda: q.Float8WeightOnlyConfig(), torch.bfloat16),
    "float8 dynamic, bfloat16": (lambda: q.Float8DynamicActivationFloat8WeightConfig(), torch.bfloat16),
    "float8 by tensor": (lambda: q.Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2), torch.float32),
    "MXFP8": (lambda: mx.MXDynamicActivationMXWeightConfig(kernel_preference=KernelPreference.EMULATED), torch.bfloat16),
    "MXFP4": (
        lambda: mx.MXDynamicActivationMXWeightConfig(
            activation_dtype=torch.float4_e2m1fn_x2, weight_dtype=torch.float4_e2m1fn_x2, kernel_preference=KernelPreference.EMULATED
        ),
        torch.bfloat16,
    ),
    "NVFP4 weights": (lambda: mx.NVFP4WeightOnlyConfig(), torch.bfloat16),
    "NVFP4": (lambda: mx.NVFP4DynamicActivationNVFP4WeightConfig(use_triton_kernel=False), torch.bfloat16),
}


def refused(exg, path, *words):
    done = subprocess.run([exg.binary, "run", path], capture_output=True, text=True)
    if done.returncode != 5 or not all(word in done.stderr for word in words):
        fail(f"{done.returncode} {done.stderr}")


def check(exg, config, dtype):
    torch.manual_seed(5)
    module, x = Layers().to(dtype).eval(), torch.randn(6, 64).to(dtype)
    try:
        quantize_(module, config())
        program = torch.export.export(module, (x,))
        path = exg.path(".pt2")
        torch.export.save(program, path)
        expected = torch.export.load(path).module()(x)
    except Exception as error:  # what torchao cannot do on this machine says nothing of exg
        print(f"     not made by PyTorch: {str(error).strip().splitlines()[0][:90]}")
        return
    said = exg.command("verify", path)
    if "used as a whole" in said:
        refused(exg, path, "TRF-002")
        try:
            program = program.run_decompositions({})  # what the message says
            torch.export.save(program, path)
            expected = torch.export.load(path).module()(x)
        except Exception as error:
            print(f"     not decomposed by PyTorch: {str(error).strip().splitlines()[0][:90]}")
            return
        said = exg.command("verify", path)
    if "warning:" in said:
        fail(said.splitlines()[0])
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 4e-2, "atol": 4e-2}
    forms = {".pt2": path, ".exg": exg.convert(path, ".exg")}
    forms["back"] = exg.convert(forms[".exg"], ".pt2")
    for form, file in forms.items():
        for options in ({}, {"mesh": "2", "place": "tensor"}):
            outputs, _ = exg.run(file, {"x": x}, **options)
            if outputs["0"].dtype != expected.dtype or not torch.allclose(outputs["0"], expected, **tolerance):
                fail(f"{form} {options}: differs by {(outputs['0'] - expected).abs().max()}")
    with zipfile.ZipFile(path) as a, zipfile.ZipFile(forms["back"]) as b:
        pickles = [sorted(z.read(name) for name in z.namelist() if "/weights/weight_" in name) for z in (a, b)]
        if pickles[0] != pickles[1]:
            fail("the pickles are others")
    inner = {}
    for name, value in program.state_dict.items():
        names = value.__tensor_flatten__()[0] if hasattr(type(value), "__tensor_flatten__") and type(value) is not torch.nn.Parameter else []
        inner.update({f"{name}.{part}": getattr(value, part) for part in names})
        if not names:
            inner[name] = value
    written = safetensors.torch.load_file(exg.convert(path, ".safetensors"))
    for name, value in inner.items():
        if type(value) is torch.Tensor and value.is_contiguous() and not torch.equal(written[name].reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8)):
            fail(f"{name} is another in safetensors")


def whole(exg):
    """A subclass that an operator takes as it is: refused by name, and kept."""
    path, broken = exg.path(".pt2"), exg.path(".pt2")
    module = Layers().eval()
    quantize_(module, q.Int8WeightOnlyConfig())
    torch.export.save(torch.export.export(module, (torch.randn(6, 64),)), path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(broken, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'"qdata"', b'"zdata"') if name.endswith("model.json") else data)
    if "WGT-013" not in exg.command("verify", broken):
        fail("verify does not tell")
    refused(exg, broken, "TRF-002", "first.weight.zdata")


HELD = {  # how a module comes to one: called with the module, the weight and another layer
    "an attribute": (lambda m, w: setattr(m, "w", w),),
    "a buffer": (lambda m, w: m.register_buffer("w", w),),
    "a buffer that is not saved": (lambda m, w: m.register_buffer("w", w, persistent=False),),
    "two names": (lambda m, w: (m.register_buffer("w", w), m.register_buffer("other", w)),),
}


def held(exg, hold):
    """Wherever PyTorch stores a subclass: in the state, or among the constants."""

    class Holder(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.linear(x, self.w) + torch.nn.functional.linear(x, getattr(self, "other", self.w))

    layer, module, x = torch.nn.Linear(64, 32), Holder(), torch.randn(3, 64)
    quantize_(layer, q.Int8WeightOnlyConfig())
    hold(module, layer.weight.detach())
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(module, (x,)), path)
    expected = torch.export.load(path).module()(x)
    for form in (path, exg.convert(path, ".exg"), exg.convert(exg.convert(path, ".exg"), ".pt2")):
        if not torch.allclose(exg.run(form, {"x": x})[0]["0"], expected, rtol=1e-4, atol=1e-5):
            fail(f"{form.suffix} gives another result")
    back = exg.path(".pt2")
    exg.command("convert", path, back, "--weights-from", exg.convert(path, ".safetensors"), "--partial")
    if not torch.equal(torch.export.load(back).module()(x), expected):
        fail("what came back is another in PyTorch")


class Product(torch.nn.Module):
    def forward(self, x, given):
        return torch.nn.functional.linear(x, given["w"]).relu()


INPUTS = {name: CONFIGS[name] for name in ("int8 weights", "int8 by group", "intx 4 bits", "float8 weights, bfloat16")}


def as_inputs(exg, config, dtype):
    """Subclasses that are given: by the names of the tensors inside, nested as a dict is."""
    layer, x = torch.nn.Linear(64, 32).to(dtype), torch.randn(6, 64).to(dtype)
    quantize_(layer, config())
    weight = layer.weight.data if hasattr(layer.weight.data, "__tensor_flatten__") else layer.weight
    path = exg.path(".pt2")
    program = torch.export.export(Product(), (x, {"w": weight}))
    torch.export.save(program, path)
    expected = torch.export.load(path).module()(x, {"w": weight})
    exg.command("verify", path)
    asked = {node.args[1] for node in program.graph.nodes if "access_subclass_inner_tensor" in str(node.target)}
    inner = {f"given.w.{part}": getattr(weight, part) for part in weight.__tensor_flatten__()[0] if part in asked}
    for form in (path, exg.convert(path, ".exg"), exg.convert(path, ".pt2")):
        for options in ({}, {"mesh": "2", "place": "auto"}):
            outputs, _ = exg.run(form, {"x": x, **inner}, **options)
            if not torch.allclose(outputs["0"], expected, rtol=4e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-2 if dtype == torch.bfloat16 else 1e-5):
                fail(f"{form} {options}: differs by {(outputs['0'] - expected).abs().max()}")
    exg.command("run", path, "--fill", "random")
    alone = exg.path(".safetensors")
    safetensors.torch.save_file({"x": x}, alone)
    done = subprocess.run([exg.binary, "run", path, "--input", alone], capture_output=True, text=True)
    if done.returncode != 2 or "given_w_qdata" not in done.stderr:
        fail(f"without the weight: {done.returncode} {done.stderr}")


BACK = {name: CONFIGS[name] for name in ("int8 weights, bfloat16", "int8 dynamic", "intx 4 bits", "float8 weights")}


def weights_back(exg, config, dtype):
    """What was written as safetensors, or as another program, goes back into the pickles, which PyTorch reads."""
    made, x = [], torch.randn(6, 64).to(dtype)
    for seed in (1, 2):
        torch.manual_seed(seed)
        module, path = Layers().to(dtype).eval(), exg.path(".pt2")
        quantize_(module, config())
        torch.export.save(torch.export.export(module, (x,)), path)
        made.append((path, torch.export.load(path).module()(x)))
    (path, _), (other, expected) = made
    tensors = exg.convert(other, ".safetensors")
    packed = exg.path(".exg")
    exg.command("convert", path, packed, "--compress", "zstd")
    for of, giver in ((path, tensors), (path, other), (packed, tensors)):
        filled = exg.path(".pt2")
        exg.command("convert", of, filled, "--weights-from", giver)
        if not torch.equal(torch.export.load(filled).module()(x), expected):
            fail(f"{of.suffix} filled from {giver.suffix} is another in PyTorch")
        exg.command("verify", filled, "--data", "--deny", "warnings")
        given = exg.run(filled, {"x": x})[0]["0"]
        if not torch.equal(given, exg.run(other, {"x": x})[0]["0"]) or not torch.equal(given, exg.run(path, {"x": x}, **{"weights-from": giver})[0]["0"]):
            fail("exg runs it otherwise")
    if "WGT-018" in exg.command("verify", tensors, "--for", path):
        fail("verify --for knows the tensors not")


def taken_whole(exg):
    """An input of which the file does not say that it is a subclass takes what it says: a plain tensor."""
    from torch.testing._internal.two_tensor import TwoTensor

    class Made(torch.nn.Module):
        def forward(self, x):
            return (x * 2).a + 1

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Layers(), (TwoTensor(torch.randn(2, 64), torch.randn(2, 64)),)), path)
    exg.run(path, {"x": torch.randn(2, 64)})
    torch.export.save(torch.export.export(Made(), (TwoTensor(a, b),)), path)
    refused(exg, path, "TRF-002", "'mul' is a tensor subclass that the program makes")


if __name__ == "__main__":
    if q is None:
        print("torchao is not installed: nothing of it was tested")
        sys.exit(0)
    sys.exit(run_cases(__doc__, ("torchao: ", check, CONFIGS), ("held by ", held, HELD), ("given, ", as_inputs, INPUTS), ("back, ", weights_back, BACK), ("", whole, {"a tensor that is not there": ()}), ("", taken_whole, {"given, of which the file says nothing": ()})))
