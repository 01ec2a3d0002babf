"""store.py EXG - exg store: what comes out is what went in, once; whatever is damaged, killed, or done at once is told or does no harm."""

import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = str(pathlib.Path(sys.argv[1]).resolve())
FILES = ["fixtures/mlp.pt2", "fixtures/tied.pt2", "fixtures/lm.core.dynamic.pt2", "fixtures/archives/several.pt2", "fixtures/weights/nested.pt", "fixtures/weights/little.gguf", "fixtures/weights/sharded.safetensors.index.json", "fixtures/many.inputs.safetensors", "fixtures/bad/ZIP-END.pt2", "README.md"]  # fmt: skip


def run(*words, **more):
    return subprocess.run([EXG, "store", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False, **more)


def good(*words):
    done = run(*words)
    assert done.returncode == 0, (words, done)
    return done.stdout


def told(code, fault, *words, **more):
    done = run(*words, **more)
    assert done.returncode == code and fault in done.stderr + done.stdout, (words, done)


def write_safetensors(path, tensors, note=""):
    header, at = {"__metadata__": {"note": note}}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))


def listed(store):
    return json.loads(good("list", store, "--json"))


def check_out(store, name, wanted, folder):
    good("export", store, name, folder / "out")
    assert (folder / "out").read_bytes() == wanted, name


def test_round_trips(folder):
    store = folder / "trips"
    (folder / "empty").write_bytes(b"")
    files = {path: (ROOT / path).read_bytes() for path in FILES}
    good("add", store, *files, folder / "empty")
    files["empty"] = b""
    found = {f["name"]: f for f in listed(store)["files"]}
    assert {k: (v["bytes"], v["sha256"]) for k, v in found.items()} == {k: (len(v), hashlib.sha256(v).hexdigest()) for k, v in files.items()}
    for name, data in files.items():
        check_out(store, name, data, folder)
    before = listed(store)
    good("add", store, *FILES)  # again: the same
    assert listed(store) == before
    assert good("verify", store) == "sound\n"
    for path in store.rglob("*"):  # an object is what its name says
        if path.parent.parent.name == "objects":
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name
    good("remove", store, *files)
    assert listed(store) == {"format": 1, "files": [], "objects": 0, "object_bytes": 0}


def test_once(folder):
    """A tensor of several files is kept once: under other names, in another order, behind another header, in another format."""
    store, tensors = folder / "once", {f"t{i}": random.randbytes(50000 + i) for i in range(8)}
    size = sum(len(t) for t in tensors.values())
    write_safetensors(folder / "a.safetensors", tensors)
    write_safetensors(folder / "b.safetensors", {f"model.{k}": v for k, v in reversed(tensors.items())}, "tuned" * 100)
    write_safetensors(folder / "c.safetensors", tensors | {"t3": random.randbytes(50003)})
    subprocess.run([EXG, "convert", folder / "a.safetensors", folder / "a.npz"], check=True, capture_output=True)
    names = ["a.safetensors", "b.safetensors", "c.safetensors", "a.npz"]
    good("add", store, *(folder / n for n in names))
    kept = listed(store)["object_bytes"]
    assert size + 50003 < kept < size + 50003 + 9000, kept
    said = json.loads(good("add", store, folder / "b.safetensors", "--as", "again/b", "--json"))["added"]
    assert said == [{"name": "again/b", "bytes": (folder / "b.safetensors").stat().st_size, "new_objects": 0, "new_bytes": 0}], said
    good("remove", store, "a.safetensors", "b.safetensors", "a.npz")
    for name, path in (("c.safetensors", "c.safetensors"), ("again/b", "b.safetensors")):
        check_out(store, name, (folder / path).read_bytes(), folder)


def test_names(folder):
    store = folder / "names"
    good("add", store, "README.md")
    told(2, "STO-NAME", "add", store, "CHANGELOG.md", "--as", "README.md")
    for name in ("../x", "/x", "a/../../x", "a//b", ".", "..", "a/", "a\\b", "x" * 1001, "./a"):
        told(2, "STO-NAME", "add", store, "README.md", "--as", name)
        told(2, "STO-NAME", "export", store, name, folder / "out2")
        told(2, "STO-NAME", "remove", store, name)
    told(2, "STO-NAME", "export", store, "nosuch", folder / "out2")
    told(2, "STO-NAME", "remove", store, "nosuch")
    assert not (folder / "out2").exists() and len(list(folder.glob("x*"))) == 0
    told(4, "STO-FOLDER", "add", ROOT / "docs", "README.md")  # a folder of other things
    told(4, "STO-FOLDER", "list", folder / "nosuch")
    (store / "exg-store").write_text("exg store 2\n")
    told(5, "STO-VERSION", "list", store)


