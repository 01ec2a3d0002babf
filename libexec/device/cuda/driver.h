/* driver.h - CUDA's driver, its run-time compiler and its libraries, opened when asked for.
 * Declarations of the entry points that are used: facts of their binary interface, no header
 * of CUDA is read.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_DRIVER_H
#define EXG_LIBEXEC_DEVICE_CUDA_DRIVER_H

#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cuda_result; /* 0: success */
typedef int cuda_ordinal;
typedef uint64_t cuda_address;
typedef struct cuda_context_handle *cuda_context;
typedef struct cuda_stream_handle *cuda_stream;
typedef struct cuda_event_handle *cuda_event;
typedef struct cuda_module_handle *cuda_module;
typedef struct cuda_function_handle *cuda_function;
typedef struct cuda_graph_handle *cuda_graph;
typedef struct cuda_graph_exec_handle *cuda_graph_exec;
typedef struct nvrtc_program_handle *nvrtc_program;
typedef struct blas_handle_handle *blas_handle;
typedef struct blas_descriptor_handle *blas_descriptor;
typedef struct blas_layout_handle *blas_layout;
typedef struct blas_preference_handle *blas_preference;
typedef struct dnn_handle_handle *dnn_handle;
typedef struct dnn_tensor_handle *dnn_tensor;
typedef struct dnn_filter_handle *dnn_filter;
typedef struct dnn_convolution_handle *dnn_convolution;
typedef struct dnn_activation_handle *dnn_activation;

#define CUDA_SUCCESS             0
#define CUDA_OUT_OF_MEMORY       2
#define CUDA_NOT_READY           600
#define CUDA_CAPTURE_FAULT_FIRST 900
#define CUDA_CAPTURE_FAULT_LAST  908
#define CUDA_STREAM_NON_BLOCKING 1u
#define CUDA_EVENT_NO_TIMING     2u
#define CUDA_CAPTURE_THREAD      1 /* what other threads do is no fault of a capture */
#define CUDA_ADDRESS_TYPE        2
#define CUDA_ADDRESS_ORDINAL     9
#define CUDA_ADDRESS_OF_DEVICE   2
#define CUDA_PROCESSORS          16
#define CUDA_CAPABILITY_MAJOR    75
#define CUDA_CAPABILITY_MINOR    76
#define CUDA_LAUNCH_END          ((void *)0)
#define CUDA_LAUNCH_BYTES        ((void *)1)
#define CUDA_LAUNCH_SIZE         ((void *)2)
#define CUDA_DRIVER_OLDEST       12000 /* as cuDriverGetVersion counts */

