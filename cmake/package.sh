#!/bin/sh
# package.sh - what people install, each by one command.
#
#   sh cmake/package.sh deb OUT      Debian packages: libraries, headers, command, each plugin
#   sh cmake/package.sh tar OUT      exg-VERSION-linux-MACHINE.tar.zst: the command as one static
#                                    file, its presets, pages and completions; no plugins
#   sh cmake/package.sh wheel OUT    the package of Python (bindings/python), with libraries and command
#
# For Debian 12; installs what is missing. The same tree gives the same bytes, in any folder:
# SOURCE_DATE_EPOCH, which is the last commit's date where it is not set, is the date of all files.
set -eu
cd "$(dirname "$0")/.."
. tests/install.sh
kind=${1:-} out=${2:-}
if [ $# -ne 2 ]; then
    sed -n '3,8s/^# *//p' "$0" >&2
    exit 2
fi
mkdir -p "$out" build
out=$(cd "$out" && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
umask 022
# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES

# build NAME TARGET OPTION...: build/package-NAME
build()
{
    build=$PWD/build/package-$1 target=$2
    shift 2
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DEXG_TESTS=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr "$@" > "$build.log"
    cmake --build "$build" -j "$(nproc)" --target "$target" -- --quiet
}

# Debian has libsimdjson as a shared library alone: the archive, of the same sources.
simdjson()
{
    prefix=$PWD/build/package-simdjson
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    if [ -f "$prefix/lib/libsimdjson.a" ]; then
        return
    fi
    mkdir -p "$prefix/apt/lists/partial" "$prefix/apt/parts" "$prefix/src" "$prefix/lib/pkgconfig"
    for list in /etc/apt/sources.list.d/*.sources; do
        sed 's/^Types:.*/Types: deb-src/' "$list" > "$prefix/apt/parts/$(basename "$list")"
    done
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        if [ -f "$list" ]; then
            sed 's/^deb /deb-src /' "$list" > "$prefix/apt/parts/$(basename "$list" .list).list"
        fi
    done
    apt_options="-qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$prefix/apt/parts
        -o Dir::State::lists=$prefix/apt/lists -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086
    (cd "$prefix/src" && apt-get $apt_options update && apt-get $apt_options source --download-only simdjson) || {
        echo "error: Debian's sources of simdjson cannot be fetched" >&2
        exit 77 # of a test: skipped
    }
    tar -xf "$prefix"/src/simdjson_*.orig.tar.* -C "$prefix/src" --strip-components 1
    version=$(pkg-config --modversion simdjson)
    cmake -S "$prefix/src" -B "$prefix/made" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DSIMDJSON_DEVELOPER_MODE=OFF "-DCMAKE_CXX_FLAGS=-fmacro-prefix-map=$prefix/=" \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib > "$prefix/made.log"
    cmake --build "$prefix/made" -- --quiet
    cmake --install "$prefix/made" >> "$prefix/made.log"
    echo "== libsimdjson.a $version"
}

case $kind in
deb)
    need_packages dpkg-dev file libopenmpi-dev
    build deb all
    rm -rf "$build/packages"
    (cd "$build" && cpack -G DEB -B packages > cpack.log 2>&1) || {
        cat "$build/cpack.log" >&2
        exit 1
    }
    cp "$build"/packages/*.deb "$out"
    ;;
tar)
    need_packages zstd dpkg-dev
    simdjson
    build tar exg_pages -DEXG_STATIC=ON
    name=exg-$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")-linux-$(uname -m)
    rm -rf "$build/tree"
    DESTDIR=$build/tree cmake --install "$build" --prefix "/$name" --component tools --strip >> "$build.log"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$build/tree" -cf - "$name" | zstd -q -19 -f -o "$out/$name.tar.zst"
    bytes=$(stat -c %s "$build/tree/$name/bin/exg")
    if [ "$bytes" -ge 10000000 ]; then
        echo "error: the command is $bytes bytes, and README.md says 10 MB" >&2
        exit 1
    fi
    echo "== one static file of $bytes bytes"
    ;;
wheel)
    need_packages dpkg-dev python3-venv python3-dev
    simdjson
    build wheel all -DEXG_BUNDLED=ON -DCMAKE_INSTALL_LIBDIR=lib
    if [ ! -x build/package-python/bin/python ]; then
        python3 -m venv build/package-python
        build/package-python/bin/pip install -q cffi setuptools wheel
    fi
    sh bindings/python/wheel.sh "$PWD/build/package-python/bin/python" "$build" "$out"
    ;;
*)
    echo "usage: sh cmake/package.sh deb|tar|wheel OUT" >&2
    exit 2
    ;;
esac
ls -l "$out"
