"""Tensors: what sessions give, what files of weights hold. They go to torch, numpy and jax by DLPack, without a copy."""

import ctypes
from typing import Any, Tuple

from ._exg import ffi, lib
from .errors import text_of

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_rename_capsule = ctypes.pythonapi.PyCapsule_SetName
_rename_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]
_NAME, _USED = b"dltensor", b"used_dltensor"  # names are kept by address
_FREE = int(ffi.cast("intptr_t", ffi.addressof(lib, "tensor_capsule_free")))
_CPU, _CUDA = 1, 2  # as DLPack calls them
DEFAULT_STREAM = 1  # of a GPU, as DLPack and the driver (CU_STREAM_LEGACY) call it: a session's runs follow it


class Tensor:
    """Row-major, in memory of its own.

    torch.from_dlpack(t), numpy.from_dlpack(t) and jax.dlpack.from_dlpack(t) share it; t.numpy() and t.torch() say the same.
    """

    def __init__(self, tensor, users):
        """Takes over one user of tensor.data, which was malloc'ed."""
        self._tensor = tensor
        self._users = ffi.gc(users, lambda u, data=tensor.data: lib.tensor_release(data, u))

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._tensor.sizes[d] for d in range(self._tensor.rank))

    @property
    def dtype(self) -> str:
        """As PyTorch calls it: "float32", "bfloat16"."""
        return text_of(lib.exg_dtype_name(self._tensor.dtype))

    @property
    def nbytes(self) -> int:
        return lib.exg_tensor_numel(self._tensor) * lib.exg_dtype_bytes(self._tensor.dtype)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None):
        if stream not in (None, -1) or dl_device not in (None, (_CPU, 0)):
            raise BufferError("this tensor is on the CPU")
        if copy:
            return copy_of(self._tensor).__dlpack__()
        managed = lib.tensor_export(self._tensor, self._users)
        if managed == ffi.NULL:
            raise BufferError(f"DLPack has no {self.dtype}")
        return _new_capsule(int(ffi.cast("intptr_t", managed)), _NAME, _FREE)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CPU, 0)

    def numpy(self):
        """As numpy.ndarray, which shares the memory; of a dtype that numpy has not it takes ml_dtypes."""
        import numpy

        name = self.dtype
        if name in ("bfloat16",) or name.startswith("float8"):
            import ml_dtypes

            kind = numpy.dtype(getattr(ml_dtypes, name))
        elif text_of(lib.exg_dtype_numpy(self._tensor.dtype)) == "":
            raise TypeError(f"numpy has no {name}")
        else:
            kind = numpy.dtype(text_of(lib.exg_dtype_numpy(self._tensor.dtype)))
        array = numpy.frombuffer(memoryview(ffi.buffer(self._tensor.data, max(self.nbytes, 1)))[: self.nbytes], dtype=kind)
        return _KeepsAlive.of(array.reshape(self.shape), self)

    def torch(self):
        """As torch.Tensor, which shares the memory."""
        import torch

        return torch.from_dlpack(self)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array.astype(dtype) if dtype is not None else array.copy() if copy else array

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of no dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"exg.Tensor(shape={list(self.shape)}, dtype={self.dtype})"


class _KeepsAlive:
    """An array that holds what its memory is of."""

    def __init__(self, array, owner):
        self.__array_interface__ = array.__array_interface__
        self._owner = owner

    @staticmethod
    def of(array, owner):
        import numpy

        if array.dtype.kind == "V" or array.size == 0 or array.dtype.isbuiltin != 1:  # of ml_dtypes: no name in the interface
            kept = numpy.asarray(_KeepsAlive(array.view(numpy.dtype(f"u{array.itemsize}")), owner)) if array.size else array
            return kept.view(array.dtype).reshape(array.shape)
        return numpy.asarray(_KeepsAlive(array, owner))


def copy_of(tensor) -> Tensor:
    """Of an exg_tensor, row by row."""
    own = ffi.new("exg_tensor *", tensor[0] if ffi.typeof(tensor).kind == "pointer" else tensor)
    data = lib.tensor_copy(own)
    users = lib.tensor_users()
    if data == ffi.NULL or users == ffi.NULL:
        raise MemoryError("out of memory for a copy of a tensor")
    own.data = data
    lib.exg_tensor_set_contiguous(own)
    return Tensor(own, users)


