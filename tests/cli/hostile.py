#!/usr/bin/env python3
"""Checkpoints that attack who opens them: nothing in them is run, and none is taken without a word.

   hostile.py EXG

Each is a file of torch.save with one tensor, w, and an attack that touches a file, written opcode by opcode or
byte by byte. Python's own unpickler shows of each pickle that the attack is one. exg refuses the file, or lists
what it leaves out and says what Python would run; what it converts is w alone."""
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile

warnings.simplefilter("ignore")  # of a name that is there twice
EXG = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp()
MARK = os.path.join(FOLDER, "ran")
TOUCH = f"touch {MARK}"
DATA = struct.pack("<2f", 1.0, 2.0)


# ---- opcodes
def text(value):
    value = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(value)) + value


def glob(module, name):
    return f"c{module}\n{name}\n".encode()


def call(function, *arguments):
    return function + b"(" + b"".join(arguments) + b"tR"


SYSTEM = glob("os", "system")
ATTACK = call(SYSTEM, text(TOUCH))
STORAGE = b"(" + text("storage") + glob("torch", "FloatStorage") + text("0") + text("cpu") + b"K\x02tQ"
W = call(glob("torch._utils", "_rebuild_tensor_v2"), STORAGE, b"K\x00", b"K\x02\x85", b"K\x01\x85", b"\x89",
         call(glob("collections", "OrderedDict")))


def state(value, before=b"", after=b".", protocol=2):
    """{"w": the tensor, "x": value}"""
    head = b"" if protocol is None else b"\x80" + bytes([protocol])
    return head + before + b"}(" + text("w") + W + text("x") + value + b"u" + after


class Unpickler(pickle.Unpickler):
    """As torch.load without weights_only: what is torch's own is made up, the rest is run."""

    def persistent_load(self, _):
        return None

    def find_class(self, module, name):
        return (lambda *a: None) if module.split(".")[0] == "torch" else super().find_class(module, name)


def runs_in_python(raw, expected):
    """Does Python run the attack? In a process of its own, which may leave another one behind."""
    if os.fork() == 0:
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        os.chdir(FOLDER)
        signal.alarm(5)
        try:
            import io

            Unpickler(io.BytesIO(raw)).load()
        except BaseException:
            pass
        os._exit(0)
    os.wait()
    for _ in range(300):
        if not expected or os.path.exists(MARK):
            break
        time.sleep(0.01)
    ran = os.path.exists(MARK)
    if ran:
        os.remove(MARK)
    return ran


# ---- archives
def archive(records, root="archive/"):
    """A zip of (name, bytes), stored."""
    path = os.path.join(FOLDER, "made.zip")
    with zipfile.ZipFile(path, "w") as out:
        for name, data in records:
            out.writestr(zipfile.ZipInfo(root + name), data)
    with open(path, "rb") as file:
        return file.read()


def saved(raw, *more):
    return archive([("data.pkl", raw), ("byteorder", b"little"), ("data/0", DATA), ("version", b"3\n"), *more])


GOOD = state(b"K\x01")
BAD = state(ATTACK)


# ---- pickles: name -> (bytes, does Python run it)
GLOBALS = {
    "os.system": text(TOUCH), "posix.system": text(TOUCH), "builtins.eval": text(f"__import__('os').system({TOUCH!r})"),
    "builtins.exec": text(f"import os; os.system({TOUCH!r})"), "subprocess.call": None, "subprocess.Popen": None,
    "subprocess.getoutput": text(TOUCH), "os.popen": text(TOUCH), "runpy._run_code": None, "timeit.timeit": text("pass"),
    "builtins.__import__": text("json"), "builtins.getattr": None, "torch.load": text("x.pt"), "numpy.load": text("x.npy"),
    "importlib.import_module": text("os"), "pty.spawn": text("true"), "shutil.rmtree": text("/nowhere"), "socket.socket": None,
    "webbrowser.open": text("x"), "ctypes.CDLL": text("x.so"), "operator.methodcaller": text("x"), "code.interact": None,
    "pdb.run": text("1"), "cProfile.run": text(f"__import__('os').system({TOUCH!r})"), "bdb.Bdb": None, "asyncio.run": None,
    "torch.hub.load": text("x"), "pip.main": None, "multiprocessing.util.spawnv_passfds": None,
}
EFFECTIVE = {"os.system", "posix.system", "builtins.eval", "builtins.exec", "subprocess.getoutput", "os.popen", "cProfile.run"}


