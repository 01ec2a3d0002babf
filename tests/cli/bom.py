"""bom.py EXG - exg digest --sbom: what it says is so. That it is CycloneDX: tests/interop/run_bom.py, by the published schema."""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = str(pathlib.Path(sys.argv[1]).resolve())


def exg(*words):
    return subprocess.run([EXG, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def component(path):
    first, second = exg("digest", path, "--sbom"), exg("digest", path, "--sbom", "--threads", "1")
    assert first == second  # one model has one bill
    bom = json.loads(first)
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    return bom["metadata"]["component"]


def properties(of):
    return {p["name"]: p["value"] for p in of["properties"]}


def hash_of(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256((ROOT / path).read_bytes()).hexdigest()}]


def main():
    program = component("fixtures/lm.core.dynamic.pt2")
    assert program["type"] == "machine-learning-model" and program["name"] == "lm.core.dynamic.pt2"
    assert program["hashes"] == hash_of("fixtures/lm.core.dynamic.pt2")
    card = program["modelCard"]["modelParameters"]
    assert card == {"modelArchitecture": "programs.lm.LanguageModel", "inputs": [{"format": "tokens: int64[1, s27]"}], "outputs": [{"format": "view_49: float32[1, s27, 128]"}]}, card
    said = properties(program)
    assert said["exg:digest"] == exg("digest", "fixtures/lm.core.dynamic.pt2").split("\n")[0]
    assert said["exg:torch_version"] == "2.13.0+cpu" and said["exg:parameters"] == "344704"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "model"
        folder.mkdir()
        exg("convert", "fixtures/mlp.pt2", folder / "model.safetensors", "--metadata", "license=apache-2.0", "--metadata", "modelspec.title=A model", "--metadata", "modelspec.architecture=mlp")
        (folder / "config.json").write_text("{}")
        one = component(folder / "model.safetensors")
        assert one["name"] == "A model" and one["licenses"] == [{"license": {"name": "apache-2.0"}}]
        assert one["modelCard"]["modelParameters"] == {"modelArchitecture": "mlp"} and one["hashes"] == hash_of(folder / "model.safetensors")
        whole = component(folder)
        assert "hashes" not in whole
        assert [(c["type"], c["name"], c["hashes"]) for c in whole["components"]] == [("file", n, hash_of(folder / n)) for n in ("config.json", "model.safetensors")]
        assert properties(whole)["exg:digest"] == properties(one)["exg:digest"]
    gguf = component("fixtures/weights/little.gguf")
    assert properties(gguf)["exg:format"] == "GGUF"
    checkpoint = component("fixtures/weights/saved/sd15.pt")
    assert "exg:skipped" in properties(checkpoint)


if __name__ == "__main__":
    main()
