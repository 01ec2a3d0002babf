#!/usr/bin/env python3
"""exg on models of a server, which is this one: on loopback, and it counts what it is asked for.
   addresses.py EXG"""
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading

EXG = sys.argv[1]
FOLDER = tempfile.mkdtemp()
ETAG = {"value": '"one"'}
# what it was asked for:
asked = []  # (path, first, last)
seen = []  # headers
once = set()


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def file(self, path, **headers):
        """All of it, as long as somebody listens."""
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(os.path.getsize(path)))
        self.end_headers()
        with open(path, "rb") as file:
            try:
                while body := file.read(65536):
                    self.wfile.write(body)
            except OSError:
                self.close_connection = True
        return None

    def part(self, path, etag):
        size = os.path.getsize(path)
        first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        first, last = int(first), min(int(last), size - 1)
        asked.append((self.path, first, last))
        if first >= size:
            return self.answer(416, Content_Range=f"bytes */{size}")
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        if self.headers.get("If-Range", etag) != etag:
            return self.file(path, ETag=etag)
        return self.answer(206, body, ETag=etag, Content_Range=f"bytes {first}-{last}/{size}")

    def do_GET(self):
        seen.append(dict(self.headers))
        kind, _, name = self.path[1:].split("?")[0].partition("/")
        path = os.path.join(FOLDER, name.replace("%20", " "))
        if kind in ("401", "403", "500"):
            return self.answer(int(kind), b"<html>no</html>")
        if kind == "loop":
            return self.answer(302, Location="/loop/" + name)
        if kind == "away":
            return self.answer(302, Location="file:///etc/passwd")
        if kind == "moved":
            return self.answer(302, Location="/plain/" + name)
        if kind == "page":
            return self.answer(200, b"<!DOCTYPE html><html>log in</html>", Content_Type="text/html")
        if not os.path.isfile(path):
            return self.answer(404, b"nothing")
        if kind == "whole":  # knows no parts
            return self.file(path)
        if kind == "endless":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(4096):
                    self.wfile.write(bytes(65536))
            except OSError:
                pass
            self.close_connection = True
            return None
        if kind == "silent":
            return threading.Event().wait(20)
        if kind == "short":  # says more than it sends
            asked.append((self.path, 0, 0))
            self.send_response(206)
            self.send_header("Content-Range", "bytes 0-65535/1000000")
            self.send_header("Content-Length", "65536")
            self.end_headers()
            self.wfile.write(bytes(100))
            self.close_connection = True
            return None
        if kind == "other":  # another part than was asked for
            return self.answer(206, bytes(100), Content_Range="bytes 100-199/1000000")
        if kind == "less":  # of a part that is right by its length
            return self.answer(206, bytes(100), Content_Range="bytes 0-99/1000000")
        if kind == "busy" and self.headers["Range"] not in once:  # the first time
            once.add(self.headers["Range"])
            return self.answer(503)
        if kind == "changing":
            etag = f'"{len([a for a in asked if a[0] == self.path])}"'
            return self.part(path, etag)
        return self.part(path, ETAG["value"])


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
BASE = f"http://127.0.0.1:{server.server_port}"


def run(*words, code=0, env=None, first=()):
    asked.clear()
    seen.clear()
    made = subprocess.run([*first, EXG, *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "no_proxy": "*", **(env or {})})
    assert made.returncode == code, (words, made.returncode, made.stdout, made.stderr)
    return made


def read():
    return sum(last - first + 1 for _, first, last in asked)


def refused(url, code, fault, text="", **more):
    made = run("inspect", url, code=code, **more)
    assert f"{fault}:" in made.stderr and text in made.stderr, (url, made.stderr)
    assert "fix:" in made.stderr, made.stderr


def same(name, *options):
    """What is told of an address is what is told of the file."""
    path = os.path.join(FOLDER, name)
    here = run("inspect", path, *options).stdout
    there = run("inspect", f"{BASE}/plain/{name}", *options).stdout
    assert there.replace(f"{BASE}/plain/", FOLDER + "/") == here, (name, here, there)


