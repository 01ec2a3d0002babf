/* driver.h - the stand-in of libcuda, as its own files see it: cuda.c (devices, memory, code) and
 * stream.c (streams, events, graphs).
 */
#ifndef EXG_TESTS_STANDIN_DRIVER_H
#define EXG_TESTS_STANDIN_DRIVER_H

#include "tests/standin/cuda.h"
#include "tests/standin/fibre.h"
#include "tests/standin/log.h"
#include "tests/standin/memory.h"

#define INVALID_VALUE   1
#define OUT_OF_MEMORY   2
#define INVALID_DEVICE  101
#define INVALID_IMAGE   200
#define INVALID_CONTEXT 201
#define NOT_FOUND       500
#define ILLEGAL_ADDRESS 700
#define LAUNCH_FAILED   719
#define NOT_READY       600
#define CAPTURE_REFUSED 900
#define UNJOINED        904
#define ISOLATED        905

#define PARAMS_MAX  4096
#define DEVICES_MAX 128

typedef uint64_t address;

typedef struct event {
    struct stream *stream; /* NULL: never recorded */
    uint64_t place;        /* there */
    struct graph *capture; /* where it was recorded; NULL: it was not */
    uint32_t number;
} event;

typedef struct function {
    struct module *module;
    char name[64];
    void (*entry)(const void *params);
    struct function *next;
} function;

typedef struct module {
    void *library;
    function *functions;
    char *shared;
    uint64_t shared_bytes;
} module;

typedef enum task_kind {
    TASK_COPY,
    TASK_EVENT,
    TASK_WAIT, /* until `stream` is past `place` */
    TASK_MEET,
    TASK_WORK,
    TASK_LAUNCH
} task_kind;

typedef struct task {
    task_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    struct stream *stream;
    uint64_t place;
    standin_meeting *meet;
    standin_keeping *keep;
    void *op, *state; /* of the meeting, and of this time that it is carried out */
    bool is_launched; /* with a graph, which stays as long */
    const function *function;
    standin_work *work;
    uint32_t blocks[3], threads;
    unsigned char *params;
} task;

typedef struct tasks {
    task *items;
    uint32_t count, capacity;
} tasks;

typedef struct graph {
    tasks kept;
    struct stream *origin;
} graph;

typedef struct stream {
    tasks asked;
    uint32_t done;
    uint64_t dropped; /* tasks before those */
    graph *capture;   /* its own, or one it was drawn into by an event */
    bool strays;      /* there with work that nothing waits for yet */
    uint32_t number;
    struct device_count *device;
    struct stream *next;
} stream;

/* How many of each there were, since it last had no stream. */
typedef struct device_count {
    uint32_t open_streams, streams, events;
} device_count;

extern __thread device_count *entered; /* NULL: no device */
extern int fault;                      /* sticks: the context is of no use any more */
extern const char *fault_text;

/* One call at a time, whichever thread makes it: what a kernel's text shares is one place. */
int take_lock(void);
void drop_lock(int *taken);

#define ALONE int taken __attribute__((cleanup(drop_lock), unused)) = take_lock()

/* What every call does first. */
#define CHECK                                                                                      \
    do {                                                                                           \
        if (entered == NULL) {                                                                     \
            return INVALID_CONTEXT;                                                                \
        }                                                                                          \
        if (fault != 0) {                                                                          \
            return fault;                                                                          \
        }                                                                                          \
    } while (0)
#define ENTER(...)                                                                                 \
    ALONE;                                                                                         \
    standin_log(__VA_ARGS__);                                                                      \
    CHECK

/* X(symbol, parameters): declared here, as the driver declares them. */
#define CALLS(X)                                                                                   \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, (int result, const char **name))                                             \
    X(cuGetErrorString, (int result, const char **text))                                           \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (int *device, int index))                                                       \
    X(cuDeviceGetName, (char *name, int length, int device))                                       \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                               \
    X(cuDeviceGetUuid_v2, (unsigned char *uuid, int device))                                       \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * bytes))                                      \
    X(cuMemAlloc_v2, (address * at, size_t bytes))                                                 \
    X(cuMemFree_v2, (address at))                                                                  \
    X(cuPointerGetAttribute, (void *value, int attribute, address at))                             \
    X(cuMemAllocHost_v2, (void **memory, size_t bytes))                                            \
    X(cuMemFreeHost, (void *memory))                                                               \
    X(cuMemcpyHtoDAsync_v2, (address to, const void *from, size_t bytes, stream *s))               \
    X(cuMemcpyDtoHAsync_v2, (void *to, address from, size_t bytes, stream *s))                     \
    X(cuMemcpyDtoDAsync_v2, (address to, address from, size_t bytes, stream * s))                  \
    X(cuMemsetD32Async, (address at, unsigned value, size_t count, stream *s))                     \
    X(cuStreamCreate, (stream * *s, unsigned flags))                                               \
    X(cuStreamDestroy_v2, (stream * s))                                                            \
    X(cuStreamSynchronize, (stream * s))                                                           \
    X(cuStreamQuery, (stream * s))                                                                 \
    X(cuStreamWaitEvent, (stream * s, event * e, unsigned flags))                                  \
    X(cuEventCreate, (event * *e, unsigned flags))                                                 \
    X(cuEventDestroy_v2, (event * e))                                                              \
    X(cuEventRecord, (event * e, stream * s))                                                      \
    X(cuEventSynchronize, (event * e))                                                             \
    X(cuEventQuery, (event * e))                                                                   \
    X(cuModuleLoadData, (module * *m, const void *image))                                          \
    X(cuModuleUnload, (module * m))                                                                \
    X(cuModuleGetFunction, (function * *f, module * m, const char *name))                          \
    X(cuLaunchKernel, (function * f, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,      \
                       unsigned threads_x, unsigned threads_y, unsigned threads_z,                 \
                       unsigned shared_bytes, stream *s, void **params, void **extra))             \
    X(cuStreamBeginCapture_v2, (stream * s, int mode))                                             \
    X(cuStreamEndCapture, (stream * s, graph * *g))                                                \
    X(cuGraphInstantiateWithFlags, (graph * *exec, graph * g, unsigned long long flags))           \
    X(cuGraphLaunch, (graph * exec, stream * s))                                                   \
    X(cuGraphDestroy, (graph * g))                                                                 \
    X(cuGraphExecDestroy, (graph * exec))                                                          \
    X(cuGetExportTable, (const void **table, const void *id))
#define DECLARE(name, parameters) int name parameters;
CALLS(DECLARE)

/* Asks a stream, or the graph that it records, for a task. */
void ask(stream *s, const task *item);

#endif