def pickles():
    for name, argument in GLOBALS.items():
        module, _, attribute = name.rpartition(".")
        value = call(glob(module, attribute), *([argument] if argument else []))
        yield f"global {name}", state(value), name in EFFECTIVE
    stack_global = text("os") + text("system") + b"\x93"
    yield "STACK_GLOBAL", state(call(stack_global, text(TOUCH)), protocol=4), True
    yield "STACK_GLOBAL of the memo", state(call(b"h\x07h\x08\x93", text(TOUCH)), before=text("os") + b"q\x07" + text("system") + b"q\x08" + b"00", protocol=4), True
    yield "STACK_GLOBAL of short texts", state(call(b"\x8c\x02os\x8c\x06system\x93", text(TOUCH)), protocol=4), True
    yield "INST", state(b"(" + text(TOUCH) + b"ios\nsystem\n"), True
    yield "OBJ", state(b"(" + SYSTEM + text(TOUCH) + b"o"), True
    yield "NEWOBJ", state(glob("subprocess", "Popen") + text(TOUCH) + b"\x85\x81"), False
    yield "NEWOBJ_EX", state(glob("subprocess", "Popen") + text(TOUCH) + b"\x85}\x92", protocol=4), False
    yield "BUILD", state(call(glob("collections", "OrderedDict")) + b"}" + text("__setstate__") + SYSTEM + b"sb" + text(TOUCH) + b"b"), True
    yield "EXT1", state(b"\x82\x01"), False
    yield "EXT2", state(b"\x83\x01\x00"), False
    yield "EXT4", state(b"\x84\x01\x00\x00\x00"), False
    yield "a global that replaces another in the memo", state(call(b"h\x05", text(TOUCH)), before=glob("collections", "OrderedDict") + b"q\x05" + SYSTEM + b"q\x0500"), True
    yield "a memo of text numbers", state(call(b"g77\n", text(TOUCH)), before=SYSTEM + b"p77\n0"), True
    yield "a memo of large numbers", state(call(b"j\xff\xff\x00\x00", text(TOUCH)), before=SYSTEM + b"r\xff\xff\x00\x000"), True
    yield "MEMOIZE", state(call(b"h\x00", text(TOUCH)), before=SYSTEM + b"\x940", protocol=4), True
    yield "DUP", state(SYSTEM + b"2" + b"(" + text(TOUCH) + b"tR\x86"), True
    yield "a result that is thrown away", state(b"K\x01", before=ATTACK + b"0"), True
    yield "a result below POP_MARK", state(b"K\x01", before=b"(" + ATTACK + b"1"), True
    yield "an attack as key", state(b"K\x01")[:-2] + ATTACK + b"K\x01s.", True
    yield "an attack in a set", state(b"\x8f(" + ATTACK + b"\x90", protocol=4), True
    yield "an attack as state", state(call(glob("collections", "OrderedDict")) + ATTACK + b"b"), True
    yield "an attack as persistent id", state(ATTACK + b"Q"), True
    yield "an attack in a storage", state(b"K\x01").replace(text("cpu"), ATTACK), True
    yield "an attack in sizes", state(b"K\x01").replace(b"K\x02\x85", ATTACK + b"\x85"), True
    yield "an attack in backward hooks", state(b"K\x01").replace(call(glob("collections", "OrderedDict")), ATTACK), True
    yield "protocol 0", state(b"(" + b"V" + TOUCH.encode() + b"\n" + b"ios\nsystem\n", protocol=None), True
    yield "protocol 5", state(ATTACK, protocol=5), True
    yield "a name below a name", state(call(text("os") + text("path.os.system") + b"\x93", text(TOUCH)), protocol=4), True
    yield "a pickle in a pickle", state(call(glob("pickle", "loads"), b"B" + struct.pack("<I", len(b"\x80\x02" + ATTACK + b".")) + b"\x80\x02" + ATTACK + b".")), True
    yield "a file of torch.save in a pickle", state(call(glob("torch.storage", "_load_from_bytes"), b"B" + struct.pack("<I", len(saved(BAD))) + saved(BAD))), False
    yield "functools.partial", state(call(call(glob("functools", "partial"), SYSTEM, text(TOUCH)))), True
    yield "map", state(call(glob("builtins", "list"), call(glob("builtins", "map"), SYSTEM, b"(" + text(TOUCH) + b"l"))), True
    yield "letters that look like others", state(call(glob("о" + "s", "system"), text(TOUCH))), False
    yield "torch's own name with other arguments", state(call(glob("torch._utils", "_rebuild_tensor_v2"), ATTACK)), True
    yield "torch's own name for another", state(call(glob("torch", "os.system"), text(TOUCH))), False
    yield "torch.serialization's name", state(call(glob("torch.serialization", "os.system"), text(TOUCH)), protocol=2), False
    yield "a call of a call", state(call(call(glob("builtins", "getattr"), glob("os", "sys"), text("exit")), b"K\x00")), False


