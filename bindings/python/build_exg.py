"""Compiles _exg.abi3.so, which knows the public headers by what a compiler makes of them.

    python3 build_exg.py TREE PACKAGE      PACKAGE is the folder of the package, the libraries are in its lib
"""

import pathlib
import subprocess
import sys
import sysconfig

import cffi
from declarations import declarations

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = """
#define EXG_RANK_MAX ...
#define EXG_MESH_DIMS_MAX ...
void *tensor_copy(const exg_tensor *t);
int *tensor_users(void);
void tensor_release(void *data, int *users);
DLManagedTensor *tensor_export(const exg_tensor *t, int *users);
void tensor_capsule_free(void *capsule);
int tensor_import(const DLManagedTensor *managed, exg_tensor *t);
void tensor_import_end(DLManagedTensor *managed);
void free(void *);
void *aligned_alloc(size_t alignment, size_t size);
extern "Python" void exg_python_progress(void *user, uint64_t done, uint64_t total);
extern "Python" void exg_python_kept(void *user, const char *name, const char *why);
"""




def source(tree):
    """The module, as C."""
    ffi = cffi.FFI()
    ffi.cdef(declarations("cc", [str(tree / room / "include") for room in ("libexport", "libexec")]))
    ffi.cdef((HERE / "tensor.h").read_text() + SHOWN)
    ffi.set_source("exg._exg", "#include <exg/exec.h>\n#include <exg/http.h>\n" + (HERE / "tensor.h").read_text() + (HERE / "tensor.c").read_text(),
                   py_limited_api=True)  # fmt: skip
    return ffi


def compile(tree, package):  # noqa: A001
    made = package / "_exg.c"
    source(tree).emit_c_code(str(made))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-fmacro-prefix-map={package}/=", "-DPy_LIMITED_API=0x03090000",
                    "-I", sysconfig.get_path("include"), "-I", str(tree / "libexport/include"), "-I", str(tree / "libexec/include"),
                    str(made), "-o", str(package / "_exg.abi3.so"), "-L", str(package / "lib"), "-l:libexg_exec.so.1", "-l:libexg_export.so.1",
                    "-Wl,-rpath,$ORIGIN/lib"], check=True)  # fmt: skip
    made.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    compile(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
