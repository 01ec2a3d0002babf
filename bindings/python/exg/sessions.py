"""Sessions: a program that is ready to run, again and again."""

import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ._exg import ffi, lib
from .errors import call, path_of, text_of
from .tensors import DEFAULT_STREAM, Borrowed, Tensor, copy_of


def _placements(place, mesh_dims, arena):
    """An array of exg_partition_options, one a dim of the mesh."""
    words: Sequence[Any] = place.split(",") if isinstance(place, str) and not os.path.exists(place) else [place] if isinstance(place, (str, os.PathLike)) else place
    if len(words) != mesh_dims:
        raise ValueError(f"{len(words)} placements for a mesh of {mesh_dims} dims: give one for each")
    modes = {text_of(lib.exg_partition_mode_name(m)): m for m in range(lib.EXG_PARTITION_PATTERNS)}
    options = ffi.new("exg_partition_options[]", len(words))
    for dim, (option, word) in enumerate(zip(options, words)):
        option.size = ffi.sizeof("exg_partition_options")
        if word in modes:
            option.mode = modes[word]
        elif os.path.exists(word):
            call(lib.exg_partition_options_open, path_of(word), dim, mesh_dims, arena, ffi.addressof(option))
        else:
            raise ValueError(f"no placement {str(word)!r}: give {', '.join(modes)}, or a file of placements")
    return options


