"""What run_python.py runs where libcuda is the stand-in's: tensors of a GPU go to a session by DLPack, and are brought up to date there.

    python_gpu.py PROGRAM      (of run_python.Cache in bfloat16)"""

import ctypes
import sys

import torch

import exg

cuda = ctypes.CDLL("libcuda.so.1")
contexts, streams = [ctypes.c_void_p() for _ in range(2)], [ctypes.c_void_p() for _ in range(2)]  # of each GPU
asked = []  # with what stream a producer was asked for its tensor


def check(result):
    assert result == 0, result


class Managed(ctypes.Structure):
    """DLManagedTensor, flattened."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]  # fmt: skip


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class OnGpu:
    """A tensor of bfloat16 that torch.cuda would have, with 128 bytes before it."""

    def __init__(self, values, device_type=2, device=0):
        self.like, self.device_type, self.device = values.contiguous(), device_type, device
        self.block = ctypes.c_uint64()
        check(cuda.cuCtxSetCurrent(contexts[device]))
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.block), ctypes.c_size_t(256 + self.like.nbytes)))
        self.copy("cuMemcpyHtoDAsync_v2", self.at(), ctypes.c_void_p(self.like.data_ptr()))

    def at(self):
        return ctypes.c_uint64(self.block.value + 256)

    def copy(self, how, to, source):
        check(cuda.cuCtxSetCurrent(contexts[self.device]))
        check(getattr(cuda, how)(to, source, ctypes.c_size_t(self.like.nbytes), streams[self.device]))
        check(cuda.cuStreamSynchronize(streams[self.device]))

    def values(self):
        here = torch.empty_like(self.like)
        self.copy("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(here.data_ptr()), self.at())
        return here

    def __dlpack_device__(self):
        return (self.device_type, self.device)

    def __dlpack__(self, stream=None):
        asked.append(stream)
        sizes = (ctypes.c_int64 * self.like.dim())(*self.like.shape)
        self.managed = Managed(self.block.value, self.device_type, self.device, self.like.dim(), 4, 16, 1, sizes, None, 256, None, None)
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


def main():
    check(cuda.cuInit(0))
    for device in range(2):
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[device]), device))
        check(cuda.cuCtxSetCurrent(contexts[device]))
        check(cuda.cuStreamCreate(ctypes.byref(streams[device]), 0))
    torch.manual_seed(1)
    x, cache, rows = torch.randn(1, 5).bfloat16(), torch.randn(4, 5).bfloat16(), torch.tensor([2, 0])
    session = exg.open(sys.argv[1]).session(threads=1, device="cuda")
    there, x_there = OnGpu(cache), OnGpu(x)
    session.bind_input("cache", there)
    session.bind_output(1, there)
    for _ in range(3):
        cache = cache + x
        got = session(x=x_there, rows=rows)
        assert torch.equal(got[0].torch(), cache[rows] * x)
        assert got[1] is there and torch.equal(there.values(), cache)
    assert set(asked) == {1}, asked  # the default stream, which the session's runs follow
    try:
        session(x=OnGpu(x, device_type=10), rows=rows)  # ROCm's
        raise AssertionError("memory of another kind of device was taken")
    except TypeError as fault:
        assert "not in memory of the CPU or of an NVIDIA GPU" in str(fault), fault
    caches = [OnGpu(cache, device=rank) for rank in range(2)]
    session = exg.open(sys.argv[1]).session(threads=1, device="cuda", mesh=2, place="replicate")
    for rank, own in enumerate(caches):  # each on a GPU of its own
        session.bind_rank_input(rank, "cache", own)
        session.bind_rank_output(rank, 1, own)
    for _ in range(3):
        cache = cache + x
        got = session(x=x, rows=rows)
        assert torch.equal(got[0].torch(), cache[rows] * x)
        for rank, own in enumerate(caches):
            assert session.rank_outputs(rank)[1] is own and torch.equal(own.values(), cache)
    for rank in range(2):
        session.bind_rank_input(rank, "cache")
        session.bind_rank_output(rank, 1)
    got = session(x=x, rows=rows, cache=cache)
    assert torch.equal(got[1].torch(), cache + x) and torch.equal(session.rank_outputs(1)[1].torch(), cache + x)
    try:
        session.rank_outputs(2)
        raise AssertionError("there is a third rank of two")
    except IndexError:
        pass
    print("on a GPU: right")


main()
