"""python -m exg: the command."""

import os
import pathlib
import sys


def main() -> None:
    command = pathlib.Path(__file__).with_name("bin") / "exg"
    os.execv(command, ["exg", *sys.argv[1:]])


if __name__ == "__main__":
    main()