/* X(name here, symbol, parameters) */
#define EXG_CUDA_CALLS(X)                                                                          \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(driver_version, "cuDriverGetVersion", (int *version))                                        \
    X(error_name, "cuGetErrorName", (cuda_result result, const char **name))                       \
    X(error_text, "cuGetErrorString", (cuda_result result, const char **text))                     \
    X(device_count, "cuDeviceGetCount", (int *count))                                              \
    X(device_get, "cuDeviceGet", (cuda_ordinal * device, int index))                               \
    X(device_name, "cuDeviceGetName", (char *name, int length, cuda_ordinal device))               \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, cuda_ordinal device))  \
    X(device_uuid, "cuDeviceGetUuid_v2", (uint8_t uuid[16], cuda_ordinal device))                  \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, cuda_ordinal device))   \
    X(context_set, "cuCtxSetCurrent", (cuda_context context))                                      \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * bytes))                       \
    X(memory_alloc, "cuMemAlloc_v2", (cuda_address * address, size_t bytes))                       \
    X(memory_free, "cuMemFree_v2", (cuda_address address))                                         \
    X(address_attribute, "cuPointerGetAttribute",                                                  \
      (void *value, int attribute, cuda_address address))                                          \
    X(pinned_alloc, "cuMemAllocHost_v2", (void **memory, size_t bytes))                            \
    X(pinned_free, "cuMemFreeHost", (void *memory))                                                \
    X(copy_in, "cuMemcpyHtoDAsync_v2",                                                             \
      (cuda_address to, const void *from, size_t bytes, cuda_stream stream))                       \
    X(copy_out, "cuMemcpyDtoHAsync_v2",                                                            \
      (void *to, cuda_address from, size_t bytes, cuda_stream stream))                             \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (cuda_address to, cuda_address from, size_t bytes, cuda_stream stream))                      \
    X(memory_set, "cuMemsetD32Async",                                                              \
      (cuda_address at, unsigned value, size_t count, cuda_stream stream))                         \
    X(stream_create, "cuStreamCreate", (cuda_stream * stream, unsigned flags))                     \
    X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                  \
    X(stream_wait, "cuStreamSynchronize", (cuda_stream stream))                                    \
    X(stream_query, "cuStreamQuery", (cuda_stream stream))                                         \
    X(stream_wait_event, "cuStreamWaitEvent",                                                      \
      (cuda_stream stream, cuda_event event, unsigned flags))                                      \
    X(event_create, "cuEventCreate", (cuda_event * event, unsigned flags))                         \
    X(event_destroy, "cuEventDestroy_v2", (cuda_event event))                                      \
    X(event_record, "cuEventRecord", (cuda_event event, cuda_stream stream))                       \
    X(event_wait, "cuEventSynchronize", (cuda_event event))                                        \
    X(event_query, "cuEventQuery", (cuda_event event))                                             \
    X(module_load, "cuModuleLoadData", (cuda_module * module, const void *image))                  \
    X(module_unload, "cuModuleUnload", (cuda_module module))                                       \
    X(module_function, "cuModuleGetFunction",                                                      \
      (cuda_function * function, cuda_module module, const char *name))                            \
    X(launch, "cuLaunchKernel",                                                                    \
      (cuda_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,            \
       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,          \
       cuda_stream stream, void **params, void **extra))                                           \
    X(capture_begin, "cuStreamBeginCapture_v2", (cuda_stream stream, int mode))                    \
    X(capture_end, "cuStreamEndCapture", (cuda_stream stream, cuda_graph * graph))                 \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
      (cuda_graph_exec * exec, cuda_graph graph, unsigned long long flags))                        \
    X(graph_launch, "cuGraphLaunch", (cuda_graph_exec exec, cuda_stream stream))                   \
    X(graph_destroy, "cuGraphDestroy", (cuda_graph graph))                                         \
    X(graph_exec_destroy, "cuGraphExecDestroy", (cuda_graph_exec exec))

#define EXG_NVRTC_CALLS(X)                                                                         \
    X(version, "nvrtcVersion", (int *major, int *minor))                                           \
    X(create, "nvrtcCreateProgram",                                                                \
      (nvrtc_program * program, const char *source, const char *name, int header_count,            \
       const char *const *headers, const char *const *header_names))                               \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program * program))                                   \
    X(compile, "nvrtcCompileProgram",                                                              \
      (nvrtc_program program, int option_count, const char *const *options))                       \
    X(log_bytes, "nvrtcGetProgramLogSize", (nvrtc_program program, size_t * bytes))                \
    X(log, "nvrtcGetProgramLog", (nvrtc_program program, char *log))                               \
    X(cubin_bytes, "nvrtcGetCUBINSize", (nvrtc_program program, size_t * bytes))                   \
    X(cubin, "nvrtcGetCUBIN", (nvrtc_program program, char *cubin))                                \
    X(ptx_bytes, "nvrtcGetPTXSize", (nvrtc_program program, size_t * bytes))                       \
    X(ptx, "nvrtcGetPTX", (nvrtc_program program, char *ptx))                                      \
    X(count_architectures, "nvrtcGetNumSupportedArchs", (int *count))                              \
    X(architectures, "nvrtcGetSupportedArchs", (int *capabilities))

