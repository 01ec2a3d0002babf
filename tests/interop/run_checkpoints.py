"""Files of torch.save: every tensor that Python can load of them, exg gives, bit for bit, whatever lies beside it."""

import argparse
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import warnings

try:
    import checkpoints
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint
except ImportError as error:
    print(f"FAIL checkpoints: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)

warnings.filterwarnings("ignore")


def same(got, want):
    missing, extra = sorted(want.keys() - got.keys()), sorted(got.keys() - want.keys())
    if missing or extra:
        raise AssertionError(f"missing {missing[:4]}, not expected {extra[:4]}")
    for name, b in want.items():
        a, b = got[name], b.detach().contiguous()
        if a.dtype != b.dtype or a.shape != b.shape:
            raise AssertionError(f"{name}: {a.dtype} {tuple(a.shape)}, expected {b.dtype} {tuple(b.shape)}")
        if not torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)):
            raise AssertionError(f"{name}: other bits: {a.reshape(-1)[:6]}, expected {b.reshape(-1)[:6]}")


class Checks:
    def __init__(self, exg, folder):
        self.exg, self.folder, self.calls = exg, pathlib.Path(folder), 0

    def path(self, name):
        self.calls += 1
        folder = self.folder / str(self.calls)
        folder.mkdir()
        return folder / name

    def run(self, *words):
        return subprocess.run([self.exg, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)

    def load(self, source):
        out = self.path("out.safetensors")
        done = self.run("convert", source, out)
        if done.returncode != 0:
            raise AssertionError(done.stderr.strip() or done.stdout)
        return safetensors.torch.load_file(out)

    def inspect(self, source):
        done = self.run("inspect", source, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def compare(self, case, **options):
        value = checkpoints.CASES[case]()
        path = self.path(f"{case}.pt")
        torch.save(value, path, **options)
        want = checkpoints.expected(value)
        same(self.load(path), {case: want[""]} if want.keys() == {""} else want)
        told = self.inspect(path)
        strict = self.run("inspect", path, "--strict").returncode
        assert (strict != 0) == bool(told["skipped"]), (strict, told["skipped"])

    # ---- what is said of it --------------------------------------------------------------------

    def check_modules_list_what_state_dict_leaves_out(self):
        path = self.path("a.pt")
        torch.save(checkpoints.yolo(), path)
        told = {row["name"]: row["kind"] for row in self.inspect(path)["skipped"]}
        assert told["model"] == "models.yolo.DetectionModel" and told["model.stride"].startswith("a tensor that"), told
        assert told["model.grid"].startswith("a tensor that"), told

    def check_dangerous_names_are_told_and_nothing_runs(self):
        canary = self.path("canary")

        class Attack:
            def __reduce__(self):
                return (__import__("os").system, (f"touch {canary}",))

        path = self.path("a.pt")
        torch.save({"w": torch.ones(2), "x": Attack()}, path)
        told = self.inspect(path)
        assert [row["code"] for row in told["skipped"]] == ["dangerous"], told["skipped"]
        assert "system(" in told["skipped"][0]["kind"]
        text = self.run("inspect", path)
        assert text.returncode == 0 and "do not load it in Python" in text.stdout, text.stdout
        same(self.load(path), {"w": torch.ones(2)})
        assert not canary.exists()
        assert self.run("convert", path, self.path("o.safetensors"), "--strict").returncode != 0

    def check_a_second_pickle_is_told(self):
        import zipfile

        path = self.path("a.pt")
        torch.save({"w": torch.ones(2)}, path)
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("a/other.pkl", pickle.dumps([1]))
            file.writestr("b/x.bin", pickle.dumps([1]))
            file.writestr("a/readme.txt", "hello")
        told = {row["name"]: row["kind"] for row in self.inspect(path)["skipped"]}
        assert told["a/other.pkl"] == told["b/x.bin"] == "a second pickle, not read", told
        assert told["a/readme.txt"] == "a record that torch.load does not read", told

    def check_constants_of_a_frozen_module(self):
        """TorchScript that was frozen has no attributes: its weights are constants of the code."""
        module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Conv1d(5, 2, 1)).eval()
        frozen = torch.jit.freeze(torch.jit.script(module), optimize_numerics=False)
        path = self.path("a.pt")
        torch.jit.save(frozen, path)
        constants = torch.jit.load(path).code_with_constants[1].const_mapping
        assert len(constants) == 4, list(constants)
        same(self.load(path), {f"constants.{name[1:]}": value for name, value in constants.items()})
        torch.jit.save(torch.jit.script(module), path)
        same(self.load(path), dict(module.state_dict()))

    def check_metadata(self):
        path = self.path("a.pt")
        torch.save(checkpoints.values(), path)
        told = self.inspect(path)["metadata"]
        want = {"set": "{1, 2}", "counter.a": "2", "bytes": "b'\\xffa'", "array": "b'xy'", "long": str(2**100), "minus": str(-(2**70)),
                "complex": "(1.0+2.0j)", "size": "(2, 3)", "dtype": "torch.bfloat16", "device": "cuda:1", "layout": "torch.strided",
                "none": "None", "empty": "{}", "nested.0": "[1, (2,)]", "inf": "inf"}  # fmt: skip
        assert {key: told.get(key) for key in want} == want, told

    def check_tar(self):
        path = self.path("a.pt")
        value = {"w": torch.arange(6.0).reshape(2, 3), "t": torch.arange(6.0).reshape(2, 3).t(), "b": torch.tensor([1, 2])}
        path.write_bytes(checkpoints.tar(value))
        same(torch.load(path, weights_only=False), value)  # PyTorch agrees that it is such a file
        same(self.load(path), value)

    def check_dtensors(self):
        import torch.distributed.tensor as dt

        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", init_method=f"file://{self.path('store')}", rank=0, world_size=1)
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        whole, local = torch.arange(8.0).reshape(4, 2), torch.arange(4.0).reshape(2, 2)
        part = dt.DTensor.from_local(local, mesh, [dt.Shard(0)], run_check=False, shape=torch.Size([4, 2]), stride=(2, 1))
        path = self.path("a.pt")
        torch.save({"whole": dt.distribute_tensor(whole, mesh, [dt.Replicate()]), "part": part,
                    "p": torch.nn.Parameter(dt.distribute_tensor(whole, mesh, [dt.Shard(0)]))}, path)  # fmt: skip
        same(self.load(path), {"whole": whole, "part": local, "p": whole})
        told = self.inspect(path)
        assert [row["name"] for row in told["skipped"]] == ["part"] and "Shard(dim=0)" in told["skipped"][0]["kind"], told["skipped"]
        assert told["metadata"]["p.placements"] == "(Shard(dim=0),)", told["metadata"]
        assert {t["name"]: t.get("is_param") for t in told["tensors"]}["p"] in (True, None)
        torch.distributed.destroy_process_group()  # those that are forked from here have their own

    def distributed(self, save, world):
        """What torch's own tool makes of the folder is what exg gives of it."""
        import torch.distributed.checkpoint.format_utils as format_utils

        folder = self.path("step-1")
        torch.multiprocessing.start_processes(save, (world, folder), world, start_method="fork")
        whole = folder.parent / "whole.pt"
        format_utils.dcp_to_torch_save(folder, whole)
        same(self.load(folder), checkpoints.expected(torch.load(whole, weights_only=False)))
        same(self.load(folder / ".metadata"), checkpoints.expected(torch.load(whole, weights_only=False)))
        return folder

    def check_distributed_alone(self):
        self.distributed(checkpoints.save_sharded, 1)

    def check_distributed_on_a_line(self):
        folder = self.distributed(checkpoints.save_sharded, 2)
        for file in folder.glob("*.distcp"):
            file.unlink()
        done = self.run("inspect", folder)
        assert done.returncode == 3 and "DCP-MISSING" in done.stderr, done
        assert "__0_0.distcp" in done.stderr and "__1_0.distcp" in done.stderr, done.stderr

    def check_distributed_on_a_mesh(self):
        self.distributed(checkpoints.save_sharded, 4)

    def check_distributed_fsdp(self):
        self.distributed(checkpoints.save_fsdp, 2)

    def check_distributed_strided(self):
        """And a program takes those weights, placed as PyTorch had them."""
        folder, program = self.distributed(checkpoints.save_fsdp_tensor, 4), self.path("m.pt2")
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 6), torch.nn.Linear(6, 7)), torch.randn(3, 8)
        files = [self.path(f"{name}.safetensors") for name in ("in", "out")]
        for file, value in zip(files, (x, model(x).detach())):
            safetensors.torch.save_file({"input" if file is files[0] else "0": value}, file)
        for weight in model.parameters():
            torch.nn.init.zeros_(weight)
        torch.export.save(torch.export.export(model, (x,)), program)
        place = self.path("place.json")
        strided = ["_StridedShard(dim=0, sf=2)", "Shard(dim=0)"]
        place.write_text(json.dumps({"weights": {"[02].*": strided, "1.weight": ["Shard(dim=0)", "Shard(dim=1)"]}}))
        for words in (place, "fsdp,tensor"):
            done = self.run("run", program, "--weights-from", folder, "--input", files[0], "--expect", files[1],
                            "--mesh", "2x2", "--place", words)  # fmt: skip
            assert done.returncode == 0, done.stderr + done.stdout

    # ---- distributed checkpoints that exg writes ------------------------------------------------------

    def loads(self, folder, want):
        """PyTorch loads the folder on meshes of its own, and as one file; nothing else is in it."""
        import torch.distributed.checkpoint.format_utils as format_utils

        for world, dim in ((1, 0), (3, 0), (2, 1)):
            torch.multiprocessing.start_processes(checkpoints.load_sharded, (world, folder, dim, want), world, start_method="fork")
            pathlib.Path(f"{folder}.store").unlink(missing_ok=True)
        whole = folder.parent / f"{folder.name}.pt"
        format_utils.dcp_to_torch_save(folder, whole)
        same(torch.load(whole), want)
        assert all(file.suffix == ".distcp" or file.name == ".metadata" for file in folder.iterdir())

    def check_pytorch_loads_what_convert_writes(self):
        weights = self.path("w.safetensors")
        done = self.run("convert", "fixtures/lm.core.dynamic.pt2", weights)
        assert done.returncode == 0, done.stderr
        want = safetensors.torch.load_file(weights)
        for mesh in ((), ("--shard", "2x3", "--place", "data,tensor", "--for", "fixtures/lm.core.dynamic.pt2")):
            folder = self.path("step-1")
            done = self.run("convert", weights, folder / ".metadata", *mesh)
            assert done.returncode == 0, done.stderr
            assert len(list(folder.glob("*.distcp"))) == (3 if mesh else 1)
            self.loads(folder, want)

    def check_pytorch_loads_every_dtype(self):
        names = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
                 "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128")  # fmt: skip
        want = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in names}
        want |= {"empty": torch.zeros(0, 3), "scalar": torch.tensor(7.5), "parameter": torch.nn.Parameter(torch.ones(2))}
        source, folder = self.path("a.pt"), self.path("step-1")
        torch.save(want, source)
        done = self.run("convert", source, folder / ".metadata")
        assert done.returncode == 0, done.stderr
        got = {name: torch.zeros_like(value) for name, value in want.items()}
        torch.distributed.checkpoint.load(got, checkpoint_id=str(folder), no_dist=True)
        same(got, want)

    def check_pytorch_loads_what_ranks_write(self):
        """Of meshes, placements and strided shards: see tests/exec/dtensor/checkpoint.c, which calls exg_checkpoint_save()."""
        folder = self.path("all")
        folder.mkdir()
        subprocess.run([self.exg.parents[1] / "tests/test_exec_checkpoint", folder], check=True)
        count = lambda *sizes: torch.arange(1, torch.Size(sizes).numel() + 1).reshape(sizes)  # noqa: E731
        want = {"layers.0.weight": count(7, 6).float(), "layers.0.bias": count(13), "step": count().int(),
                "empty": torch.zeros(0, 4), "experts": count(4, 3, 2).double()}  # fmt: skip
        cases = sorted(folder.iterdir())
        assert len(cases) == 8, cases
        for case in cases:
            self.loads(case, want)

    def check_a_tensor_subclass(self):
        class Mine(torch.Tensor):
            pass

        Mine.__module__, Mine.__qualname__ = "mine.tensors", "Mine"
        checkpoints.stand_in("mine.tensors.Any")
        sys.modules["mine.tensors"].Mine = Mine
        tensor = torch.arange(3.0).as_subclass(Mine)
        tensor.scale = torch.ones(1)
        path = self.path("a.pt")
        torch.save({"w": tensor}, path)
        same(self.load(path), {"w": torch.arange(3.0), "w.scale": torch.ones(1)})
        assert self.inspect(path)["skipped"][0]["kind"] == "the class mine.tensors.Mine of a tensor"

    def check_a_plain_module_of_an_older_form(self):
        path = self.path("a.pt")
        module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        torch.save({"m": module, "again": module}, path, _use_new_zipfile_serialization=False)
        want = {f"{p}.{k}": v for p in ("m", "again") for k, v in module.state_dict().items()}
        same(self.load(path), want)


def add(title, case, **options):
    def check(self):
        self.compare(case, **options)

    setattr(Checks, f"check_{case}_{title}", check)


for case in checkpoints.CASES:
    add("zip", case)
    add("stream", case, _use_new_zipfile_serialization=False)
    add("protocol_5", case, pickle_protocol=5)
for protocol in (1, 3, 4):
    add(f"protocol_{protocol}", "values", pickle_protocol=protocol)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    binary = pathlib.Path(options.exg).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(binary, folder)
        for name in sorted(n for n in dir(checks) if n.startswith("check_") and options.only in n):
            title = name[6:].replace("_", " ")
            try:
                getattr(checks, name)()
            except Exception as error:  # any surprise is a failed check; the others still run
                failed += 1
                print(f"FAIL {title}: {type(error).__name__} {error}")
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
