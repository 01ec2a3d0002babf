#!/usr/bin/env python3
"""Files of weights: exg beside what bounds it on this machine, in turns; medians of their ratios.

   weight_files.py --exg build/release/cli/exg [--folder DIR] [--mib 1024] [--rounds 7]

convert beside cp and fsync, a cast beside reading the file and writing as much as it writes, a digest beside XXH3 over the same bytes on as many cores,
many tensors beside the reader of safetensors (where this Python has it), and how much is resident of 100 GB."""
import argparse
import ctypes
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--exg", required=True)
parser.add_argument("--folder", help="on the file system that is asked about")
parser.add_argument("--mib", type=int, default=1024)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--many", type=int, default=400000)
args = parser.parse_args()
FOLDER = tempfile.mkdtemp(dir=args.folder)
BYTES = args.mib << 20


def path(name):
    return os.path.join(FOLDER, name)


def exg(*words):
    subprocess.run([args.exg, *words], check=True, stdout=subprocess.DEVNULL)


def header(tensors):
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def make_model():
    """Gaussian float32 in 64 tensors."""
    count, size = 64, BYTES // 64
    block = b"".join(os.urandom(1 << 20) for _ in range(8))
    block = bytes(b & 0x3F if i % 4 == 3 else b for i, b in enumerate(block[:1 << 20])) * 8
    with open(path("model.safetensors"), "wb") as file:
        file.write(header({f"layers.{i}": {"dtype": "F32", "shape": [size // 4], "data_offsets": [i * size, (i + 1) * size]} for i in range(count)}))
        for _ in range(BYTES // len(block)):
            file.write(block)


def clock(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def beside(title, goal, ours, bound):
    """The bound's time as a share of ours: 1 is as fast."""
    times = []
    for _ in range(args.rounds):
        times.append((clock(bound), clock(ours)))
    share = statistics.median(b / o for b, o in times)
    print(f"{title:44} {statistics.median(o for _, o in times):8.3f} s, bound {statistics.median(b for b, _ in times):8.3f} s: {share:5.2f} of it (wanted {goal})")


# ---- what bounds it
libc = ctypes.CDLL(None)
libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
libc.memcpy.restype = ctypes.c_void_p


def remover(name, work):
    def run():
        if os.path.exists(path(name)):
            os.remove(path(name))
        work()

    return run


def copy(source, name):
    """cp, and its bytes on the disk, as exg leaves them."""
    subprocess.run(["cp", source, path(name)], check=True)
    with open(path(name), "rb") as file:
        os.fsync(file.fileno())


def mapped(name):
    file = open(path(name), "r+b")
    view = mmap.mmap(file.fileno(), 0)
    return view, ctypes.addressof(ctypes.c_char.from_buffer(view))


def copy_memory(bytes_moved):
    """memcpy that reads and writes so many bytes together, in memory that is there."""
    half = bytes_moved // 2
    source, target = ctypes.create_string_buffer(half), ctypes.create_string_buffer(half)
    ctypes.memset(source, 1, half)
    ctypes.memset(target, 2, half)
    return lambda: libc.memcpy(target, source, half)


def hashed(name, cores):
    xxhash = ctypes.CDLL("libxxhash.so.0")
    digest = getattr(xxhash, "XXH3_128bits_dispatch", None) or xxhash.XXH3_64bits
    digest.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def run():  # maps the file anew, as a process that begins must: its pages are found in the clock of both
        view, at = mapped(name)
        part = len(view) // cores
        threads = [threading.Thread(target=digest, args=(at + i * part, part)) for i in range(cores)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    return run


# ---- many tensors, and large ones
def many():
    name = path("many.safetensors")
    with open(name, "wb") as file:
        file.write(header({f"model.layers.{i}.weight": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(args.many)}))
        file.write(bytes(4 * args.many))
    try:
        import safetensors
    except ImportError:
        print("many tensors: this Python has no safetensors")
        return

    def theirs():
        subprocess.run([sys.executable, "-c", f"""
import safetensors
with safetensors.safe_open({name!r}, 'np') as file:
    for key in file.keys():
        file.get_slice(key).get_shape()"""], check=True)

    assert safetensors
    beside(f"open and verify {args.many} tensors", ">= 1", lambda: exg("verify", name), theirs)


def resident(*words):
    made = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
                           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", args.exg, *words], check=True, capture_output=True, text=True)
    return int(made.stdout) / 1024


def large():
    """100 GB that are a hole in a file."""
    size = 100 * 10**9 // 800 // 4 * 4
    text = header({f"layers.{i}": {"dtype": "F32", "shape": [size // 4], "data_offsets": [i * size, (i + 1) * size]} for i in range(800)})
    with open(path("large.safetensors"), "wb") as file:
        file.write(text)
        file.truncate(len(text) + 800 * size)
    print(f"resident, inspect of 100 GB:  {resident('inspect', path('large.safetensors')):6.1f} MiB (wanted < 64)")
    print(f"resident, verify of 100 GB:   {resident('verify', path('large.safetensors')):6.1f} MiB (wanted < 64)")
    print(f"resident, 12 tensors of it:   {resident('convert', path('large.safetensors'), path('part.safetensors'), '--select', 'layers.1?'):6.1f} MiB (wanted < 64)")


def main():
    make_model()
    model = path("model.safetensors")
    print(f"{args.mib} MiB of float32 in {FOLDER}, {os.cpu_count()} cores, {args.rounds} rounds in turns")
    beside("convert, beside cp and fsync", ">= 0.9", remover("out.safetensors", lambda: exg("convert", model, path("out.safetensors"), "--metadata", "a=b")),
           remover("copy", lambda: copy(model, "copy")))
    os.remove(path("copy"))
    read, half = copy_memory(BYTES), path("written.safetensors")
    exg("convert", model, half, "--dtype", "bf16")
    beside("convert --dtype bf16, beside read, cp and fsync", ">= 0.8", remover("half.safetensors", lambda: exg("convert", model, path("half.safetensors"), "--dtype", "bf16")),
           remover("half", lambda: (read(), copy(half, "half"))))
    os.remove(half)
    os.remove(path("half"))

    def digest(cores):
        return lambda: subprocess.run(["taskset", "-c", "0" if cores == 1 else "0,1", args.exg, "inspect", model, "--digest", "xxh3"], check=True, stdout=subprocess.DEVNULL)

    for cores in (1, 2):
        beside(f"inspect --digest xxh3 on {cores}, beside XXH3", ">= 0.9", digest(cores), hashed("model.safetensors", cores))
    beside("inspect --digest xxh3 on 2, beside itself on 1", ">= 1.8", digest(2), digest(1))
    beside("XXH3 on 2, beside itself on 1", "what bounds the line before", hashed("model.safetensors", 2), hashed("model.safetensors", 1))
    for name in ("out.safetensors", "half.safetensors"):
        os.remove(path(name))
    many()
    large()


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