class Borrowed:
    """Somebody's tensor as an exg_tensor, without a copy where it lies row by row; close() gives it back."""

    def __init__(self, value: Any, name: str):
        self.tensor = ffi.new("exg_tensor *")
        self._managed = self._copy = None
        self._value = value
        self.on_device = False
        if isinstance(value, Tensor):
            self.tensor[0] = value._tensor[0]
        elif hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == _CUDA:
            self.on_device = True
            self._take_capsule(value, name, stream=DEFAULT_STREAM)
        elif hasattr(value, "__array_interface__"):
            self._take_array(value, name)
        elif hasattr(value, "__cuda_array_interface__"):
            self._take_device_array(value, name)
        elif hasattr(value, "__dlpack__"):
            self._take_capsule(value, name)
        else:
            raise TypeError(f"input {name!r} is {type(value).__module__}.{type(value).__qualname__}: give a tensor of torch, numpy or jax, "
                            "or what else has __dlpack__()")  # fmt: skip
        if not lib.exg_tensor_is_contiguous(self.tensor):
            if self.on_device:
                raise TypeError(f"input {name!r} is on a GPU and does not lie row by row: make it contiguous")
            self._copy = copy_of(self.tensor)
            self.tensor[0] = self._copy._tensor[0]

    def _take_array(self, value, name):
        if not value.dtype.isnative or not value.flags.aligned:
            value = self._value = value.astype(value.dtype.newbyteorder("="))
        kind = lib.exg_dtype_from_name(value.dtype.name.encode())  # also those of ml_dtypes
        if kind == lib.EXG_DTYPE_COUNT or value.ndim > lib.EXG_RANK_MAX:
            raise TypeError(f"input {name!r} is an array of {value.dtype} with {value.ndim} dimensions")
        if not value.flags.writeable:
            value = self._value = value.copy()  # the program may write to what it is given
        self.tensor.data = ffi.cast("void *", value.__array_interface__["data"][0])
        self.tensor.dtype = kind
        self.tensor.rank = value.ndim
        for d in range(value.ndim):
            self.tensor.sizes[d] = value.shape[d]
            self.tensor.strides[d] = value.strides[d] // value.itemsize
        if any(s % value.itemsize for s in value.strides):
            value = self._value = value.copy()
            self._take_array(value, name)

    def _take_device_array(self, value, name):
        """Of a GPU's memory: what cupy, numba and torch.cuda have in common."""
        said = value.__cuda_array_interface__
        kind = {"|b1": "bool", "|u1": "uint8", "|i1": "int8"}.get(said["typestr"])
        if kind is None and said["typestr"][0] == "<":
            kind = {"f": "float", "i": "int", "u": "uint", "c": "complex"}.get(said["typestr"][1], "") + str(8 * int(said["typestr"][2:]))
        self.tensor.dtype = lib.exg_dtype_from_name((kind or "").encode())
        if self.tensor.dtype == lib.EXG_DTYPE_COUNT or len(said["shape"]) > lib.EXG_RANK_MAX:
            raise TypeError(f"input {name!r} is an array of {said['typestr']} with {len(said['shape'])} dimensions")
        self.tensor.data = ffi.cast("void *", said["data"][0] or 0)
        self.tensor.rank = len(said["shape"])
        for d, size in enumerate(said["shape"]):
            self.tensor.sizes[d] = size
        lib.exg_tensor_set_contiguous(self.tensor)
        for d, step in enumerate(said.get("strides") or ()):
            self.tensor.strides[d] = step // lib.exg_dtype_bytes(self.tensor.dtype)
        self.on_device = True

    @property
    def is_own(self) -> bool:
        """Is it the memory that was given, which may be written?"""
        read_only = self.on_device and self._managed is None and self._value.__cuda_array_interface__["data"][1]
        return self._copy is None and not read_only

    def _take_capsule(self, value, name, **how):
        if getattr(value, "requires_grad", False):
            value = value.detach()
        try:
            capsule = value.__dlpack__(**how)
        except (BufferError, RuntimeError, TypeError, ValueError) as fault:
            raise TypeError(f"input {name!r} cannot be read by DLPack: {fault}") from fault
        self._managed = ffi.cast("DLManagedTensor *", _capsule_pointer(capsule, _NAME))
        _rename_capsule(capsule, _USED)
        wrong = lib.tensor_import(self._managed, self.tensor)
        if wrong:
            self.close()
            why = {1: "is not in memory of the CPU or of an NVIDIA GPU: move it with .cpu()", 2: "is of a dtype that exg has not", 3: "has more than 16 dimensions"}[wrong]
            raise TypeError(f"input {name!r} {why}")

    def close(self):
        managed, self._managed = self._managed, None
        if managed is not None:
            lib.tensor_import_end(managed)