#define EXG_BLAS_CALLS(X)                                                                          \
    X(create, "cublasLtCreate", (blas_handle * handle))                                            \
    X(destroy, "cublasLtDestroy", (blas_handle handle))                                            \
    X(product_create, "cublasLtMatmulDescCreate",                                                  \
      (blas_descriptor * product, int compute, int scale))                                         \
    X(product_destroy, "cublasLtMatmulDescDestroy", (blas_descriptor product))                     \
    X(product_set, "cublasLtMatmulDescSetAttribute",                                               \
      (blas_descriptor product, int attribute, const void *value, size_t bytes))                   \
    X(layout_create, "cublasLtMatrixLayoutCreate",                                                 \
      (blas_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t lead))             \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", (blas_layout layout))                         \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                              \
      (blas_layout layout, int attribute, const void *value, size_t bytes))                        \
    X(preference_create, "cublasLtMatmulPreferenceCreate", (blas_preference * preference))         \
    X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (blas_preference preference))         \
    X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                      \
      (blas_preference preference, int attribute, const void *value, size_t bytes))                \
    X(choose, "cublasLtMatmulAlgoGetHeuristic",                                                    \
      (blas_handle handle, blas_descriptor product, blas_layout a, blas_layout b, blas_layout c,   \
       blas_layout d, blas_preference preference, int most, void *choices, int *found))            \
    X(multiply, "cublasLtMatmul",                                                                  \
      (blas_handle handle, blas_descriptor product, const void *alpha, const void *a,              \
       blas_layout of_a, const void *b, blas_layout of_b, const void *beta, const void *c,         \
       blas_layout of_c, void *d, blas_layout of_d, const void *algorithm, void *workspace,        \
       size_t workspace_bytes, cuda_stream stream))

#define EXG_DNN_CALLS(X)                                                                           \
    X(create, "cudnnCreate", (dnn_handle * handle))                                                \
    X(destroy, "cudnnDestroy", (dnn_handle handle))                                                \
    X(set_stream, "cudnnSetStream", (dnn_handle handle, cuda_stream stream))                       \
    X(tensor_create, "cudnnCreateTensorDescriptor", (dnn_tensor * tensor))                         \
    X(tensor_destroy, "cudnnDestroyTensorDescriptor", (dnn_tensor tensor))                         \
    X(tensor_set, "cudnnSetTensorNdDescriptor",                                                    \
      (dnn_tensor tensor, int type, int rank, const int *sizes, const int *strides))               \
    X(filter_create, "cudnnCreateFilterDescriptor", (dnn_filter * filter))                         \
    X(filter_destroy, "cudnnDestroyFilterDescriptor", (dnn_filter filter))                         \
    X(filter_set, "cudnnSetFilterNdDescriptor",                                                    \
      (dnn_filter filter, int type, int format, int rank, const int *sizes))                       \
    X(convolution_create, "cudnnCreateConvolutionDescriptor", (dnn_convolution * convolution))     \
    X(convolution_destroy, "cudnnDestroyConvolutionDescriptor", (dnn_convolution convolution))     \
    X(convolution_set, "cudnnSetConvolutionNdDescriptor",                                          \
      (dnn_convolution convolution, int rank, const int *padding, const int *stride,               \
       const int *dilation, int mode, int compute))                                                \
    X(set_groups, "cudnnSetConvolutionGroupCount", (dnn_convolution convolution, int groups))      \
    X(set_math, "cudnnSetConvolutionMathType", (dnn_convolution convolution, int math))            \
    X(choose, "cudnnGetConvolutionForwardAlgorithm_v7",                                            \
      (dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_convolution convolution, dnn_tensor y,   \
       int most, int *found, void *choices))                                                       \
    X(choose_backward, "cudnnGetConvolutionBackwardDataAlgorithm_v7",                              \
      (dnn_handle handle, dnn_filter w, dnn_tensor y, dnn_convolution convolution, dnn_tensor x,   \
       int most, int *found, void *choices))                                                       \
    X(backward, "cudnnConvolutionBackwardData",                                                    \
      (dnn_handle handle, const void *alpha, dnn_filter of_w, const void *w, dnn_tensor of_y,      \
       const void *y, dnn_convolution convolution, int algorithm, void *workspace,                 \
       size_t workspace_bytes, const void *beta, dnn_tensor of_x, void *x))                        \
    X(forward, "cudnnConvolutionForward",                                                          \
      (dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_filter of_w,      \
       const void *w, dnn_convolution convolution, int algorithm, void *workspace,                 \
       size_t workspace_bytes, const void *beta, dnn_tensor of_y, void *y))                        \
    X(forward_whole, "cudnnConvolutionBiasActivationForward",                                      \
      (dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_filter of_w,      \
       const void *w, dnn_convolution convolution, int algorithm, void *workspace,                 \
       size_t workspace_bytes, const void *alpha_of_z, dnn_tensor of_z, const void *z,             \
       dnn_tensor of_bias, const void *bias, dnn_activation activation, dnn_tensor of_y, void *y)) \
    X(activation_create, "cudnnCreateActivationDescriptor", (dnn_activation * activation))         \
    X(activation_destroy, "cudnnDestroyActivationDescriptor", (dnn_activation activation))         \
    X(activation_set, "cudnnSetActivationDescriptor",                                              \
      (dnn_activation activation, int mode, int nan, double limit))                                \
    X(activate, "cudnnActivationForward",                                                          \
      (dnn_handle handle, dnn_activation activation, const void *alpha, dnn_tensor of_x,           \
       const void *x, const void *beta, dnn_tensor of_y, void *y))                                 \
    X(add, "cudnnAddTensor",                                                                       \
      (dnn_handle handle, const void *alpha, dnn_tensor of_a, const void *a, const void *beta,     \
       dnn_tensor of_c, void *c))

