"""Faults, as exceptions: one class a status of exg/status.h, each with a stable code, what, where and the fix."""

from ._exg import ffi, lib


class Error(Exception):
    """What exg found wrong. `code` never changes its meaning; `exg explain CODE` says more."""

    def __init__(self, code: str, message: str, where: str = "", fix: str = "", source: str = ""):
        super().__init__(code, message, where, fix, source)
        self.code, self.message, self.where, self.fix, self.source = code, message, where, fix, source

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        for word, text in (("where", self.where), ("source", self.source), ("fix", self.fix)):
            if text:
                lines.append(f"  {word}: {text}")
        return "\n".join(lines)


class Mismatch(Error):
    """A comparison that was asked for failed."""


class UsageError(Error, ValueError):
    """An argument is wrong."""


class FileError(Error, OSError):
    """The operating system refused a read or a write."""

    def __init__(self, *texts: str):
        Error.__init__(self, *texts)


class MalformedError(Error):
    """The input contradicts its own format."""


class UnsupportedError(Error):
    """The input is valid, but this build cannot use it."""


class LimitError(Error):
    """A limit would be exceeded."""


class OutOfMemoryError(Error, MemoryError):
    """Memory ran out, of the host or of a device."""


class DeviceError(Error):
    """A device reported an error."""


class PeerError(Error):
    """Another rank failed, or went silent."""


BY_STATUS = {
    lib.EXG_MISMATCH: Mismatch, lib.EXG_USAGE: UsageError, lib.EXG_IO: FileError, lib.EXG_MALFORMED: MalformedError,
    lib.EXG_UNSUPPORTED: UnsupportedError, lib.EXG_LIMIT: LimitError, lib.EXG_NO_MEMORY: OutOfMemoryError,
    lib.EXG_DEVICE: DeviceError, lib.EXG_PEER: PeerError,
}  # fmt: skip


def text_of(pointer) -> str:
    """A C string as text; what is not UTF-8 in it stays visible."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "backslashreplace")


def path_of(path) -> bytes:
    """A path, as the library takes it."""
    import os

    return os.fsencode(path)


def call(function, *arguments):
    """Calls what gives a status and takes an exg_error last; raises what went wrong."""
    err = ffi.new("exg_error *")
    status = function(*arguments, err)
    if status != lib.EXG_OK:
        raise BY_STATUS[status](*(text_of(t) for t in (err.code, err.message, err.where, err.fix, err.source)))
