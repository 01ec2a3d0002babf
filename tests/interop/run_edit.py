"""What convert changes of weights, compared with what PyTorch makes of the same tensors."""

import argparse
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

        for check in (check_casts, check_views):
            try:
                passed += check(convert, folder)
            except Exception as error:  # noqa: BLE001 - every fault is told
                print(f"FAIL edit: {check.__name__}: {type(error).__name__}: {error}")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
