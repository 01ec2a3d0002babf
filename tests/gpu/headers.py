"""What the CUDA plugin declares for itself, beside NVIDIA's own headers: every entry point, every number, every struct.

headers.py FOLDER...    FOLDER: unpacked wheels, or a toolkit; cuda.h, nvrtc.h, cublasLt.h, cudnn.h and nccl.h are looked for below.

By hand, with the headers of several versions (headers.md says which were compared):

    pip download --no-deps -d w nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl nvidia-cuda-nvrtc==13.0.88 \\
        nvidia-cublas nvidia-cudnn-cu13 nvidia-nccl-cu13
    for f in w/*.whl; do unzip -qo "$f" '*/include/*' -d w; done; python3 tests/gpu/headers.py w

The compiler compares: each pair of parameters is two addresses, two numbers of one size or two structs of one size. A number of ours
that this page does not name is a fault too.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = TREE / "libexec/device/cuda"

CALLS = [  # rows, where, struct of ours, header
    ("EXG_CUDA_CALLS", "driver.h", "exg_cuda_driver", "cuda.h"),
    ("EXG_NVRTC_CALLS", "driver.h", "exg_nvrtc", "nvrtc.h"),
    ("EXG_BLAS_CALLS", "driver.h", "exg_cuda_blas", "cublasLt.h"),
    ("EXG_DNN_CALLS", "driver.h", "exg_cuda_dnn", "cudnn.h"),
    ("EXG_NCCL_CALLS", "nccl.h", "exg_nccl", "nccl.h"),
]
OWN = {"ALIGNED", "WORKSPACE_MOST", "NEWEST", "OLDEST", "CHOICES", "CUDA_DRIVER_OLDEST", "CUDA_NEWEST", "CUDA_OLDEST", "NCCL_OLDEST",
       "NCCL_NO_DTYPE"}  # no number of NVIDIA's
NUMBERS = {
    "driver.h": ("cuda.h", {
        "CUDA_SUCCESS": "CUDA_SUCCESS_", "CUDA_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_NOT_READY": "CUDA_ERROR_NOT_READY",
        "CUDA_CAPTURE_FAULT_FIRST": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "CUDA_CAPTURE_FAULT_LAST": "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "CUDA_STREAM_NON_BLOCKING": "CU_STREAM_NON_BLOCKING",
        "CUDA_EVENT_NO_TIMING": "CU_EVENT_DISABLE_TIMING", "CUDA_CAPTURE_THREAD": "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
        "CUDA_ADDRESS_TYPE": "CU_POINTER_ATTRIBUTE_MEMORY_TYPE", "CUDA_ADDRESS_ORDINAL": "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
        "CUDA_ADDRESS_OF_DEVICE": "CU_MEMORYTYPE_DEVICE", "CUDA_PROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
        "CUDA_CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "CUDA_CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", "CUDA_LAUNCH_END": "CU_LAUNCH_PARAM_END_AS_INT",
        "CUDA_LAUNCH_BYTES": "CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT", "CUDA_LAUNCH_SIZE": "CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT"}),
    "blas.c": ("cublasLt.h", {
        "OPERATION_T": "CUBLAS_OP_T", "PRODUCT_TRANSPOSES_X": "CUBLASLT_MATMUL_DESC_TRANSA",
        "PRODUCT_TRANSPOSES_Y": "CUBLASLT_MATMUL_DESC_TRANSB", "PRODUCT_EPILOGUE": "CUBLASLT_MATMUL_DESC_EPILOGUE",
        "PRODUCT_BIAS": "CUBLASLT_MATMUL_DESC_BIAS_POINTER", "MATRIX_BATCHES": "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT",
        "MATRIX_BATCH_STRIDE": "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET",
        "CHOICE_WORKSPACE": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", "CHOICE_ALIGNMENT": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
        "EPILOGUE_NONE": "CUBLASLT_EPILOGUE_DEFAULT", "EPILOGUE_RELU": "CUBLASLT_EPILOGUE_RELU", "EPILOGUE_BIAS": "CUBLASLT_EPILOGUE_BIAS",
        "EPILOGUE_GELU": "CUBLASLT_EPILOGUE_GELU"}),
    "dnn.c": ("cudnn.h", {
        "CROSS_CORRELATION": "CUDNN_CROSS_CORRELATION", "DETERMINISTIC": "CUDNN_DETERMINISTIC", "FORMAT_NCHW": "CUDNN_TENSOR_NCHW",
        "MATH_DEFAULT": "CUDNN_DEFAULT_MATH", "MATH_TENSOR": "CUDNN_TENSOR_OP_MATH", "MATH_FMA": "CUDNN_FMA_MATH",
        "ALGORITHM_PRECOMPUTED": "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM", "ACTIVATION_RELU": "CUDNN_ACTIVATION_RELU",
        "ACTIVATION_IDENTITY": "CUDNN_ACTIVATION_IDENTITY", "PROPAGATE_NAN": "CUDNN_PROPAGATE_NAN"}),
    "nccl.h": ("nccl.h", {
        "NCCL_SUCCESS": "ncclSuccess", "NCCL_IN_PROGRESS": "ncclInProgress", "NCCL_BYTES": "ncclUint8",
        "NCCL_CONFIG_MAGIC": "NCCL_CONFIG_MAGIC_"}),
}
# Written where they are used.
FACTS = {
    "cublasLt.h": """
