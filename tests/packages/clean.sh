#!/bin/sh
# clean.sh - are the packages enough, on a Debian 12 that has nothing else?
#
#   clean.sh PACKAGES ROOT
#
# PACKAGES is where cmake/package.sh put them. ROOT becomes a Debian 12 of debootstrap, unless it is
# there; it needs root and the network, so this is run by hand. The tarball runs the demo before
# anything is installed; then the Debian packages do, the page of the manual is looked for, and so does
# the wheel, without a compiler. Then a C program is built with headers and pkg-config of the dev
# package. Last all are purged, and nothing of them is left.
set -eu
packages=$(cd "$1" && pwd) root=$2
tree=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -x "$root/usr/bin/apt-get" ]; then
    mirror=$(sed -n 's/^URIs: //p' /etc/apt/sources.list.d/debian.sources | head -n 1)
    debootstrap --variant=minbase bookworm "$root" "$mirror" > "$root.log"
fi
rm -rf "$root/exg" "$root/packages"
mkdir -p "$root/exg" "$root/packages"
cp -r "$tree/fixtures" "$tree/cli" "$tree/examples" "$root/exg"
cp "$packages"/*.deb "$packages"/*.whl "$root/packages"

inside()
{
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$1"
}

echo "== the tarball"
zstd -qdc "$packages"/exg-*-linux-*.tar.zst | tar -xf - -C "$root/packages"
inside 'cd /packages/exg-*-linux-*/ && EXG=$PWD/bin/exg sh /exg/cli/demo.sh && bin/exg --version | head -n 1'

echo "== the Debian packages"
inside 'apt-get -qq update > /dev/null
    apt-get -qq install -y --no-install-recommends /packages/exg_*.deb /packages/libexg1_*.deb \
        /packages/exg-plugin-lapack_*.deb /packages/exg-plugin-crypto_*.deb /packages/exg-plugin-http_*.deb \
        /packages/exg-plugin-torchvision_*.deb /packages/exg-plugin-cuda_*.deb > /dev/null
    EXG=/usr/bin/exg sh /exg/cli/demo.sh
    exg --version
    cd /exg && exg run fixtures/torchvision/nms.pt2 --input fixtures/torchvision/nms.inputs.safetensors \
        --expect fixtures/torchvision/nms.expected.safetensors | tail -n 1
    ls /usr/share/man/man1/exg-run.1.gz /usr/share/bash-completion/completions/exg 2>&1 || true'

echo "== the wheel"
inside 'apt-get -qq install -y --no-install-recommends python3-venv python3-numpy python3-cffi > /dev/null
    python3 -m venv --system-site-packages /root/venv && /root/venv/bin/pip install -q --no-index /packages/exg-*.whl
    cd /exg && EXG=/root/venv/bin/exg sh cli/demo.sh | tail -n 1
    /root/venv/bin/python -c "
import exg, numpy
inputs, want = (exg.weights.open(f\"fixtures/lm.{f}.safetensors\") for f in (\"inputs\", \"expected\"))
session = exg.open(\"fixtures/lm.core.dynamic.pt2\").session(mesh=2, place=\"tensor\")
(y,) = session(**inputs)
assert numpy.allclose(y.numpy(), want[\"0\"].numpy(), rtol=1e-4, atol=1e-4)
print(y)"
    ! command -v cc'

echo "== a program in C"
inside 'apt-get -qq install -y --no-install-recommends /packages/libexg-dev_*.deb gcc libc6-dev pkg-config > /dev/null
    cd /exg && cc -std=c11 -Wall -Werror examples/run.c $(pkg-config --cflags --libs exg-exec) -o /root/run
    /root/run fixtures/mlp.pt2'

echo "== purged"
inside 'apt-get -qq purge -y --auto-remove exg "exg-plugin-*" libexg1 libexg-dev gcc cpp libc6-dev pkg-config > /dev/null
    ! ls /usr/bin/exg /usr/lib/*/libexg* /usr/include/exg 2> /dev/null'
echo "== done"
