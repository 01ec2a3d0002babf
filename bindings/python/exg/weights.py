"""Files of weights: safetensors, GGUF, checkpoints of torch, NumPy, ONNX, .exg, programs. Nothing that is in a file is run.

    tensors = exg.weights.open("model.safetensors")      # a mapping; bytes are read when a tensor is asked for
    exg.weights.convert("model.pt", "model.safetensors", dtype={"*": "bf16"})
    exg.weights.diff("base.safetensors", "tuned.gguf")
"""

import os
from collections.abc import Mapping as _Mapping
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._exg import ffi, lib
from .errors import call, path_of, text_of
from .tensors import Tensor

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[int, int], None]

_called: Dict[int, Any] = {}


@ffi.def_extern()
def exg_python_progress(user, done, total):
    _called[int(ffi.cast("intptr_t", user))](done, total)


@ffi.def_extern()
def exg_python_kept(user, name, why):
    _called[int(ffi.cast("intptr_t", user))](text_of(name), text_of(why))


class _Progress:
    """Puts a function of Python into the options of a save, while it lasts."""

    def __init__(self, options, progress: Optional[Progress]):
        self._key = id(self)
        self._progress = progress
        if progress is not None:
            options.progress = lib.exg_python_progress
            options.user = ffi.cast("void *", self._key)

    def __enter__(self):
        if self._progress is not None:
            _called[self._key] = self._progress
        return self

    def __exit__(self, *_):
        _called.pop(self._key, None)


