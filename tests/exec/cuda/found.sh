#!/bin/sh
# found.sh EXG DRIVER LIBRARIES - CUDA's libraries are found in a toolkit's folder, in Python's
# wheels, beside the python3 of PATH, and not where there are none. DRIVER has libcuda.so.1,
# LIBRARIES has cuBLASLt.
set -u
exg=$1 driver=$2 libraries=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-found.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/driver"
ln -s "$driver/libcuda.so.1" "$work/driver/"
failed=0

# try FOLDER found|absent SETTING...: cuBLASLt in FOLDER is found, or not
try()
{
    folder=$1 want=$2
    shift 2
    mkdir -p "$work/$folder"
    ln -s "$libraries"/libcublasLt.so.* "$work/$folder/"
    said=$(env -i HOME="$work" LD_LIBRARY_PATH="$work/driver" "$@" "$exg" devices 2>&1)
    case $said in
    *"no cuBLASLt"*) got=absent ;;
    *cuBLASLt*) got=found ;;
    *) got="nothing: $said" ;;
    esac
    if [ "$got" != "$want" ]; then
        echo "FAILED: $folder with $*: $got, not $want"
        failed=1
    fi
}

mkdir -p "$work/python/bin" "$work/other/bin"
ln -s /bin/true "$work/python/bin/python3"
try cuda/lib64 found CUDA_HOME="$work/cuda"
try toolkit/lib found CUDA_PATH="$work/toolkit"
try env/lib/python3.12/site-packages/nvidia/cublas/lib found VIRTUAL_ENV="$work/env"
try conda/lib found CONDA_PREFIX="$work/conda"
try python/lib/python3.11/site-packages/nvidia/cu13/lib found PATH="$work/other/bin::$work/python/bin"
set -- /usr/local/cuda/lib64/libcublasLt.so.*
[ -e "$1" ] || try elsewhere absent CUDA_HOME="$work/none" VIRTUAL_ENV=/nowhere PATH="$work/other/bin:" \
    CUDA_PATH="$(printf '%05000d' 0)"

# A V100 has the compiler of CUDA 12 where that of 13, which knows it no longer, is there too.
# compiler CARD MAJOR|none: which one is found for it
mkdir -p "$work/compilers"
cp -L "$driver/libcuda.so.1" "$driver/libnvrtc.so.13" "$work/compilers/"
compiler()
{
    said=$(env LD_LIBRARY_PATH="$work/compilers" EXG_STANDIN_ARCHITECTURE="$1" "$exg" devices 2>&1 |
        sed -n 's/.*libnvrtc\.so\.\([0-9]*\).*/\1/p')
    if [ "${said:-none}" != "$2" ]; then
        echo "FAILED: for sm_$1 the compiler is ${said:-none}, not $2"
        failed=1
    fi
}

compiler 90 13
compiler 70 none
cp -L "$driver/libnvrtc.so.13" "$work/compilers/libnvrtc.so.12"
compiler 90 13
compiler 70 12

# What a run has of them it says.
stats()
{
    said=$(env LD_LIBRARY_PATH="$1" XDG_CACHE_HOME="$work" "$exg" run fixtures/mlp.pt2 --device cuda --stats 2>&1)
    case $said in
    *"$2"*) ;;
    *)
        echo "FAILED: with $1 --stats does not say '$2': $said"
        failed=1
        ;;
    esac
}

stats "$driver" "libraries: no cuBLASLt, no cuDNN (products are slow"
stats "$driver:$libraries" "libraries: cuBLASLt, cuDNN"
exit $failed
