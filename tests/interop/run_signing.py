"""run_signing.py --exg EXG - signatures of exg and of OpenSSF Model Signing (pip install model-signing), each looked at by the other.

Where that package is not installed nothing is compared, and it is said; tests/cli/signing.py has files that it signed.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIGNED = ROOT / "fixtures" / "signed"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    exg = str(pathlib.Path(parser.parse_args().exg).resolve())
    try:
        from model_signing import signing, verifying
    except ImportError as fault:
        print(f"model_signing is not installed ({fault}): nothing was compared\n0 passed, 0 failed")
        return 0
    results = []

    def verdict(name, good):
        results.append(good)
        print(f"{'ok' if good else 'FAILED'}  {name}")

    def theirs(model, key, signature):
        try:
            verifying.Config().use_elliptic_key_verifier(public_key=SIGNED / f"{key}.pub").verify(model, signature)
        except Exception as fault:  # of any kind: it does not take it
            return str(fault) or "refused"
        return None

    def ours(*words):
        return subprocess.run([exg, "digest", *map(str, words)], capture_output=True, check=False).returncode

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for key in ("p256", "p384", "p521"):
            for kind in ("folder", "file"):
                model = folder / f"{key}-{kind}"
                shutil.copytree(SIGNED / "model", model)
                target = model if kind == "folder" else model / "weights.bin"
                made = model / "ours.sig" if kind == "folder" else folder / "ours.sig"
                verdict(f"{key} {kind}: exg signs", ours(target, "--sign", SIGNED / f"{key}.pem", "--bundle", made) == 0)
                verdict(f"{key} {kind}: model_signing takes it", theirs(target, key, made) is None)
                made.unlink()  # or it would be signed, too
                signing.Config().use_elliptic_key_signer(private_key=SIGNED / f"{key}.pem").sign(target, folder / "theirs.sig")
                verdict(f"{key} {kind}: exg takes what it signs", ours(target, "--signed-by", SIGNED / f"{key}.pub", "--bundle", folder / "theirs.sig") == 0)
                ours(target, "--sign", SIGNED / f"{key}.pem", "--bundle", made)
                (model / "weights.bin").write_text("another")
                verdict(f"{key} {kind}: a change is told by both", theirs(target, key, made) is not None and ours(target, "--signed-by", SIGNED / f"{key}.pub", "--bundle", made) == 1)
        other = "p384" if theirs(SIGNED / "model", "p256", SIGNED / "p256.sig") is None else "p256"
        verdict("another key is told by both", theirs(SIGNED / "model", other, SIGNED / "p256.sig") is not None and ours(SIGNED / "model", "--signed-by", SIGNED / f"{other}.pub", "--bundle", SIGNED / "p256.sig") == 1)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
