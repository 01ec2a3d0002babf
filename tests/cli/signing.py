"""signing.py EXG - exg digest --sign and --signed-by. What OpenSSF Model Signing signed (fixtures/signed) is taken; every change of a model,
of a signature or of a key is told. That it takes what exg signs: tests/interop/run_signing.py."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SIGNED = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "signed"
EXG = str(pathlib.Path(sys.argv[1]).resolve())


def run(*words):
    return subprocess.run([EXG, "digest", *map(str, words)], capture_output=True, text=True, check=False)


def check(code, *words, fault="", also=()):
    done = run(*words)
    assert done.returncode == code and fault in done.stderr and all(word in done.stderr for word in also), (words, done)


def taken(model, key, signature):
    check(0, model, "--signed-by", SIGNED / f"{key}.pub", "--bundle", signature)


def refused(code, fault, model, signature, *also, key="p256"):
    check(code, model, "--signed-by", SIGNED / f"{key}.pub", "--bundle", signature, fault=fault, also=also)


def test_what_others_signed():
    for key in ("p256", "p384", "p521"):
        taken(SIGNED / "model", key, SIGNED / f"{key}.sig")
    for name in ("some", "shards"):
        taken(SIGNED / "model", "p256", SIGNED / f"{name}.sig")
    taken(SIGNED / "model" / "weights.bin", "p256", SIGNED / "one.sig")
    refused(5, "SGN-KIND", SIGNED / "model", SIGNED / "blake2.sig", "blake2b")
    refused(1, "SGN-BAD", SIGNED / "model", SIGNED / "p256.sig", key="p384")
    refused(1, "SGN-FILES", SIGNED / "model" / "a-b", SIGNED / "one.sig", "1 changed")


def test_changes(folder):
    """Of a model that was signed, whoever did it."""
    for signature in ("p256", "shards", "own"):
        model = folder / signature
        shutil.copytree(SIGNED / "model", model)
        bundle = model / "model.sig"  # in the folder: it is not among what it signs
        if signature == "own":
            check(0, model, "--sign", SIGNED / "p256.pem", "--bundle", bundle)
        else:
            shutil.copy(SIGNED / f"{signature}.sig", bundle)
        taken(model, "p256", bundle)
        (model / ".git").mkdir()
        (model / ".git" / "config").write_text("of git")
        taken(model, "p256", bundle)
        data = (model / "weights.bin").read_bytes()
        for changed in (data[:-1] + b"!", data[:-1], b""):
            (model / "weights.bin").write_bytes(changed)
            refused(1, "SGN-FILES", model, bundle, "weights.bin")
        (model / "weights.bin").write_bytes(data)
        taken(model, "p256", bundle)
        (model / "more").mkdir()
        (model / "more" / "x").write_text("x")
        refused(1, "SGN-FILES", model, bundle, "1 added: more/x")
        (model / "a" / "b" / "config.json").rename(model / "more" / "x")
        refused(1, "SGN-FILES", model, bundle, "missing: a/b/config.json", "added: more/x")
        (model / "more" / "x").unlink()
        (model / "a" / "b" / "config.json").symlink_to(model / "a-b")
        refused(5, "SGN-LINK", model, bundle)


def test_links(folder):
    """As in a snapshot of a cache."""
    model, bundle = folder / "links", folder / "links.sig"
    shutil.copytree(SIGNED / "model", model)
    (folder / "blob").write_bytes((model / "weights.bin").read_bytes())
    (model / "weights.bin").unlink()
    (model / "weights.bin").symlink_to(folder / "blob")
    check(5, model, "--sign", SIGNED / "p256.pem", "--bundle", bundle, fault="SGN-LINK")
    check(0, model, "--sign", SIGNED / "p256.pem", "--bundle", bundle, "--follow-links")
    taken(model, "p256", bundle)
    (folder / "blob").write_text("another")
    refused(1, "SGN-FILES", model, bundle, "1 changed: weights.bin")
    (folder / "blob").unlink()
    refused(5, "SGN-LINK", model, bundle)
    (model / "weights.bin").unlink()
    os.mkfifo(model / "weights.bin")
    refused(5, "IO-KIND", model, bundle)


def test_keys(folder):
    bundle = folder / "keys.sig"
    for key in ("k256.pem", "locked.pem", "p256.pub", "p256.sig"):
        check(2, SIGNED / "model", "--sign", SIGNED / key, "--bundle", bundle, fault="SGN-KEY")
        assert not bundle.exists()
    for key in ("k256.pub", "p256.pem", "p256.sig"):
        check(2, SIGNED / "model", "--signed-by", SIGNED / key, "--bundle", SIGNED / "p256.sig", fault="SGN-KEY")
    check(3, SIGNED / "model", "--sign", SIGNED / "nosuch", "--bundle", bundle, fault="IO-OPEN")


def bundles():
    """The bundle of p256 with one thing changed, in its JSON or in its statement: (what is told, bundle)."""
    whole = json.loads((SIGNED / "p256.sig").read_text())
    envelope = whole["dsseEnvelope"]
    for key in ("mediaType", "dsseEnvelope"):
        yield "SGN-FORM", {k: v for k, v in whole.items() if k != key}
    yield "SGN-FORM", whole | {"mediaType": "application/json"}
    for key, value in (("payload", "!"), ("payload", 1), ("payloadType", "text/plain"), ("signatures", []), ("signatures", {})):
        yield "SGN-FORM", whole | {"dsseEnvelope": envelope | {key: value}}
    payload = bytearray(base64.b64decode(envelope["payload"]))
    signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    for i in range(0, len(payload), 97):  # nothing of it is believed before the signature is right
        changed = payload[:]
        changed[i] ^= 1
        yield "SGN-BAD", whole | {"dsseEnvelope": envelope | {"payload": base64.b64encode(changed).decode()}}
    for i in range(0, len(signature), 7):
        changed = signature[:]
        changed[i] ^= 1
        yield "SGN-BAD", whole | {"dsseEnvelope": envelope | {"signatures": [{"sig": base64.b64encode(changed).decode()}]}}
    yield "SGN-BAD", whole | {"dsseEnvelope": envelope | {"signatures": [{"sig": ""}]}}


def test_bundles(folder):
    path = folder / "bundle.sig"
    for fault, bundle in bundles():
        path.write_text(json.dumps(bundle))
        refused(1 if fault == "SGN-BAD" else 4, fault, SIGNED / "model", path)
    for text in ("", "{", "[]", "null", "{}"):
        path.write_text(text)
        refused(4, "SGN-FORM", SIGNED / "model", path)


def main():
    if " crypto in\n" not in subprocess.run([EXG, "--version"], capture_output=True, text=True, check=True).stdout:
        check(5, SIGNED / "model", "--signed-by", SIGNED / "p256.pub", "--bundle", SIGNED / "p256.sig", fault="SGN-LIBRARY")
        print("this build has no cryptography, and says so")
        return
    test_what_others_signed()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test_changes(folder)
        test_links(folder)
        test_keys(folder)
        test_bundles(folder)


if __name__ == "__main__":
    main()
