"""exg: opens, verifies, converts and runs programs saved by torch.export, without torch.

    program = exg.open("model.pt2")
    session = program.session()
    (y,) = session(x=x)             # tensors of torch, numpy or jax, by DLPack
    y.numpy(); y.torch()

`exg.weights` has files of weights. Faults are exg.Error, each with a stable code, what, where and the fix.
"""

from . import weights
from .errors import (DeviceError, Error, FileError, LimitError, MalformedError, Mismatch, OutOfMemoryError, PeerError,
                     UnsupportedError, UsageError)  # fmt: skip
from .errors import text_of as _text_of
from ._exg import lib as _lib
from .programs import Argument, Diagnostic, Node, Program, open  # noqa: A004
from .sessions import Session
from .tensors import Tensor

__version__ = _text_of(_lib.exg_version())
__all__ = [
    "Argument", "DeviceError", "Diagnostic", "Error", "FileError", "LimitError", "MalformedError", "Mismatch", "Node", "OutOfMemoryError",
    "PeerError", "Program", "Session", "Tensor", "UnsupportedError", "UsageError", "open", "weights",
]  # fmt: skip
