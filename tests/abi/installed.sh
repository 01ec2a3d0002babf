#!/bin/sh
# installed.sh - what `cmake --install` leaves is enough to build with.
#
#   installed.sh CMAKE CC CXX BUILD PROGRAM
#
# Installs BUILD into a directory of its own and, with nothing of the source tree on the path,
# compiles every public header alone as C11 and C++, and examples/run.c by pkg-config and by
# find_package; both run PROGRAM, as the module of Fortran does. A library of operators is built as its CMakeLists.txt says, and the
# command that is installed runs programs with it, and with the one that comes along.
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
find_package(exg REQUIRED COMPONENTS static)
add_executable(by_find_package run.c)
target_link_libraries(by_find_package PRIVATE exg::exec)
add_executable(by_archives run.c)
target_link_libraries(by_archives PRIVATE exg::exec_static)
END
"$cmake" -S . -B made -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" > made.log
"$cmake" --build made >> made.log
made/by_find_package "$program"
made/by_archives "$program"

if command -v gfortran > /dev/null; then
    fortran=prefix/share/exg/fortran
    gfortran $(pkg-config --cflags exg-exec) $fortran/exg_fortran.c $fortran/exg.f90 "$root/examples/first.f90" \
        $(pkg-config --libs exg-exec) -o by_fortran
    LD_LIBRARY_PATH=$(dirname "$pc") ./by_fortran "$program"
    mkdir fortran
    cat > fortran/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.16)
project(installed C Fortran)
find_package(exg REQUIRED COMPONENTS fortran)
add_executable(by_target $root/examples/first.f90)
target_link_libraries(by_target PRIVATE exg::fortran)
END
    "$cmake" -S fortran -B fortran/made -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" >> made.log
    "$cmake" --build fortran/made >> made.log
    fortran/made/by_target "$program"
fi

"$cmake" -S "$root/examples/operators" -B mylib -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_COMPILER="$cc" >> made.log
"$cmake" --build mylib >> made.log

# The module file finds the prefix from where it lies; its language is Tcl.
if command -v tclsh > /dev/null; then
    module=$(find prefix/share/exg/modulefiles/exg -type f)
    cat > module.tcl <<'END'
foreach command {module-whatis conflict} { proc $command args {} }
proc prepend-path {name value} { puts "$name $value" }
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
END
    tclsh module.tcl "$module" > paths
    grep -qx "PATH $work/prefix/bin" paths
    grep -qx "PKG_CONFIG_PATH $pc" paths
    grep -qx "LD_LIBRARY_PATH $(dirname "$pc")" paths
    grep -qx "CMAKE_PREFIX_PATH $work/prefix" paths
fi

# expected PROGRAM WORD...: the answers are PyTorch's.
expected()
{
    files=$root/fixtures/$1
    shift
    prefix/bin/exg run "$files.pt2" "$@" --input "$files.inputs.safetensors" \
        --expect "$files.expected.safetensors" | grep "as expected: "
}
expected operator_library/plain --ops mylib/libmylib.so
expected operator_library/writes.core --ops mylib/libmylib.so
expected torchvision/nms