def broken():
    """Pickles that are none, or ask for much; nothing is run by them."""
    yield "a frame that passes the end", b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + GOOD[2:]
    yield "a text of 2^60 bytes", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"x."
    yield "bytes of 2^31", b"\x80\x03B" + struct.pack("<I", 1 << 31) + b"x."
    yield "an integer of 2^31 bytes", b"\x80\x02\x8b" + struct.pack("<i", (1 << 31) - 1) + b"x."
    yield "an integer of -1 bytes", b"\x80\x02\x8b" + struct.pack("<i", -1) + b"."
    yield "a buffer from outside", b"\x80\x05\x97."
    yield "a read-only buffer from outside", b"\x80\x05\x97\x98."
    yield "protocol 255", b"\x80\xff" + GOOD[2:]
    yield "what the memo does not have", state(b"h\xfe")
    yield "an empty stack", b"\x80\x02."
    yield "no mark", b"\x80\x02t."
    yield "no end", GOOD[:-1]
    yield "an unknown opcode", state(b"\xfa")
    yield "depth", b"\x80\x02" + b"(" * 200000 + b"t" * 200000 + b"."
    yield "lists in each other", b"\x80\x02]q\x00h\x00a."
    yield "a dict that holds itself", b"\x80\x02}q\x00(" + text("w") + W + text("me") + b"h\x00u."
    yield "growth", b"\x80\x02]" + b"2\x86" * 60 + b"."


