"""mesh_models.py - the programs that placements are compared on: the kinds of tests/interop/run_tensor.py, as large as a run of some
milliseconds, and a recurrent one.

    python3 tests/bench/mesh_models.py FOLDER       # writes FOLDER/NAME.pt2
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))

import torch  # noqa: E402
from run_tensor import Convolutions, Experts, Grouped, Plain, Relative, Vision, ids  # noqa: E402


class Recurrent(torch.nn.Module):
    def __init__(self, width=192, words=500):
        super().__init__()
        self.emb = torch.nn.Embedding(words, width)
        self.rnn = torch.nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(2 * width, words)

    def forward(self, x):
        return self.head(self.rnn(self.emb(x))[0])


MODELS = {
    "gqa": lambda: (Grouped(width=512, heads=16, groups=4, inner=1408, words=2000, fused=True), (ids(2000, 4, 64),)),
    "mha": lambda: (Plain(width=384, heads=12, inner=1536, words=2000), (ids(2000, 8, 60),)),
    "moe": lambda: (Experts(width=256, count=8, inner=512), (torch.randn(4, 64, 256),)),
    "vit": lambda: (Vision(width=384, heads=12, inner=1536), (torch.randn(16, 3, 32, 32),)),
    "conv": lambda: (Convolutions(width=64), (torch.randn(8, 3, 32, 32),)),
    "t5": lambda: (Relative(width=384, heads=12, inner=1024, words=2000), (ids(2000, 4, 64), ids(2000, 4, 40))),
    "lstm": lambda: (Recurrent(), (ids(500, 8, 40),)),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        torch.manual_seed(0)
        module, inputs = make()
        with torch.no_grad():
            torch.export.save(torch.export.export(module.eval(), inputs), folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