SAME(CUBLASLT_EPILOGUE_RELU_BIAS, 2 | 4); SAME(CUBLASLT_EPILOGUE_GELU_BIAS, 32 | 4);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6); SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8);
SAME(CUDA_R_32F, 0); SAME(CUDA_R_64F, 1); SAME(CUDA_R_16F, 2); SAME(CUDA_R_16BF, 14); SAME(CUBLAS_COMPUTE_32F, 68);
SAME(CUBLAS_COMPUTE_64F, 70);
struct choice { uint64_t algorithm[8]; size_t workspace_bytes; int status; float waves; int reserved[4]; };
SAME(sizeof(choice), sizeof(cublasLtMatmulHeuristicResult_t)); SAME(sizeof(cublasLtMatmulAlgo_t), 64);
SAME(offsetof(choice, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(choice, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
""",
    "cudnn.h": """
SAME(CUDNN_DATA_FLOAT, 0); SAME(CUDNN_DATA_DOUBLE, 1); SAME(CUDNN_DATA_HALF, 2); SAME(CUDNN_DATA_BFLOAT16, 9);
struct choice { int algorithm, status; float time; size_t memory; int determinism, math, reserved[3]; };
SAME(sizeof(choice), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(choice, memory), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(choice, determinism), offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
SAME(offsetof(choice, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
SAME(sizeof(choice), sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
SAME(offsetof(choice, memory), offsetof(cudnnConvolutionBwdDataAlgoPerf_t, memory));
SAME(offsetof(choice, determinism), offsetof(cudnnConvolutionBwdDataAlgoPerf_t, determinism));
SAME(offsetof(choice, math), offsetof(cudnnConvolutionBwdDataAlgoPerf_t, mathType));
""",
    "nccl.h": """
SAME(ncclInt8, 0); SAME(ncclInt32, 2); SAME(ncclInt64, 4); SAME(ncclFloat16, 6); SAME(ncclFloat32, 7); SAME(ncclFloat64, 8);
SAME(ncclBfloat16, 9); SAME(ncclSum, 0); SAME(ncclProd, 1); SAME(ncclMax, 2); SAME(ncclMin, 3); SAME(ncclAvg, 4);
SAME(sizeof(nccl_id), sizeof(ncclUniqueId)); SAME(offsetof(nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(nccl_config, blocking), offsetof(ncclConfig_t, blocking));
ALIKE(ncclGetErrorString, exg_nccl, error_text); ALIKE(ncclGetLastError, exg_nccl, last_error);
""",
    "cuda.h": "SAME(sizeof(CUuuid), 16);\n",
    "nvrtc.h": "",
}
VERSIONS = {"cuda.h": r"#define CUDA_VERSION (\d+)", "nvrtc.h": "", "cublasLt.h": "", "cudnn.h": "", "nccl.h": r"#define NCCL_VERSION_CODE (\d+)"}
BEGIN = """
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <class T> constexpr int kind()
{
    return std::is_pointer_v<T> ? 'p' : std::is_floating_point_v<T> ? 'f' : std::is_void_v<T> ? 'v' : std::is_class_v<T> ? 's' : 'n';
}
template <class T> constexpr size_t bytes()
{
    if constexpr (std::is_void_v<T>) { return 0; } else { return sizeof(T); }
}
/* Addresses of a device are numbers of ours, and of NCCL's and cuBLAS's pointers. */
template <class A, class B> constexpr bool fits()
{
    return bytes<A>() == bytes<B>() &&
           (kind<A>() == kind<B>() || (bytes<A>() == 8 && kind<A>() + kind<B>() == 'p' + 'n'));
}
template <class F, class G> struct alike : std::false_type {};
template <class R, class... A, class S, class... B> struct alike<R (*)(A...), S (*)(B...)> {
    template <class... X> struct list {};
    template <class L, class M> struct all : std::false_type {};
    template <class... X, class... Y> struct all<list<X...>, list<Y...>> {
        static constexpr bool value = (fits<X, Y>() && ...);
    };
    static constexpr bool same() {
        if constexpr (sizeof...(A) == sizeof...(B)) { return fits<R, S>() && all<list<A...>, list<B...>>::value; } else { return false; }
    }
    static constexpr bool value = same();
};
#define ALIKE(theirs, owner, ours) static_assert(alike<decltype(&theirs), decltype(owner::ours)>::value, #theirs)
#define SAME(theirs, ours) static_assert((unsigned long long)(theirs) == (unsigned long long)(ours), #theirs " is not " #ours)
"""


def rows_of(macro, name):
    text = (PLUGIN / name).read_text().replace("\\\n", " ")
    body = re.search(rf"#define {macro}\(X\)(.*)", text).group(1)
    return re.findall(r'X\(\s*(\w+),\s*"(\w+)"', body)


def numbers_of(name):
    """name -> value, of all macros that are numbers."""
    text = (PLUGIN / name).read_text()
    found = re.findall(r"^#define ([A-Z][A-Z_0-9]+) +([^/\n]+?) *(?:/\*.*)?$", text, re.M)
    return {n: v.replace("(void *)", "") for n, v in found if not n.startswith("EXG_")}


def numbers_text(header):
    lines, faults = [], []
    for name, (of, pairs) in NUMBERS.items():
        if of != header:
            continue
        own = numbers_of(name)
        for ours, value in own.items():
            if ours in OWN:
                continue
            if ours not in pairs:
                faults.append(f"{name}: {ours} is compared with nothing")
            else:
                theirs = pairs[ours].replace("CUDA_SUCCESS_", "theirs_success").replace("NCCL_CONFIG_MAGIC_", "theirs_magic")
                lines.append(f"SAME({theirs}, {value});")
        faults += [f"{name}: there is no {ours}" for ours in pairs if ours not in own]
    return lines, faults


def check(header, folders):
    rows = [(rows_of(m, f), f, owner) for m, f, owner, h in CALLS if h == header][0]
    lines, faults = numbers_text(header)
    before = {"cuda.h": "static const unsigned long long theirs_success = CUDA_SUCCESS;\n",
              "nccl.h": "static const unsigned long long theirs_magic = ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic;\n"}.get(header, "")
    source = ("#define __CUDA_API_VERSION_INTERNAL 1\n" + f"#include <{header}>\n" + BEGIN + before.replace("const", "constexpr")
              + 'extern "C" {\n' + f'#include "libexec/device/cuda/{rows[1]}"\n' + "}\n"
              + "".join(f"ALIKE({symbol}, {rows[2]}, {name});\n" for name, symbol in rows[0])
              + "\n".join(lines) + "\n" + FACTS[header])
    facts = source.count("SAME(") + source.count("ALIKE(") - BEGIN.count("SAME(") - BEGIN.count("ALIKE(")
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "check.cc"
        path.write_text(source)
        ran = subprocess.run(["c++", "-std=c++17", "-w", "-fpermissive", "-fsyntax-only", *[f"-I{f}" for f in folders], f"-I{TREE}",
                              f"-I{TREE}/libexport/include", f"-I{TREE}/libexec/include", path], capture_output=True, text=True)
    faults += [line.split("error: ", 1)[1] for line in ran.stderr.splitlines() if "error: " in line]
    return len(rows[0]), facts, faults


def version_of(header, folder):
    text = (folder / header).read_text(errors="replace")
    if header == "cublasLt.h" or header == "cudnn.h":
        other = folder / {"cublasLt.h": "cublas_api.h", "cudnn.h": "cudnn_version.h"}[header]
        text = other.read_text(errors="replace") if other.exists() else text
        parts = re.findall(r"#define (?:CUBLAS_VER|CUDNN)_(?:MAJOR|MINOR|PATCH|PATCHLEVEL) +(\d+)", text)
        return ".".join(parts[:3])
    found = re.search(VERSIONS[header], text) if VERSIONS[header] else None
    return found.group(1) if found else ""


def main():
    folders = {}
    for given in sys.argv[1:]:
        for _, _, _, header in CALLS:
            for path in sorted(pathlib.Path(given).rglob(header)):
                if header != "nccl.h" or path.parent.name == "include":
                    folders.setdefault(header, path.parent)
    needed = [p.parent.parent for given in sys.argv[1:] for what in ("crt/host_config.h", "nv/target")
              for p in pathlib.Path(given).rglob(what)]
    bad = 0
    for _, _, _, header in CALLS:
        if header not in folders:
            print(f"{header}: not there")
            bad += 1
            continue
        calls, facts, faults = check(header, list(dict.fromkeys([*folders.values(), *needed])))
        print(f"{header} {version_of(header, folders[header])}: {calls} entry points, {facts} facts, {len(faults)} differ")
        for fault in faults:
            print(f"  {fault}")
        bad += len(faults)
    return 1 if bad else 0


sys.exit(main())
