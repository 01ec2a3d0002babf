"""Programs: what a file of torch.export holds, verified, written in another format, made ready to run."""

import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._exg import ffi, lib
from .errors import call, path_of, text_of
from .weights import Weights, _Progress

Size = Union[int, str]


@dataclass(frozen=True)
class Argument:
    """An input or output: a tensor, or a number whose shape is None."""

    name: str
    kind: str  #: "USER_INPUT", "PARAMETER", "BUFFER_MUTATION", ...
    target: Optional[str]  #: the parameter or buffer, or None
    dtype: Optional[str]
    shape: Optional[Tuple[Size, ...]]  #: symbols as text: ("s77", 64)


@dataclass(frozen=True)
class Node:
    """An operator called in the graph."""

    name: str
    target: str  #: "torch.ops.aten.linear.default"
    arguments: Tuple[Tuple[str, str], ...]  #: names of parameters, and values as Python shows them
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Diagnostic:
    """A rule that is broken."""

    severity: str  #: "error", "warning", "note"
    code: str
    message: str
    where: str
    fix: str
    source: str  #: "model.py:12: y = self.up(x)", or ""


def open(path: Union[str, "os.PathLike[str]"], *, program: Optional[str] = None, check: bool = True) -> "Program":  # noqa: A001
    """The program in a .pt2, .exg or early .json file. No weight is read; nothing that is in the file is run.

    program: which of an archive with several. check: compare weights with their checksums when they are first read.
    """
    return Program._open(path, program, check)


