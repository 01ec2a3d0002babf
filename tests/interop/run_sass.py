"""What the real NVRTC makes of kernels that have to be fast, as nvdisasm shows it. See README.md beside this file."""

import argparse
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "libexec/kernels/cuda"
PACKAGES = ["nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"]
STANDARD = ["math", "stdbool", "stdint", "string"]
# As libexec/device/cuda/module.c has them.
OPTIONS = ["--device-as-default-execution-space", "--fmad=false", "-D__FMA__", "--gpu-architecture=sm_90"]

BYTES = "-DWEIGHT_BITS=8 -DIS_SIGNED -DHAS_SCALE -DSCALE=BF16 -DRESULT=BF16"
HALVES = "-DWEIGHT_BITS=4 -DHAS_LOW -DHAS_SCALE -DSCALE=BF16 -DIS_GROUPED -DRESULT=BF16"
ZEROS = HALVES + " -DHAS_ZERO -DZERO=BF16"
FLOAT8 = "-DWEIGHT_BITS=8 -DIS_F8 -DHAS_SCALE -DSCALE=F32 -DRESULT=BF16"
NORM = "-DX=BF16 -DWEIGHT=BF16 -DBIAS=BF16 -DMEAN=F32 -DFACTOR=F32"
TILES = "-DX=BF16 -DWARPS=4 -DALIGNED"
# Text, options, what must be there and how often at least; instructions at most, registers at most. Instructions are those of the whole
# text, or where tensor cores are in a loop of that loop.
BUDGETS = [
    ("attention_tiles", f"{TILES} -DKEYS=64 -DDEPTH=128 -DWIDTH=128", {"HMMA": 128, "LDSM": 64, "LDGSTS": 16}, 900, 232),
    ("attention_tiles", f"{TILES} -DKEYS=64 -DDEPTH=64 -DWIDTH=64", {"HMMA": 64, "LDSM": 32, "LDGSTS": 8}, 700, 144),
    ("attention_tiles", f"{TILES} -DKEYS=32 -DDEPTH=256 -DWIDTH=128", {"HMMA": 96, "LDSM": 48, "LDGSTS": 12}, 700, 254),
    # 64 registers: a multiprocessor has 1024 threads. A call is a root's or reciprocal's, of a subnormal number, or a
    # division of what needs more than 32 bits (of a line or an output, not of an element).
    ("norm", f"{NORM} -DLAYER -DBLOCK_THREADS=256 -DEACH=16", {"LDG.E.128": 6, "STG.E.128": 2, "CALL": 1}, 950, 64),
    ("norm", f"{NORM} -DRMS -DBLOCK_THREADS=256 -DEACH=16", {"LDG.E.128": 6, "STG.E.128": 2, "CALL": 1}, 900, 64),
    ("softmax", "-DIN=F32 -DOUT=F32 -DROW_IS_WARP -DBLOCK_THREADS=256 -DEACH=4", {"LDG.E.128": 1, "STG.E.128": 1, "CALL": 1}, 480, 40),
    ("softmax", "-DIN=BF16 -DOUT=BF16 -DBLOCK_THREADS=256 -DEACH=16", {"LDG.E.128": 2, "STG.E.128": 2, "CALL": 1}, 1000, 64),
    ("scan", "-DIN=F32 -DOUT=F32 -DREAL -DBLOCK_THREADS=256", {"LDG.E.128": 2, "STG.E.128": 2}, 350, 64),
    ("scan", "-DIN=F32 -DOUT=F32 -DREAL -DBLOCK_THREADS=256 -DTOTALS", {"LDG.E.128": 2}, 280, 40),
    ("reduce", "-DIN=F32 -DOUT=F32 -DSUM -DREAL -DPARTS", {"LDG.E.128": 1, "CALL": 1, "I2F.U64": 1}, 900, 40),
    # From 13.5 on NVRTC keeps an address of sort_move in memory, once a chunk of 2,048 items; 13.0 does not.
    ("sort", "-DBLOCK_THREADS=256", {"VOTE": 144, "LDG.E.64": 16, "STG.E.64": 16, "CALL": 1, "I2F.U64": 1, "LDL": 0, "STL": 0}, 2500, 64),
    ("topk", "-DIN=F32 -DIS_FLOAT -DELEMENT=element_4 -DKEPT_MAX=64 -DBLOCK_THREADS=1024", {"ATOMS": 16, "CALL": 1, "I2F.U64": 1}, 1800, 64),
    ("weight_rows", f"-DA=BF16 -DROWS=1 -DUNIT=16 {BYTES}", {"LDG.E.128": 3}, 350, 40),
    ("weight_rows", f"-DA=BF16 -DROWS=8 -DUNIT=16 {BYTES}", {"LDG.E.128": 17}, 1000, 80),
    ("weight_rows", f"-DA=BF16 -DROWS=1 -DUNIT=32 {HALVES}", {"LDG.E.128": 5}, 550, 48),
    ("weight_rows", f"-DA=BF16 -DROWS=1 -DUNIT=32 {ZEROS}", {"LDG.E.128": 5}, 650, 48),
    ("weight_rows", f"-DA=BF16 -DROWS=1 -DUNIT=16 {FLOAT8}", {"LDG.E.128": 3}, 430, 40),
    ("weight_tiles", f"-DX=BF16 -DUNIT=16 {BYTES}", {"LDG.E.128": 1, "HMMA": 16}, 600, 96),
    ("weight_tiles", f"-DX=BF16 -DUNIT=16 {HALVES}", {"LDG.E.64": 1, "HMMA": 16}, 1200, 96),
    ("weight_tiles", f"-DX=BF16 -DUNIT=16 {ZEROS}", {"LDG.E.64": 1, "HMMA": 16}, 1350, 96),
    ("weight_tiles", f"-DX=F16 -DHALF_IS_F16 -DUNIT=16 {BYTES.replace('BF16', 'F16')}", {"LDG.E.128": 1, "HMMA": 16}, 600, 96),
    ("weight_tiles", f"-DX=BF16 -DUNIT=16 {FLOAT8}", {"LDG.E.128": 1, "HMMA": 16}, 800, 96),
]
NEVER = ("LDL", "STL", "CALL", "I2F.U64", "I2F.F64")  # memory of a thread's own; divisions of 64 bits, unless a row has them