def test_damage(folder):
    """Every object, in every way, is told by export and by verify; adding the file again mends it."""
    store, tensors = folder / "damage", {f"t{i}": random.randbytes(5000) for i in range(3)}
    write_safetensors(folder / "d.safetensors", tensors)
    wanted = (folder / "d.safetensors").read_bytes()
    good("add", store, folder / "d.safetensors")
    objects = [p for p in (store / "objects").rglob("*") if p.is_file()]
    assert len(objects) == 4
    for path in objects:
        data = path.read_bytes()
        for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[:-1], data + b"x", b"", None):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            told(4, "STO-OBJECT", "export", store, "d.safetensors", folder / "out3")
            assert not (folder / "out3").exists()
            told(4, path.parent.name + path.name, "verify", store)
            good("add", store, folder / "d.safetensors")
            assert path.read_bytes() == data and good("verify", store) == "sound\n"
    entry = store / "files" / "d.safetensors.json"
    text = entry.read_text()
    note = json.loads(text)
    worse = ["", "{", "[]", text[:-10]] + [json.dumps({k: v for k, v in note.items() if k != key}) for key in note]
    worse += [json.dumps(note | {key: value}) for key, value in (("bytes", 1), ("bytes", -1), ("format", 2), ("sha256", "00"), ("objects", []), ("pieces", []), ("pieces", note["pieces"][:-1]), ("pieces", [[0, 2**62, 2**62]] * 4), ("pieces", [[99, 0, 1]]), ("objects", [["../../../etc/passwd", 1]]))]
    for changed in worse:
        entry.write_text(changed)
        told(4, "STO-ENTRY", "export", store, "d.safetensors", folder / "out3")
        told(4, "STO-ENTRY", "verify", store)
        told(4, "STO-ENTRY", "collect", store)  # whose objects would it not need?
    entry.write_text(json.dumps(note | {"pieces": note["pieces"][::-1]}))  # sound, and of another file
    told(4, "STO-ENTRY", "export", store, "d.safetensors", folder / "out3")
    entry.write_text(text)
    check_out(store, "d.safetensors", wanted, folder)


def test_killed(folder):
    """After any kill the store is sound, what is collected is not needed, and adding goes through."""
    store, names = folder / "killed", [f"k{i}.safetensors" for i in range(4)]
    for name in names:
        write_safetensors(folder / name, {f"t{i}": random.randbytes(300000) for i in range(10)})
    good("add", store, "README.md")
    killed = 0
    for round_ in range(24):
        child = subprocess.Popen([EXG, "store", "add", store, *(folder / n for n in names)], stdout=subprocess.DEVNULL)
        time.sleep(0.001 + 0.002 * round_)
        child.send_signal(signal.SIGKILL)
        killed += child.wait() != 0
        assert good("verify", store) == "sound\n"
        good("collect", store)
        there = [f["name"] for f in listed(store)["files"]]
        for name in there:
            if name != "README.md":
                check_out(store, name, (folder / name).read_bytes(), folder)
                good("remove", store, name)
        assert listed(store)["objects"] == 1
    good("add", store, *(folder / n for n in names))
    for name in names:
        check_out(store, name, (folder / name).read_bytes(), folder)
    assert killed > 0


def test_at_once(folder):
    """Adding, removing and collecting by several: nothing that is named is lost."""
    store, names = folder / "at-once", [f"o{i}.safetensors" for i in range(6)]
    common = {f"t{i}": random.randbytes(20000) for i in range(5)}
    for name in names:
        write_safetensors(folder / name, common | {"own": random.randbytes(20000)})
    good("add", store, folder / names[0])
    for _ in range(4):
        children = [subprocess.Popen([EXG, "store", "add", store, folder / n], stdout=subprocess.DEVNULL) for n in names]
        children += [subprocess.Popen([EXG, "store", "collect", store], stdout=subprocess.DEVNULL) for _ in range(3)]
        assert all(child.wait() == 0 for child in children)
        assert good("verify", store) == "sound\n"
        for name in names:
            check_out(store, name, (folder / name).read_bytes(), folder)
        good("remove", store, *names[1:])


def test_no_room(folder):
    store = folder / "room"
    write_safetensors(folder / "r.safetensors", {f"t{i}": random.randbytes(100000 * (1 + i)) for i in range(4)})

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (150000, 150000))

    told(3, "IO-WRITE", "add", store, folder / "r.safetensors", preexec_fn=limit)
    assert listed(store)["files"] == [] and good("verify", store) == "sound\n"
    good("add", store, folder / "r.safetensors")
    told(3, "IO-WRITE", "export", store, "r.safetensors", folder / "out4", preexec_fn=limit)
    assert not (folder / "out4").exists()


def test_shared(folder):
    """Whole pages are shared where the file system can do that (TMPDIR on Btrfs or XFS), and what is written later is not."""
    store, size = folder / "shared", 5 << 20
    header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]} for i in range(2)}).encode().ljust(4096 - 8)
    data = struct.pack("<Q", len(header)) + header + random.randbytes(2 * size)
    (folder / "s.safetensors").write_bytes(data)
    good("add", store, folder / "s.safetensors")
    said = json.loads(good("export", store, "s.safetensors", folder / "s2.safetensors", "--json"))
    assert said["exported"] == "s.safetensors" and said["bytes"] == len(data) and not said["linked"], said
    assert said["cloned_bytes"] in (0, 2 * size, 2 * size + 4096), said
    print(f"shared: {said['cloned_bytes']} of {len(data)} bytes")
    with open(folder / "s2.safetensors", "r+b") as file:
        assert file.read() == data
        file.seek(100000)
        file.write(b"other")
    assert good("verify", store) == "sound\n"
    assert json.loads(good("export", store, "s.safetensors", folder / "s3.safetensors", "--link", "--json"))["linked"] is False
    check_out(store, "s.safetensors", data, folder)


def test_links(folder):
    store = folder / "links"
    good("add", store, "README.md")
    good("export", store, "README.md", folder / "linked", "--link")
    assert (folder / "linked").read_bytes() == (ROOT / "README.md").read_bytes()
    assert (folder / "linked").stat().st_nlink == 2
    assert (folder / "linked").stat().st_mode & 0o222 == 0
    good("export", store, "README.md", folder / "copied")
    assert (folder / "copied").stat().st_nlink == 1 and os.access(folder / "copied", os.W_OK)
    shutil.rmtree(store)
    assert (folder / "linked").read_bytes() == (ROOT / "README.md").read_bytes()


def main():
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        for test in (test_round_trips, test_once, test_names, test_damage, test_killed, test_at_once, test_no_room, test_links, test_shared):
            test(pathlib.Path(name))


if __name__ == "__main__":
    main()