def make(name, tensors, size):
    """A safetensors file of so many f32 tensors of `size` bytes, all zeros, that takes no disk."""
    header = {f"layers.{i}.w": {"dtype": "F32", "shape": [size // 4],
                                "data_offsets": [i * size, (i + 1) * size]} for i in range(tensors)}
    text = str(header).replace("'", '"').encode()
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + tensors * size)


def copy(name, source):
    with open(source, "rb") as file, open(os.path.join(FOLDER, name), "wb") as out:
        out.write(file.read())


# ---- a gigabyte, of which the header is read
make("large.safetensors", 64, 16 << 20)
same("large.safetensors")
assert len(asked) == 1 and read() <= 65536, asked
run("verify", f"{BASE}/plain/large.safetensors")
assert len(asked) == 1 and read() <= 65536, asked

# ---- tensors that are asked for, and no others; in memory that does not grow with them
out = os.path.join(FOLDER, "out.safetensors")
run("convert", f"{BASE}/plain/large.safetensors", out, "--select", "layers.[37].w")
assert read() <= (32 << 20) + 65536, read()
# in parts of 4 MiB where one thread reads; several may overtake each other, and read smaller ones
run("convert", f"{BASE}/plain/large.safetensors", out, "--force", "--select", "layers.[37].w",
    first=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
assert read() <= (32 << 20) + 65536 and len(asked) <= 11, (read(), len(asked))
run("convert", os.path.join(FOLDER, "large.safetensors"), out + ".safetensors", "--select",
    "layers.[37].w")
assert open(out, "rb").read() == open(out + ".safetensors", "rb").read()
limited = subprocess.run(["/usr/bin/env", "python3", "-c", """
import resource, subprocess, sys
made = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(made.returncode)""", EXG, "convert", f"{BASE}/plain/large.safetensors", out, "--force",
                          "--select", "layers.[1-9].w"], capture_output=True, text=True)
assert limited.returncode == 0, limited.stderr
print("9 tensors, 144 MiB: resident", int(limited.stdout) // 1024, "MiB")
assert int(limited.stdout) < 100 << 10 or os.environ.get("EXG_SANITIZE")  # which keeps what is freed

# ---- each format
for name, source in (("model.gguf", "fixtures/weights/little.gguf"),
                     ("model.pt", "fixtures/weights/nested.pt"),
                     ("model.npz", "fixtures/weights/names.npz"),
                     ("model.npy", "fixtures/weights/brain.npy"),
                     ("a model.pt2", "fixtures/mlp.pt2"), ("lm.pt2", "fixtures/lm.core.dynamic.pt2")):
    copy(name, source)
    same(name)
    same(name, "--digest", "sha256")
assert len(asked) < 30, asked
run("verify", f"{BASE}/plain/lm.pt2")
run("diff", f"{BASE}/plain/lm.pt2", os.path.join(FOLDER, "lm.pt2"))
run("convert", f"{BASE}/plain/lm.pt2", os.path.join(FOLDER, "lm.exg"))
run("diff", os.path.join(FOLDER, "lm.exg"), f"{BASE}/plain/lm.pt2")

# ---- an index and its shards, on the server
run("convert", "fixtures/weights/nested.pt", os.path.join(FOLDER, "set.safetensors"), "--split", "64")
same("set.safetensors.index.json")
assert len(asked) == 5, asked  # each file once
same("set.safetensors.index.json", "--values")
os.remove(os.path.join(FOLDER, "set-00002-of-00004.safetensors"))
refused(f"{BASE}/plain/set.safetensors.index.json", 3, "IO-OPEN", "set-00002-of-00004")

# ---- a distributed checkpoint: of the files of ranks the ends of each chunk, and what is asked for
os.mkdir(os.path.join(FOLDER, "dcp"))
for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
    copy("dcp/" + name, "fixtures/weights/saved/dcp/" + name)
for words in ((), ("--values",), ("--digest", "sha256")):
    same("dcp/.metadata", *words)
for name in ("__0.metadata", "__0_0.distcp", "__1.metadata", "__1_0.distcp"):  # of ranks that did not talk to each other
    os.makedirs(os.path.join(FOLDER, "ranks"), exist_ok=True)
    copy("ranks/" + name, "fixtures/weights/saved/dcp_ranks/" + name)
for words in ((), ("--values",), ("--digest", "sha256")):
    same("ranks/__1.metadata", *words)
os.rename(os.path.join(FOLDER, "ranks", "__1.metadata"), os.path.join(FOLDER, "ranks", "__2.metadata"))
refused(f"{BASE}/plain/ranks/__0.metadata", 3, "DCP-MISSING", "__1.metadata")
os.rename(os.path.join(FOLDER, "ranks", "__2.metadata"), os.path.join(FOLDER, "ranks", "__1.metadata"))
os.remove(os.path.join(FOLDER, "ranks", "__0.metadata"))
refused(f"{BASE}/plain/ranks/__1.metadata", 3, "DCP-MISSING", "__0.metadata")
os.remove(os.path.join(FOLDER, "dcp", "__1_0.distcp"))
refused(f"{BASE}/plain/dcp/.metadata", 3, "DCP-MISSING", "__1_0.distcp")
make("middle.safetensors", 24, 2 << 20)
run("convert", os.path.join(FOLDER, "middle.safetensors"), os.path.join(FOLDER, "step", ".metadata"))
same("step/.metadata")
assert read() <= 2 << 20 and len(asked) <= 100, (read(), len(asked))
run("convert", f"{BASE}/plain/step/.metadata", out, "--force", "--select", "layers.[37].w")
assert read() <= 6 << 20, read()
run("convert", os.path.join(FOLDER, "middle.safetensors"), out + ".safetensors", "--force", "--select",
    "layers.[37].w")
run("diff", out, out + ".safetensors")

# ---- redirections, queries, tokens
run("inspect", f"{BASE}/moved/model.pt")
run("inspect", f"{BASE}/plain/model.pt?download=true")
refused(f"{BASE}/loop/model.pt", 3, "HTTP-MOVED")
refused(f"{BASE}/away/model.pt", 3, "HTTP-MOVED")
assert all("Authorization" not in headers for headers in seen)
run("inspect", f"{BASE}/plain/model.pt", env={"EXG_HTTP_TOKEN": "secret"})
assert seen[0]["Authorization"] == "Bearer secret"

# ---- what servers do
refused(f"{BASE}/plain/none.pt", 3, "HTTP-MISSING", "404")
refused(f"{BASE}/401/model.pt", 3, "HTTP-STATUS", "EXG_HTTP_TOKEN")
refused(f"{BASE}/403/model.pt", 3, "HTTP-STATUS", "403")
refused(f"{BASE}/500/model.pt", 3, "HTTP-STATUS", "500")
refused(f"{BASE}/page/model.pt", 5, "FMT-FOREIGN", "HTML")
run("inspect", f"{BASE}/whole/model.pt")
refused(f"{BASE}/endless/model.pt", 5, "HTTP-RANGE")
refused(f"{BASE}/whole/large.safetensors", 5, "HTTP-RANGE")
refused(f"{BASE}/short/model.pt", 3, "HTTP-BODY")
assert len(asked) > 1  # it was tried again
refused(f"{BASE}/other/model.pt", 5, "HTTP-RANGE")
refused(f"{BASE}/less/model.pt", 3, "HTTP-BODY")
run("inspect", f"{BASE}/busy/model.pt")
made = run("inspect", f"{BASE}/changing/large.safetensors", "--values", code=3)
assert "IO-CHANGED:" in made.stderr, made.stderr
refused(f"{BASE}/silent/model.pt", 3, "HTTP-TIME", env={"EXG_HTTP_TIMEOUT": "1"})
refused(f"{BASE}/plain/model.pt", 2, "CLI-001", env={"EXG_HTTP_TIMEOUT": "soon"})
refused("http://127.0.0.1:1/model.pt", 3, "HTTP-CONNECT")
refused("https://" + BASE[7:] + "/plain/model.pt", 3, "HTTP-TLS")
refused("http://", 2, "HTTP-URL")
open(os.path.join(FOLDER, "empty.pt"), "w").close()
refused(f"{BASE}/plain/empty.pt", 4, "FMT-EMPTY")
refused("file:///etc/passwd", 3, "IO-OPEN")
subprocess.run(["rm", "-r", FOLDER], check=True)