def find(pattern):
    return next((p for folder in sys.path for p in pathlib.Path(folder or ".").glob(pattern)), None)


def install():
    """The compiler's library and the disassembler."""
    for attempt in range(2):
        nvrtc, disassembler = find("nvidia/*/lib/libnvrtc.so.13"), find("nvidia/*/bin/nvdisasm")
        if nvrtc and disassembler:
            for beside in nvrtc.parent.glob("libnvrtc-builtins.so.13*"):  # which it asks the loader for
                ctypes.CDLL(str(beside))
            return ctypes.CDLL(str(nvrtc)), disassembler
        if attempt == 0:
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True)
    sys.exit(f"FAILED: {' and '.join(PACKAGES)} cannot be had: nothing was looked at")


def compile_text(nvrtc, name, options):
    texts = {str(p.relative_to(ROOT)): p.read_bytes() for folder in ("libexec/kernels", "libexec/kernels/cuda", "libexport/base")
             for p in (ROOT / folder).glob("*") if p.suffix in (".h", ".def", ".c", ".cu")}
    texts |= {f"{header}.h": (KERNELS / "standard.h").read_bytes() for header in STANDARD}
    names = (ctypes.c_char_p * len(texts))(*[n.encode() for n in texts])
    bodies = (ctypes.c_char_p * len(texts))(*texts.values())
    listed = [o.encode() for o in OPTIONS + options.split()]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), (KERNELS / f"{name}.cu").read_bytes(), name.encode(), len(texts), bodies, names)
    if nvrtc.nvrtcCompileProgram(program, len(listed), (ctypes.c_char_p * len(listed))(*listed)) != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.value.decode()[:500])
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def disassemble(disassembler, code):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([str(disassembler), "-c", file.name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return re.findall(r"^(\.L_x_\d+:)|^\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", done.stdout, re.M)


def loop_of(text):
    """The instructions, and those of the innermost loop that has tensor cores' among them, else all."""
    begins, lines, loops = {}, [], []
    for label, line in text:
        if label:
            begins[f"`({label[:-1]})"] = len(lines)
            continue
        lines.append(line)
        first = next((at for name, at in begins.items() if "BRA" in line and name in line), len(lines))
        if any("HMMA" in inside for inside in lines[first:]):
            loops.append(lines[first:])
    return lines, min(loops, key=len, default=lines)


def check(text, wanted, instructions, registers):
    lines, loop = loop_of(text)
    used = max(int(n) for line in lines for n in re.findall(r"\bR(\d+)\b", line)) + 1
    faults = [f"{len(loop)} instructions, more than {instructions}"] if len(loop) > instructions else []
    faults += [f"{used} registers, more than {registers}"] if used > registers else []
    faults += [f"{what} {sum(what in line for line in lines)} times, not {least}" for what, least in wanted.items()
               if sum(what in line for line in lines) < least]
    faults += [f"has {what}" for what in NEVER if what not in wanted and any(re.search(rf"\b{re.escape(what)}", line) for line in loop)]
    return used, len(loop), faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", help="not needed: texts are those of the tree")
    parser.parse_args()
    nvrtc, disassembler = install()
    disassembler.chmod(0o755)
    failed = 0
    for name, options, wanted, instructions, registers in BUDGETS:
        text = disassemble(disassembler, compile_text(nvrtc, name, options))
        used, count, faults = check(text, wanted, instructions, registers)
        print(f"{'FAIL ' if faults else ''}{name} {options}: {count} instructions, {used} registers; {', '.join(faults)}")
        failed += len(faults) > 0
    print(f"{len(BUDGETS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