def archives():
    """Files whose archive lies: name -> bytes, and whether there is something in it that w hides."""
    yield "behind STOP", saved(GOOD + BAD), True
    yield "behind STOP, a second pickle", saved(GOOD[:-1] + b"." + ATTACK + b"."), True
    yield "a second pickle", saved(GOOD, ("other.pkl", BAD)), True
    yield "a second pickle by another name", saved(GOOD, ("x.bin", BAD)), True
    yield "a second pickle among the storages", saved(GOOD, ("data/1", BAD)), True
    yield "data.pkl twice", saved(GOOD, ("data.pkl", BAD)), True
    yield "data.pkl in other letters", saved(GOOD, ("DATA.PKL", BAD)), True
    yield "another root", archive([("archive/data.pkl", GOOD), ("archive/data/0", DATA), ("other/data.pkl", BAD)], ""), True
    yield "a name that leads out", saved(GOOD, ("../../../../tmp/x", b"x")), True
    yield "an absolute name", archive([("/archive/data.pkl", GOOD), ("/archive/data/0", DATA)], ""), True
    yield "a backslash", saved(GOOD, ("..\\x", b"x")), True
    good = saved(GOOD)
    yield "something before", b"#!/bin/sh\ntouch x\n" + good, True
    yield "something behind", good + b"touch x\n", True
    yield "two archives", saved(BAD) + good, True
    yield "an archive in the comment", good[:-2] + struct.pack("<H", len(saved(BAD))) + saved(BAD), True
    local, central = good.index(b"PK\3\4"), good.index(b"PK\1\2")
    for name, at, value in (("encrypted", 8, b"\1\0"), ("a method that is none", 10, b"\x63\0"), ("a crc that lies", 16, b"\1\2\3\4"),
                            ("a size that lies", 24, b"\1\0\0\0"), ("a stored size that lies", 20, b"\xff\xff\0\0"), ("a place that lies", 42, b"\x40\0\0\0"),
                            ("a place behind the end", 42, b"\xff\xff\xff\x7f"), ("another disk", 34, b"\1\0")):
        yield name, good[:central + at] + value + good[central + at + len(value):], True
    yield "another name in the local header", good[:local + 30] + b"archivX" + good[local + 37:], True
    yield "another size in the local header", good[:local + 22] + b"\1\0\0\0" + good[local + 26:], True
    end = good.rindex(b"PK\5\6")
    yield "fewer members than there are", good[:end + 8] + b"\1\0\1\0" + good[end + 12:], True
    yield "more members than there are", good[:end + 8] + b"\xf0\0\xf0\0" + good[end + 12:], True
    yield "a directory that lies elsewhere", good[:end + 16] + b"\0\0\0\0" + good[end + 20:], True
    path = os.path.join(FOLDER, "made.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("archive/data.pkl", BAD)
        out.writestr("archive/data/0", DATA)
    yield "deflated", open(path, "rb").read(), True
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("archive/data.pkl", b"\x80\x02" + b"N0" * (100 << 20) + GOOD[2:])
        out.writestr("archive/data/0", DATA)
    yield "a bomb", open(path, "rb").read(), True
    bad_stream = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2) + BAD + pickle.dumps(["0"], 2) + struct.pack("<q", 2) + DATA
    yield "the form before 1.6", bad_stream, True


# ---- what exg does
def run(*words):
    made = subprocess.run([EXG, *words], capture_output=True, timeout=60, cwd=FOLDER)
    assert not os.path.exists(MARK), (words, "the attack was run")
    assert made.returncode in (0, 4, 5, 6), (words, made.returncode, made.stderr)
    return made


def open_it(name, data, told):
    """told: it is refused, or what is left out is listed."""
    path = os.path.join(FOLDER, "hostile.pt")
    out = os.path.join(FOLDER, "out.safetensors")
    with open(path, "wb") as file:
        file.write(data)
    made = run("inspect", "--json", path)
    codes = {run("verify", path).returncode, run("inspect", "--digest", "sha256", path).returncode}
    outcome = "refused"
    if made.returncode == 0:
        skipped = json.loads(made.stdout)["skipped"]
        assert skipped or not told, (name, made.stdout)
        outcome = "skipped" if skipped else "harmless"
        converted = run("convert", path, out)
        assert b"left out" in converted.stderr or not told, (name, converted.stderr)
        if converted.returncode == 0:
            with open(out, "rb") as file:
                written = file.read()
            header = json.loads(written[8:8 + struct.unpack("<Q", written[:8])[0]])
            tensors = set(header) - {"__metadata__"}
            assert all(t.split(".")[0] == "w" for t in tensors), (name, header)
            assert not tensors or written[-8:] == DATA, (name, header)
            os.remove(out)
        if told:
            assert run("inspect", "--strict", path).returncode == 5, name
    else:
        assert 0 not in codes, (name, codes)
        assert run("convert", path, out).returncode == made.returncode and not os.path.exists(out), name
    return outcome


counts = {"refused": 0, "skipped": 0, "harmless": 0}
assert open_it("nothing hostile", saved(GOOD), False) == "harmless"
for title, raw, effective in pickles():
    assert runs_in_python(raw, effective) == effective, (title, "in Python the attack", "is none" if effective else "is one")
    outcome = open_it(title, saved(raw), True)
    counts[outcome] += 1
for title, raw in broken():
    counts[open_it(title, saved(raw), False)] += 1
for title, data, told in archives():
    counts[open_it(title, data, told)] += 1
print(sum(counts.values()), "hostile files:", counts)
subprocess.run(["rm", "-r", FOLDER], check=True)
