# install.sh - what a bare Debian 12 lacks; sourced by the scripts people run.
#
#   need_packages NAME...   installs those that are missing, says so, stops with a
#                           clear message when it cannot

need_packages() {
    missing=""
    for package in "$@"; do
        if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed"; then
            missing="$missing $package"
        fi
    done
    if [ -z "$missing" ]; then
        return 0
    fi
    echo "== installing:$missing"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null 2>&1; then
        as_root="sudo"
    else
        echo "error: these packages are missing and this is neither root nor has sudo:$missing" >&2
        exit 1
    fi
    # shellcheck disable=SC2086
    if ! { $as_root apt-get update -qq &&
           $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null; then
        echo "error: apt-get could not install:$missing" >&2
        exit 1
    fi
}

BUILD_PACKAGES="cmake ninja-build gcc g++ libc6-dev pkg-config flatbuffers-compiler libflatbuffers-dev
    libsimdjson-dev zlib1g-dev libdeflate-dev libzstd-dev libxxhash-dev libbz2-dev liblzma-dev libcurl4-openssl-dev
    liblapacke-dev libopenblas-serial-dev libssl-dev"
TEST_PACKAGES="libcmocka-dev zstd libopenmpi-dev openmpi-bin python3 dpkg-dev file gfortran"
BENCH_PACKAGES="libdnnl-dev" # the kernel benchmark's peer
FUZZ_PACKAGES="clang-14 libclang-rt-14-dev clang-format-14"
