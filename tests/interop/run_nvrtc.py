"""Kernels of CUDA through the real NVRTC, for GPUs that need not be there. See README.md beside this file."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "nvidia-cuda-nvrtc"
FAMILIES = ["attention", "convolution", "draw", "index", "matmul", "move", "norm", "pointwise",
            "recurrent", "reduce", "weight_product"]
TESTS = {family: [f"test_exec_kernels_{family}"] for family in FAMILIES}
TESTS["epilogues"] = ["test_exec_cuda_epilogues"]
TESTS["collectives"] = ["test_exec_cuda_links", "ranks_on_one_device*"]
# Of how many programs of a kernel one is compiled, the first always. --all: every one.
ONE_OF = 128
# Texts say nothing of one architecture alone: for the others those that ask most of the compiler. --all: every family.
ARCHITECTURES = {"90": TESTS, "80": ("attention", "matmul"), "100": ("attention", "matmul")}


def find_nvrtc():
    """The folder of libnvrtc.so.13, or None."""
    for folder in sys.path:
        for path in pathlib.Path(folder or ".").glob("nvidia/*/lib/libnvrtc.so.13"):
            return path.parent
    return None


def install():
    folder = find_nvrtc()
    if folder is None:
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", PACKAGE], capture_output=True, text=True)
        folder = find_nvrtc()
        if folder is None:
            sys.exit(f"FAILED: {PACKAGE} cannot be had: nothing was compiled\n{done.stderr[-2000:]}")
    return folder


def compile_family(build, nvrtc, driver, architecture, one_of, family):
    """Prepares the kernels of a family's tests with the real compiler; the number of programs, or the first fault."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, EXG_KERNEL_DEVICE="cuda", XDG_CACHE_HOME=cache, LD_LIBRARY_PATH=f"{driver}:{nvrtc}",
                           EXG_KERNEL_PREPARE_ONLY="1", EXG_KERNEL_ONE_OF=str(one_of), EXG_STANDIN_ARCHITECTURE=architecture)
        test, *arguments = TESTS[family]
        done = subprocess.run([build / "tests" / test, *arguments], env=environment, capture_output=True, text=True)
        count = len(list(pathlib.Path(cache).glob("exg/*.cubin")))
    faults = [line for line in done.stdout.splitlines() + done.stderr.splitlines() if "ERROR" in line or "FAILED" in line]
    return count, None if done.returncode == 0 and count > 0 else (faults or ["nothing was compiled"])[0]


def compile_library(exg, nvrtc, driver):
    """The text of an operator that a library gives, as its example has it: what is wrong, or None."""
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "mylib.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT / "libexport" / "include", ROOT / "examples" / "operators" / "mylib.c", "-o", library, "-lm"],
                       check=True)
        environment = dict(os.environ, XDG_CACHE_HOME=folder, LD_LIBRARY_PATH=f"{driver}:{nvrtc}", EXG_STANDIN_ARCHITECTURE="90")
        done = subprocess.run([exg, "plan", ROOT / "fixtures" / "operator_library" / "plain.pt2", "--ops", library, "--device", "cuda"],
                              env=environment, capture_output=True, text=True)
    left = [line for line in done.stdout.splitlines() if "soft_threshold" in line and "(host)" in line]
    return done.stderr if done.returncode != 0 else left[0] if left else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", type=pathlib.Path, default=pathlib.Path("build/release/cli/exg"), help="of a built tree with tests")
    parser.add_argument("--all", action="store_true", help="every program, for every architecture")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    build = options.exg.resolve().parent.parent
    nvrtc = install()
    failed = 0
    passed = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as driver, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # The stand-in for the driver alone: the compiler is the real one.
        (pathlib.Path(driver) / "libcuda.so.1").symlink_to(build / "tests" / "standin" / "libcuda.so.1")
        cases = [(a, 1 if options.all else ONE_OF, f) for a, families in ARCHITECTURES.items()
                 for f in (TESTS if options.all else families)]
        results = pool.map(lambda case: compile_family(build, nvrtc, driver, *case), cases)
        for (architecture, _, family), (count, fault) in zip(cases, results):
            print(f"sm_{architecture} {family}: {count} programs" + (f": {fault}" if fault else ""), flush=True)
            failed += fault is not None
            passed += fault is None
        fault = compile_library(options.exg.resolve(), nvrtc, driver)
        print("sm_90 an operator of a library" + (f": {fault}" if fault else ""))
        failed += fault is not None
        passed += fault is None
    print(f"{passed} passed, {failed} failed, {time.monotonic() - begin:.0f} s")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
