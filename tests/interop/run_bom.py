"""run_bom.py --exg EXG - bills of materials of exg against the published schema of CycloneDX 1.6
(pip install 'cyclonedx-python-lib[json-validation]'). Where that is not installed nothing is compared, and it is said."""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ["fixtures/mlp.pt2", "fixtures/lm.core.dynamic.pt2", "fixtures/weights/little.gguf", "fixtures/weights/nested.pt", "fixtures/weights/saved/sd15.pt", "fixtures/many.inputs.safetensors", "fixtures/weights/saved/dcp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    exg = str(pathlib.Path(parser.parse_args().exg).resolve())
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        validator = JsonStrictValidator(SchemaVersion.V1_6)
        assert validator.validate_str("{}") is not None  # it says so of what is none
    except (ImportError, AssertionError) as fault:
        print(f"the schema of CycloneDX is not installed ({fault}): nothing was compared\n0 passed, 0 failed")
        return 0
    failed = 0
    for path in FILES:
        text = subprocess.run([exg, "digest", path, "--sbom"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        fault = validator.validate_str(text)
        failed += fault is not None
        print(f"{'ok' if fault is None else 'FAILED'}  {path} {fault or ''}")
    print(f"{len(FILES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