def _leaves(name, value):
    """What is given by name: a tensor or number, or the leaves of a dict, list or tuple by their paths."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    else:
        return [(name, value)]
    return [leaf for key, item in inner for leaf in _leaves(f"{name}.{key}", item)]


class Session:
    """Made by Program.session(). One call at a time; what the program writes (buffers, a cache) lasts from call to call."""

    def __init__(self, program, threads, mesh, place, device, seed, memory_limit, time_limit, check, local_parts):
        sizes = () if mesh is None else (mesh,) if isinstance(mesh, int) else tuple(mesh)
        if place is not None and not sizes:
            raise ValueError("place has no meaning without mesh")
        if len(sizes) > lib.EXG_MESH_DIMS_MAX:
            raise ValueError(f"a mesh has {lib.EXG_MESH_DIMS_MAX} dims at most")
        self._program = program
        self._lock = threading.Lock()
        self._arena = ffi.gc(lib.exg_arena_create(ffi.NULL, 2**64 - 1), lib.exg_arena_destroy)
        options = ffi.new("exg_session_options *", {
            "size": ffi.sizeof("exg_session_options"), "thread_count": threads, "seed": seed,
            "time_limit_ns": int(time_limit * 1e9), "no_check": not check, "local_parts": local_parts})  # fmt: skip
        goal = ffi.new("exg_partition_goal *", {"size": ffi.sizeof("exg_partition_goal"), "memory_limit": memory_limit})
        self._device = None if device is None else ffi.new("char[]", device.encode())
        options.goal = goal
        options.device = ffi.NULL if self._device is None else self._device
        if device is not None and device.partition(":")[0] == "cuda" and not sizes:  # what torch and cupy do on it comes first
            options.stream = ffi.cast("void *", DEFAULT_STREAM)
        options.mesh.ndim = len(sizes)
        for d, size in enumerate(sizes):
            options.mesh.sizes[d] = size
        self._places = None if place is None else _placements(place, len(sizes), self._arena)
        options.partition = ffi.NULL if self._places is None else self._places
        self._verified = program._gate()
        made = ffi.new("exg_session **")
        call(lib.exg_session_create, self._verified, options, made)
        self._pointer = ffi.gc(made[0], lib.exg_session_destroy)
        self._names = [a.name for a in program.inputs]
        self._bound: Dict[Any, Tuple[Any, Borrowed]] = {}  # by name, or rank and name
        self._placed: Dict[Any, Tuple[Any, Borrowed]] = {}  # by index, or rank and index
        self._whole: Dict[str, Any] = {}  # inputs that ranks have in memory of their own

    def __call__(self, *positional: Any, **named: Any) -> Tuple[Any, ...]:
        """Runs the program. Inputs are taken in order or by name, that of the placeholder or the argument's, and a dict or list for one that
        nests; tensors of torch, numpy or jax without a copy; a number stands for a symbolic size. Gives all outputs, in order: an exg.Tensor each, which is the caller's, or a constant."""
        if len(positional) > len(self._names):
            raise TypeError(f"{len(positional)} inputs are given, and the program has {len(self._names)}: {', '.join(self._names)}")
        given = dict(zip(self._names, positional))
        for name, value in (leaf for argument in named.items() for leaf in _leaves(*argument)):
            if name in given:
                raise TypeError(f"input {name!r} is given twice")
            given[name] = value
        borrowed: List[Borrowed] = []
        inputs = ffi.new("exg_session_input[]", max(len(given), 1))
        names = [ffi.new("char[]", name.encode()) for name in given]
        with self._lock:
            try:
                for slot, name, (word, value) in zip(inputs, names, given.items()):
                    slot.name = name
                    if isinstance(value, int) and not isinstance(value, bool):
                        slot.is_number, slot.number = True, value
                    else:
                        borrowed.append(Borrowed(value, word))
                        slot.tensor = borrowed[-1].tensor[0]
                        slot.on_device = borrowed[-1].on_device
                call(lib.exg_session_run, self._pointer, inputs, len(given))
                return tuple(self._outputs())
            finally:
                for tensor in borrowed:
                    tensor.close()

    def bind_input(self, name: str, tensor: Any) -> None:
        """Calls to which no input of this name is given take this one, as it is then. Tensors of a GPU are used where they lie by
        a session on "cuda"."""
        held = Borrowed(tensor, name)
        word = ffi.new("char[]", name.encode())
        given = ffi.new("exg_session_input *", {"name": word, "on_device": held.on_device})
        given.tensor = held.tensor[0]
        with self._lock:
            call(lib.exg_session_bind_input, self._pointer, given)
            self._release(self._bound, name)
            self._bound[name] = ((tensor, word), held)

    def bind_output(self, index: int, tensor: Any = None) -> None:
        """Output `index` of each call is written to the memory of `tensor`, which the call then gives for it; None: it is the call's own
        again. It may be the tensor of an input: so a cache is brought up to date in place."""
        place, held = self._place(index, tensor)
        with self._lock:
            call(lib.exg_session_bind_output, self._pointer, index, place)
            self._release(self._placed, index)
            if held is not None:
                self._placed[index] = (tensor, held)

    @staticmethod
    def _place(index, tensor):
        held = None if tensor is None else Borrowed(tensor, f"output {index}")
        if held is not None and (not held.is_own or held._value is not tensor):
            held.close()
            raise TypeError(f"output {index} is bound to a tensor that cannot be written where it lies: it has to be row-major and writable")
        place = ffi.new("exg_output_binding *", {"size": ffi.sizeof("exg_output_binding")})
        if held is not None:
            place.data, place.on_device = held.tensor.data, held.on_device
            place.bytes = lib.exg_tensor_numel(held.tensor) * lib.exg_dtype_bytes(held.tensor.dtype)
        return place, held

    def bind_rank_input(self, rank: int, name: str, tensor: Any = None, sizes: Optional[Sequence[int]] = None) -> None:
        """The same of one rank of the mesh, whose memory the tensor is in: the whole input, or with local_parts the rank's part of one of these
        sizes. None: the rank has none of its own any more. All ranks have one, or none."""
        word = ffi.new("char[]", name.encode())
        given = ffi.new("exg_session_input *", {"name": word})
        whole = ffi.new("exg_session_input *", {"name": word})
        held = None if tensor is None else Borrowed(tensor, name)
        if held is None:  # without data
            given.tensor.rank = given.tensor.sizes[0] = given.tensor.strides[0] = 1
        else:
            given.tensor, given.on_device = held.tensor[0], held.on_device
            whole.tensor = held.tensor[0]
            whole.tensor.data = ffi.NULL
            _set_sizes(whole.tensor, [given.tensor.sizes[d] for d in range(given.tensor.rank)] if sizes is None else sizes)
        with self._lock:
            if held is not None:
                call(lib.exg_session_bind_input, self._pointer, whole)
                self._whole[name] = word
            call(lib.exg_session_bind_rank_input, self._pointer, rank, given)
            self._release(self._bound, (rank, name))
            if held is not None:
                self._bound[rank, name] = ((tensor, word), held)

    def bind_rank_output(self, rank: int, index: int, tensor: Any = None) -> None:
        """The same of one rank of the mesh: its whole output, or with local_parts its part."""
        place, held = self._place(index, tensor)
        with self._lock:
            call(lib.exg_session_bind_rank_output, self._pointer, rank, index, place)
            self._release(self._placed, (rank, index))
            if held is not None:
                self._placed[rank, index] = (tensor, held)

    def rank_outputs(self, rank: int) -> Tuple[Any, ...]:
        """What the last call gave, as a rank of the mesh has it."""
        with self._lock:
            return tuple(self._outputs(rank))

    @staticmethod
    def _release(bound, key):
        if key in bound:
            bound.pop(key)[1].close()

    def _outputs(self, rank=0):
        for i in range(lib.exg_session_output_count(self._pointer)):
            output = lib.exg_session_rank_output_at(self._pointer, rank, i)
            if output == ffi.NULL:
                raise IndexError(f"there is no rank {rank}")
            key = (rank, i) if (rank, i) in self._placed else i
            if key in self._placed and output.constant.kind == lib.EXG_ARGUMENT_TENSOR:
                tensor, held = self._placed[key]
                shape, want = ([t.sizes[d] for d in range(t.rank)] for t in (held.tensor, output.tensor))
                if shape != want or held.tensor.dtype != output.tensor.dtype:
                    raise TypeError(f"output {i} is {want}, and is bound to a tensor of {shape} or of another dtype")
                yield tensor
                continue
            yield copy_of(output.tensor) if output.constant.kind == lib.EXG_ARGUMENT_TENSOR else _constant(output.constant)

    def stop(self) -> None:
        """Ends the run under way, from any thread; that call raises exg.LimitError (RUN-010)."""
        lib.exg_session_stop(self._pointer)

    @property
    def state(self) -> Dict[str, Tensor]:
        """What the program writes, by name, copied; there is none before the first call."""
        with self._lock:
            tensor = ffi.new("exg_tensor *")
            found = {}
            for i in range(lib.exg_session_state_count(self._pointer)):
                name = text_of(lib.exg_session_state_at(self._pointer, i, tensor))
                if tensor.data != ffi.NULL:
                    found[name] = copy_of(tensor)
            return found

    def set_state(self, **tensors: Any) -> None:
        """Makes what the program writes what these are; as **{"cache.k": k}. After the first call."""
        borrowed = [Borrowed(value, name) for name, value in tensors.items()]
        try:
            kept = [ffi.new("char[]", name.encode()) for name in tensors]
            items = ffi.new("exg_named_tensor[]", max(len(tensors), 1))
            for item, name, tensor in zip(items, kept, borrowed):
                t = tensor.tensor
                item.name, item.dtype, item.rank, item.shape, item.data = name, t.dtype, t.rank, t.sizes, t.data
                item.bytes = lib.exg_tensor_numel(t) * lib.exg_dtype_bytes(t.dtype)
            mismatches = ffi.gc(ffi.new("exg_mismatches *"), lib.exg_mismatches_free)
            with self._lock:
                call(lib.exg_session_state_set, self._pointer, items, len(tensors), mismatches)
        finally:
            for tensor in borrowed:
                tensor.close()

    @property
    def stats(self) -> Dict[str, int]:
        """Of the last call and of all."""
        with self._lock:
            s = lib.exg_session_statistics(self._pointer)
            return {"runs": s.runs, "run_ns": s.run_ns, "plan_ns": s.plan_ns, "plans": s.plan_count, "memory_bytes": s.memory_bytes}


def _set_sizes(tensor, sizes):
    """Row-major."""
    tensor.rank, step = len(sizes), 1
    for d in reversed(range(len(sizes))):
        tensor.sizes[d], tensor.strides[d] = sizes[d], step
        step *= sizes[d]


def _constant(argument) -> Optional[Union[int, float, bool, str]]:
    kinds = {lib.EXG_ARGUMENT_INT: lambda a: a.as_int, lib.EXG_ARGUMENT_FLOAT: lambda a: a.as_float, lib.EXG_ARGUMENT_BOOL: lambda a: bool(a.as_bool),
             lib.EXG_ARGUMENT_STRING: lambda a: text_of(a.as_string), lib.EXG_ARGUMENT_SYM_INT: lambda a: a.as_sym.as_int,
             lib.EXG_ARGUMENT_SYM_FLOAT: lambda a: a.as_sym.as_float, lib.EXG_ARGUMENT_SYM_BOOL: lambda a: bool(a.as_sym.as_bool)}  # fmt: skip
    read = kinds.get(argument.kind)
    return None if read is None else read(argument)
