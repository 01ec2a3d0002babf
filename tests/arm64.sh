#!/bin/sh
# arm64.sh - builds for arm64 and runs the tests of the libraries in QEMU's user mode, on any
# Debian 12: the operator corpus, sessions, ranks, DTensors, formats, kernels. Leaves out what
# wants the machine's own compiler or programs, and the kernels that take an emulator too long.
#
#   sh tests/arm64.sh
#
# Libraries of arm64 are unpacked in build/arm64-root; nothing of them is installed.
set -eu
cd "$(dirname "$0")/.."
. tests/install.sh

root="$PWD/build/arm64-root"
lists="$root.lists"

# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static
if [ ! -d "$root/usr" ]; then
    echo "== unpacking the libraries of arm64"
    mkdir -p "$lists/partial" "$root"
    apt="-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists=$lists \
        -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086
    apt-get $apt update -qq
    # shellcheck disable=SC2086
    (cd "$lists" && apt-get $apt download -qq libc6 libgcc-s1 libstdc++6 zlib1g zlib1g-dev \
        libzstd1 libzstd-dev libxxhash0 libxxhash-dev libdeflate0 libdeflate-dev \
        libbz2-1.0 libbz2-dev liblzma5 liblzma-dev \
        libsimdjson14 libsimdjson-dev libflatbuffers-dev libcmocka0 libcmocka-dev)
    for package in "$lists"/*.deb; do
        dpkg -x "$package" "$root"
    done
fi
echo "== building: arm64"
cmake -G Ninja -S . -B build/arm64 -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/arm64.cmake" \
    -DEXG_ARM64_ROOT="$root" -DCMAKE_BUILD_TYPE=Release -DEXG_TESTS=ON -DEXG_LAPACK=OFF \
    -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON >/dev/null
cmake --build build/arm64 -j "$(nproc)" -- --quiet
echo "== testing: arm64"
ctest --test-dir build/arm64 --output-on-failure -j "$(nproc)" \
    -E "cuda|cli|tidy|abi|fuzz|strict|shards|kernels_(matmul|convolution|pointwise|reduce)"
