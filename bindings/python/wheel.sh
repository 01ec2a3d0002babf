#!/bin/sh
# wheel.sh - the package of Python, with the libraries, plugins and the command of an installation.
#
#   wheel.sh PYTHON BUILD OUT
#
# BUILD is a build of exg (with EXG_BUNDLED, to run anywhere), PYTHON has cffi and wheel. What is
# made is for CPython 3.9 and later: it uses the stable ABI.
set -eu
python=$1 build=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
tag=$("$python" -c 'import platform, sys
name, version = platform.libc_ver()
print(f"manylinux_{version.replace(chr(46), chr(95))}_{platform.machine()}")')
cp -r "$here/exg" "$work/exg"
for component in runtime tools lapack torchaudio torchvision cuda http crypto mpi; do
    cmake --install "$build" --prefix "$work/exg" --component "$component" --strip > "$work/log" || {
        cat "$work/log"
        exit 1
    }
done
rm -rf "$work/exg/share/doc" "$work/exg/__pycache__" "$work/log"
(cd "$here" && PYTHONDONTWRITEBYTECODE=1 "$python" build_exg.py "$tree" "$work/exg")
info=$work/exg-$version.dist-info
mkdir "$info"
{
    printf 'Metadata-Version: 2.1\nName: exg\nVersion: %s\n' "$version"
    printf 'Summary: Opens, verifies, converts and runs programs saved by torch.export, without torch.\n'
    printf 'Requires-Python: >=3.9\nRequires-Dist: cffi>=1.15\n'
    printf 'Provides-Extra: numpy\nRequires-Dist: numpy; extra == "numpy"\n'
    printf 'Description-Content-Type: text/markdown\n\n'
    cat "$here/README.md"
} > "$info/METADATA"
printf 'Wheel-Version: 1.0\nGenerator: exg wheel.sh\nRoot-Is-Purelib: false\nTag: cp39-abi3-%s\n' "$tag" > "$info/WHEEL"
printf '[console_scripts]\nexg = exg.__main__:main\n' > "$info/entry_points.txt"
# a wheel holds no links
for link in $(find "$work/exg/lib" -type l); do
    file=$(readlink -f "$link")
    rm "$link"
    mv "$file" "$link"
done
"$python" -m wheel pack "$work" -d "$out" > /dev/null