#define EXG_CUDA_MEMBER(name, symbol, params) cuda_result(*name) params;

typedef struct exg_cuda_driver {
    EXG_CUDA_CALLS(EXG_CUDA_MEMBER)
    int version; /* as cuDriverGetVersion tells it */
} exg_cuda_driver;

typedef struct exg_nvrtc {
    EXG_NVRTC_CALLS(EXG_CUDA_MEMBER)
    int major, minor;
    int target; /* compute capability that it compiles for: the device's, or one before, as PTX */
} exg_nvrtc;

typedef struct exg_cuda_blas {
    EXG_BLAS_CALLS(EXG_CUDA_MEMBER)
    bool was_asked;
    blas_handle handle; /* NULL: there is none */
} exg_cuda_blas;

typedef struct exg_cuda_dnn {
    EXG_DNN_CALLS(EXG_CUDA_MEMBER)
    bool was_asked;
    dnn_handle handle; /* NULL: there is none */
} exg_cuda_dnn;

/* An entry point, and where in a struct of functions it goes. */
typedef struct exg_cuda_symbol {
    const char *name;
    size_t offset;
} exg_cuda_symbol;

/* Fills a struct of functions; gives the first symbol that is missing, or NULL. */
const char *exg_cuda_find_symbols(void *library, const exg_cuda_symbol *symbols, size_t count,
                                  void *calls);

/* dlopen() of a file name, as the loader finds it, or in the folders of libraries.c. It stays.
 * NULL: it is in none; dlerror() says why the loader did not find it. */
void *exg_cuda_library_load(const char *name);

/* Fills `calls` from lib<stem>.so.<newest>, or the one before as far as `oldest`, the first that
 * is there with all symbols. False: there is none. */
bool exg_cuda_library_open(const char *stem, int newest, int oldest, const exg_cuda_symbol *symbols,
                           size_t count, void *calls);

/* The file of the library whose function is calls' first; NULL: the loader does not say. */
const char *exg_cuda_library_file(const void *calls);

/* Opens a library from the folder of the one whose function is calls' first: what that one opens
 * by name alone is then found. */
void exg_cuda_library_open_beside(const void *calls, const char *name);

#define CUDA_NEWEST 13 /* whose libraries are looked for, where the driver is no older */
#define CUDA_OLDEST 12

/* The CUDA whose libraries go with the driver. */
int exg_cuda_major(const exg_cuda_driver *driver);

/* Opens, and starts, the driver. DEVICE DEV-003 (absent), DEV-006 (too old). */
exg_status exg_cuda_driver_open(exg_cuda_driver *driver, exg_error *err);

/* The newest compiler whose code the driver and a device of this compute capability take. DEVICE
 * DEV-004. */
exg_status exg_nvrtc_open(const exg_cuda_driver *driver, int capability, exg_nvrtc *nvrtc,
                          exg_error *err);

/* DEVICE DEV-008 unless `result` is success. */
exg_status exg_cuda_check(const exg_cuda_driver *driver, cuda_result result, const char *what,
                          exg_error *err);

#endif