class Program:
    """A program, decoded. verify() says whether it means what the format says; session() and save() see to it themselves."""

    def __init__(self, pointer: Any):
        self._pointer = ffi.gc(pointer, lib.exg_program_destroy)
        self._operators: Any = None
        self._verified: Any = None

    @staticmethod
    def _open(path, name, check) -> "Program":
        program = ffi.new("exg_program **")
        given = None if name is None else ffi.new("char[]", name.encode())
        options = ffi.new("exg_open_options *", {"size": ffi.sizeof("exg_open_options"), "no_check": not check})
        options.program = ffi.NULL if given is None else given
        call(lib.exg_open, path_of(path), options, program, ffi.NULL)
        return Program(program[0])

    # ---- what is in it

    @property
    def torch_version(self) -> str:
        """Of PyTorch, that wrote it, or ""."""
        return text_of(self._pointer.torch_version)

    @property
    def inputs(self) -> List[Argument]:
        """What a caller gives, in order."""
        return [a for a in self.signature[0] if a.kind == "USER_INPUT"]

    @property
    def outputs(self) -> List[Argument]:
        """What a caller gets, in order."""
        return [a for a in self.signature[1] if a.kind in ("USER_OUTPUT", "LOSS_OUTPUT")]

    @property
    def signature(self) -> Tuple[List[Argument], List[Argument]]:
        """All inputs and outputs of the graph: parameters, buffers and what is written, too."""
        signature = self._pointer.signature
        return ([self._argument(s, lib.exg_input_kind_name) for s in signature.inputs[0 : signature.input_count]],
                [self._argument(s, lib.exg_output_kind_name) for s in signature.outputs[0 : signature.output_count]])  # fmt: skip

    def _argument(self, spec, kind_name) -> Argument:
        name = text_of(spec.arg.name)
        graph = self._pointer.graph
        value = lib.exg_graph_find_value(graph, name.encode())
        meta = graph.values[value].tensor if spec.arg.kind == lib.EXG_ARGUMENT_TENSOR and value < graph.value_count else ffi.NULL
        dtype, shape = None, None
        if meta != ffi.NULL:
            dtype = text_of(lib.exg_dtype_name(meta.dtype))
            shape = tuple(size.value if size.expr == ffi.NULL else _expression(size.expr) for size in meta.sizes[0 : meta.rank])
        target = None if spec.target == ffi.NULL else text_of(spec.target)
        return Argument(name, text_of(kind_name(spec.kind)), target, dtype, shape)

    @property
    def nodes(self) -> List[Node]:
        graph = self._pointer.graph
        found = []
        for node in graph.nodes[0 : graph.node_count]:
            arguments = tuple((text_of(i.name), _said(lib.exg_print_argument, graph, ffi.addressof(i.arg))) for i in node.inputs[0 : node.input_count])
            metadata = {text_of(p.key): text_of(p.value) for p in node.metadata.items[0 : node.metadata.count]}
            found.append(Node(text_of(node.name), text_of(node.target), arguments, metadata))
        return found

    @property
    def graph(self) -> str:
        """As print(exported_program.graph) writes it."""
        return self._printed(lib.exg_program_print_graph)

    @property
    def weights(self) -> Weights:
        """Parameters, buffers and constants by name; read when they are asked for."""
        return Weights(lib.exg_weights_retain(self._pointer.weights))

    def inspect(self) -> Dict[str, Any]:
        """Operators by use, parameters, and memory in bytes."""
        made = ffi.new("exg_inspection **")
        call(lib.exg_program_inspect, self._pointer, self._table(), made)
        i = ffi.gc(made[0], lib.exg_inspection_free)
        return {
            "operators": {text_of(o.target): o.count for o in i.operators[0 : i.operator_count]},
            "parameters": i.modules[0].parameters, "buffers": i.modules[0].buffers,
            "weight_bytes": i.storage_bytes, "activation_bytes": i.activation_bytes if i.activations_known else None,
            "modules": {text_of(m.path): {"type": text_of(m.type), "parameters": m.parameters, "bytes": m.bytes}
                        for m in i.modules[0 : i.module_count]},
        }  # fmt: skip

    def __str__(self) -> str:
        """As print(exported_program) writes it."""
        return self._printed(lib.exg_program_print)

    def __repr__(self) -> str:
        return f"exg.Program({self._pointer.graph.node_count} nodes, {len(self.weights)} weights)"

    def _printed(self, function) -> str:
        text = ffi.new("char **")
        call(function, self._pointer, text)
        return text_of(ffi.gc(text[0], lib.free))

    # ---- the gate

    def _table(self):
        if self._operators is None:
            operators = ffi.new("exg_operators **")
            call(lib.exg_operators_create, operators)
            self._operators = ffi.gc(operators[0], lib.exg_operators_destroy)
            call(lib.exg_operators_load_for, self._operators, self._pointer)
        return self._operators

    def load_operators(self, library: Union[str, "os.PathLike[str]"]) -> None:
        """Operators that are not PyTorch's, from a library for exg (exg/operator_library.h). Its code is run."""
        call(lib.exg_operators_load, self._table(), path_of(library))
        self._verified = None

    def verify(self, *, data: bool = False, values: bool = False) -> List[Diagnostic]:
        """Every rule that is broken, errors and notes alike; none raises. data: also read all weights and compare checksums;
        values: also look for NaN, infinities, zeros and denormal numbers in them."""
        found = ffi.gc(ffi.new("exg_diagnostics *"), lib.exg_diagnostics_free)
        verified = ffi.new("exg_verified *")
        err = ffi.new("exg_error *")
        for step in [lambda: lib.exg_verify(self._pointer, self._table(), verified, found, err)] + [
            lambda: lib.exg_verify_data(self._pointer, found, ffi.NULL, err)] * data + [
            lambda: lib.exg_verify_values(self._pointer, found, 0, err)] * values:  # fmt: skip
            status = step()
            if status not in (lib.EXG_OK, lib.EXG_MALFORMED):
                call(lambda e: (ffi.memmove(e, err, ffi.sizeof("exg_error")), status)[1])
        return [Diagnostic(text_of(lib.exg_severity_name(d.severity)), text_of(d.code), text_of(d.message), text_of(d.where), text_of(d.fix),
                           f"{text_of(d.source_file)}:{d.source_line}: {text_of(d.source_text)}" if text_of(d.source_file) else "")
                for d in found.items[0 : found.count]]  # fmt: skip

    def _gate(self):
        if self._verified is None:
            verified = ffi.new("exg_verified *")
            call(lib.exg_verify, self._pointer, self._table(), verified, ffi.NULL)
            self._verified = verified
        return self._verified

    # ---- out

    def session(self, *, threads: int = 0, mesh: Union[int, Sequence[int], None] = None, place: Union[str, Sequence[str], None] = None,
                device: Optional[str] = None, seed: int = 0, memory_limit: int = 0, time_limit: float = 0, check: bool = True,
                local_parts: bool = False):  # fmt: skip
        """The program, verified, planned and ready to be called.

        threads: of the pool; 0: one a core. mesh: ranks, which are threads, in a grid: 4, (2, 4). place: how the program lies on the mesh, one
        for each of its dims: "data", "tensor", "fsdp", "sequence", "auto", or a file of placements. device: "cpu", "cuda", "cuda:1".
        memory_limit: bytes. time_limit: seconds a run. check: compare weights with their checksums.
        local_parts: of inputs and outputs that are split over the mesh each rank has its own part (bind_rank_input). Raises exg.Error.
        """
        from .sessions import Session

        return Session(self, threads, mesh, place, device, seed, memory_limit, time_limit, check, local_parts)

    def save(self, path: Union[str, "os.PathLike[str]"], *, compress: Optional[str] = None, external: Optional[bool] = None,
             deduplicate: bool = False, strict: bool = False, progress: Optional[Callable[[int, int], None]] = None) -> None:  # fmt: skip
        """Writes it as the name says: .pt2 for torch.export.load, .exg, .json. The old file or the new one, at any moment.

        compress: "zstd" or "none" (.exg). external: weights in a file beside. progress: called with bytes done and in all.
        """
        name = path_of(path)
        kinds = {None: lib.EXG_COMPRESSION_KEEP, "none": lib.EXG_COMPRESSION_NONE, "zstd": lib.EXG_COMPRESSION_ZSTD}
        options = ffi.new("exg_save_options *", {
            "size": ffi.sizeof("exg_save_options"), "compression": kinds[compress],
            "weights": {None: lib.EXG_WEIGHTS_KEEP, False: lib.EXG_WEIGHTS_INTERNAL, True: lib.EXG_WEIGHTS_EXTERNAL}[external],
            "deduplicate": deduplicate, "strict": strict})  # fmt: skip
        with _Progress(options, progress):
            call(lib.exg_save, self._pointer, name, lib.exg_format_from_path(name), options)

    def fill(self, source: Weights, *, partial: bool = False) -> None:
        """Takes the weights of another file, by name, shape and dtype; without `partial` all of them."""
        made = ffi.new("exg_weights **")
        mismatches = ffi.gc(ffi.new("exg_mismatches *"), lib.exg_mismatches_free)
        call(lib.exg_weights_fill, self._pointer.weights, source._pointer, partial, made, mismatches)
        old, self._pointer.weights = self._pointer.weights, made[0]
        lib.exg_weights_release(old)


def _expression(text) -> str:
    return _said(lib.exg_print_expression, text)


def _said(function, *arguments) -> str:
    """What a function of the library appends to an exg_text."""
    text = ffi.new("exg_text *")
    try:
        function(text, *arguments)
        string = lib.exg_text_string(text)
        if string == ffi.NULL:
            raise MemoryError
        return text_of(string)
    finally:
        lib.exg_text_free(text)
