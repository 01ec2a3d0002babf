#!/bin/sh
# installed.sh - what `cmake --install` leaves is enough to build with.
#
#   installed.sh CMAKE CC CXX BUILD PROGRAM
#
# Installs BUILD into a directory of its own and, with nothing of the source tree on the path,
# compiles every public header alone as C11 and C++, and examples/run.c by pkg-config and by
# find_package; both run PROGRAM.
set -eu
cmake=$1 cc=$2 cxx=$3 build=$4 program=$5
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-installed.XXXXXX")
trap 'rm -rf "$work"' EXIT
flags="-Wall -Wextra -Wpedantic -Werror"

"$cmake" --install "$build" --prefix "$work/prefix" > "$work/install.log"
pc=$(dirname "$(find "$work/prefix" -name exg-exec.pc)")
PKG_CONFIG_PATH=$pc
export PKG_CONFIG_PATH
cp "$root/examples/run.c" "$work"
cd "$work"
for header in prefix/include/exg/*.h; do
    echo "#include <exg/$(basename "$header")>" > one.c
    "$cc" -std=c11 $flags $(pkg-config --cflags exg-exec) -fsyntax-only one.c
    "$cxx" $flags $(pkg-config --cflags exg-exec) -fsyntax-only -x c++ one.c
done
"$cc" -std=c11 $flags run.c $(pkg-config --cflags --libs exg-exec) -o by_pkg_config
LD_LIBRARY_PATH=$(dirname "$pc") ./by_pkg_config "$program"
cat > CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(installed C)
find_package(exg REQUIRED)
add_executable(by_find_package run.c)
target_link_libraries(by_find_package PRIVATE exg::exec)
END
"$cmake" -S . -B made -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" > made.log
"$cmake" --build made >> made.log
made/by_find_package "$program"