@dataclass(frozen=True)
class Weight:
    """A tensor of a file, described; Weights[name] reads it."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    encoding: Optional[str]  #: of blocks of GGUF: "Q4_K"; dtype and shape are of the bytes
    is_parameter: bool


@dataclass(frozen=True)
class Difference:
    """Where two files of weights part."""

    kind: str  #: "removed", "added", "changed", "renamed", "reshaped", "cast"
    name: str
    what: str
    differing: int
    max_abs: float
    max_ulp: int


class Weights(_Mapping):
    """Tensors by name. A tensor is read, and compared with its checksum, when it is asked for."""

    def __init__(self, pointer: Any):
        self._pointer = ffi.gc(pointer, lib.exg_weights_release)
        self._index = {text_of(w.fqn): i for i, w in reversed(list(enumerate(pointer.items[0 : pointer.count])))}

    def __getitem__(self, name: str) -> Tensor:
        weight = self._weight(name)
        meta = weight.meta
        tensor = ffi.new("exg_tensor *")
        tensor.dtype, tensor.rank = meta.dtype, meta.rank
        for d in range(meta.rank):
            tensor.sizes[d] = meta.sizes[d].value
        lib.exg_tensor_set_contiguous(tensor)
        bytes_ = ffi.new("uint64_t *")
        call(lib.exg_tensor_meta_bytes, meta, bytes_)
        tensor.data = lib.aligned_alloc(64, (bytes_[0] + 127) // 64 * 64)
        users = lib.tensor_users()
        if tensor.data == ffi.NULL or users == ffi.NULL:
            raise MemoryError(f"out of memory for {name!r}")
        made = Tensor(tensor, users)
        call(lib.exg_weight_read, self._pointer, weight, tensor.data, bytes_[0])
        return made

    def _weight(self, name: str):
        weight = ffi.addressof(self._pointer.items, self._index[name])
        if weight.meta == ffi.NULL:
            raise TypeError(f"{name!r} is no tensor")
        return weight

    def describe(self, name: str) -> Weight:
        """Of what dtype and shape, without reading it."""
        w = self._weight(name)
        return Weight(name, text_of(lib.exg_dtype_name(w.meta.dtype)), tuple(s.value for s in w.meta.sizes[0 : w.meta.rank]),
                      None if w.encoding == ffi.NULL else text_of(w.encoding), bool(w.is_param))  # fmt: skip

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._index, key=self._index.__getitem__))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def metadata(self) -> Dict[str, str]:
        pairs = self._pointer.metadata
        return {text_of(p.key): text_of(p.value) for p in pairs.items[0 : pairs.count]}

    @property
    def skipped(self) -> List[Tuple[str, str]]:
        """What is in the file and is no tensor that can be given: its name, and what it is."""
        return [(text_of(s.name), text_of(s.kind)) for s in self._pointer.skipped[0 : self._pointer.skipped_count]]

    def digest(self, kind: str = "sha256") -> str:
        """One number for all tensors, however they are stored: "sha256" or "xxh3-128"."""
        text = ffi.new("char[]", 65)
        call(lib.exg_weights_digest, self._pointer, {"sha256": lib.EXG_CHECKSUM_SHA256, "xxh3-128": lib.EXG_CHECKSUM_XXH3_128}[kind], 0, text)
        return f"{kind}:{text_of(text)}"

    def edit(self, *, select: Sequence[str] = (), exclude: Sequence[str] = (), rename: Optional[Mapping[str, str]] = None,
             dtype: Union[str, Mapping[str, str], None] = None, prefix_strip: Sequence[str] = (), transpose: Sequence[str] = (),
             metadata: Optional[Mapping[str, str]] = None, model_only: bool = False) -> "Weights":  # fmt: skip
        """Other tensors of these, made when they are read. Patterns: *, ?, [...]. rename: POSIX expressions and what stands for them.
        dtype: "bf16", or by pattern {"*.weight": "q8_0"}. Of metadata "" removes a key."""
        kept: List[Any] = []

        def texts(words):
            items = [ffi.new("char[]", w.encode()) for w in words]
            kept.extend(items)
            array = ffi.new("char *[]", items) if items else ffi.NULL
            kept.append(array)
            return ffi.cast("const char * const *", array)

        def pairs(options_map, words):
            array = ffi.new("exg_string_pair[]", max(len(words), 1))
            kept.append(array)
            for slot, (key, value) in zip(array, words):
                slot.key = ffi.NULL if key is None else kept.append(ffi.new("char[]", key.encode())) or kept[-1]
                slot.value = kept.append(ffi.new("char[]", value.encode())) or kept[-1]
            options_map.items, options_map.count = array, len(words)

        options = ffi.new("exg_weights_edit_options *")
        options.size = ffi.sizeof("exg_weights_edit_options")
        options.select, options.select_count = texts(select), len(select)
        options.exclude, options.exclude_count = texts(exclude), len(exclude)
        options.prefixes, options.prefix_count = texts(prefix_strip), len(prefix_strip)
        options.transposes, options.transpose_count = texts(transpose), len(transpose)
        options.model_only = model_only
        pairs(options.renames, list((rename or {}).items()))
        pairs(options.dtypes, [(None, dtype)] if isinstance(dtype, str) else list((dtype or {}).items()))
        pairs(options.metadata, list((metadata or {}).items()))
        made = ffi.new("exg_weights **")
        call(lib.exg_weights_edit, self._pointer, options, made)
        return Weights(made[0])

    def save(self, path: Path, *, split: int = 0, force: bool = False, progress: Optional[Progress] = None) -> None:
        """Writes all of it as the name says: .safetensors, .gguf, .npz, .npy, .pt, .exg. The old file or the new one, at any moment.

        split: bytes in one file at most. progress: called with bytes done and in all.
        """
        options = ffi.new("exg_weights_save_options *", {"size": ffi.sizeof("exg_weights_save_options"), "split": split, "force": force})
        with _Progress(options, progress):
            call(lib.exg_weights_save, self._pointer, path_of(path), options)

    def __repr__(self) -> str:
        return f"exg.weights.Weights({len(self)} tensors)"


def open(path: Path, *, strict: bool = False, check: bool = True) -> Weights:  # noqa: A001
    """Of a file, a folder of a model, an index, a checkpoint. strict: refuse what is listed in `skipped` otherwise."""
    made = ffi.new("exg_weights **")
    options = ffi.new("exg_open_options *", {"size": ffi.sizeof("exg_open_options"), "strict": strict, "no_check": not check})
    call(lib.exg_weights_open, path_of(path), options, made, ffi.NULL)
    return Weights(made[0])


def convert(source: Path, target: Path, *, split: int = 0, force: bool = False, progress: Optional[Progress] = None, **edits: Any) -> None:
    """Writes weights in another format, by the name of `target`; `edits` as Weights.edit()."""
    weights = open(source)
    (weights.edit(**edits) if edits else weights).save(target, split=split, force=force, progress=progress)


def diff(a: Union[Path, Weights], b: Union[Path, Weights], *, rtol: float = 0, atol: float = 0) -> List[Difference]:
    """Where two files part, by name and value, whatever their formats. None: they hold the same tensors."""
    opened = [w if isinstance(w, Weights) else open(w) for w in (a, b)]
    options = ffi.new("exg_diff_options *", {"size": ffi.sizeof("exg_diff_options"), "rtol": rtol, "atol": atol})
    found = ffi.gc(ffi.new("exg_diff *"), lib.exg_diff_free)
    call(lib.exg_diff_weights, opened[0]._pointer, opened[1]._pointer, options, found)
    return [Difference(text_of(lib.exg_diff_kind_name(d.kind)), text_of(d.where_a) or text_of(d.where_b), text_of(d.what), d.values.differing,
                       d.values.max_abs, d.values.max_ulp) for d in found.items[0 : found.count]]  # fmt: skip
