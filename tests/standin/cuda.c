/* cuda.c - a stand-in for libcuda: the entry points that the plugin uses, over the emulator.
 *
 * Streams are carried out as late as may be: when somebody waits. Calls and what is wrong with
 * them are as the driver's; each is noted in the log.
 */
#include "tests/standin/cuda.h"
#include "tests/standin/fibre.h"
#include "tests/standin/log.h"
#include "tests/standin/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INVALID_VALUE   1
#define OUT_OF_MEMORY   2
#define INVALID_DEVICE  101
#define INVALID_IMAGE   200
#define INVALID_CONTEXT 201
#define NOT_FOUND       500
#define ILLEGAL_ADDRESS 700
#define LAUNCH_FAILED   719
#define CAPTURE_REFUSED 900

#define PARAMS_MAX 4096

typedef uint64_t address;

typedef struct event {
    struct stream *stream; /* where it is still to come; NULL: it is over */
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

typedef enum task_kind { TASK_IN, TASK_OUT, TASK_EVENT, TASK_LAUNCH, TASK_WORK } task_kind;

typedef struct task {
    task_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    event *event;
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
} graph;

typedef struct stream {
    tasks asked;
    uint32_t done;
    graph *capture;
} stream;

static __thread int entered;
static int fault; /* sticks: the context is of no use any more */
static const char *fault_text = "";

/* One call at a time, whichever thread makes it: what a kernel's text shares is one place. */
static pthread_mutex_t one_call;
static pthread_once_t lock_made = PTHREAD_ONCE_INIT;

static void make_lock(void)
{
    pthread_mutexattr_t again;

    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&one_call, &again);
}

static int take_lock(void)
{
    pthread_once(&lock_made, make_lock);
    return pthread_mutex_lock(&one_call);
}

static void drop_lock(int *taken)
{
    (void)taken;
    pthread_mutex_unlock(&one_call);
}

#define ALONE int taken __attribute__((cleanup(drop_lock), unused)) = take_lock()

/* What every call does first. */
#define ENTER(...)                                                                                 \
    ALONE;                                                                                         \
    do {                                                                                           \
        standin_log(__VA_ARGS__);                                                                  \
        if (!entered) {                                                                            \
            return INVALID_CONTEXT;                                                                \
        }                                                                                          \
        if (fault != 0) {                                                                          \
            return fault;                                                                          \
        }                                                                                          \
    } while (0)

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
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * bytes))                                      \
    X(cuMemAlloc_v2, (address * at, size_t bytes))                                                 \
    X(cuMemFree_v2, (address at))                                                                  \
    X(cuMemAllocHost_v2, (void **memory, size_t bytes))                                            \
    X(cuMemFreeHost, (void *memory))                                                               \
    X(cuMemcpyHtoDAsync_v2, (address to, const void *from, size_t bytes, stream *s))               \
    X(cuMemcpyDtoHAsync_v2, (void *to, address from, size_t bytes, stream *s))                     \
    X(cuStreamCreate, (stream * *s, unsigned flags))                                               \
    X(cuStreamDestroy_v2, (stream * s))                                                            \
    X(cuStreamSynchronize, (stream * s))                                                           \
    X(cuEventCreate, (event * *e, unsigned flags))                                                 \
    X(cuEventDestroy_v2, (event * e))                                                              \
    X(cuEventRecord, (event * e, stream * s))                                                      \
    X(cuEventSynchronize, (event * e))                                                             \
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

/* ---- the device --------------------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    standin_log("cuInit %u", flags);
    return 0;
}

int cuDriverGetVersion(int *version)
{
    const char *as = getenv("EXG_STANDIN_VERSION");

    *version = as == NULL ? 13000 : (int)strtol(as, NULL, 10);
    return 0;
}

int cuGetErrorName(int result, const char **name)
{
    *name = result == ILLEGAL_ADDRESS   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
            : result == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
                                        : "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuGetErrorString(int result, const char **text)
{
    *text = result == fault ? fault_text : "";
    return 0;
}

int cuDeviceGetCount(int *count)
{
    const char *as = getenv("EXG_STANDIN_DEVICES");

    *count = as == NULL ? 1 : (int)strtol(as, NULL, 10);
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device)
{
    (void)snprintf(name, (size_t)length, "stand-in %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *as = getenv("EXG_STANDIN_ARCHITECTURE"); /* "90": compute capability 9.0 */
    int capability = as == NULL ? 90 : (int)strtol(as, NULL, 10);

    (void)device;
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return attribute == 75 || attribute == 76 ? 0 : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ALONE;

    standin_log("cuDevicePrimaryCtxRetain %d", device);
    (void)memory_bytes();
    *context = &entered;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    standin_log("cuDevicePrimaryCtxRelease %d", device);
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    entered = context != NULL;
    return 0;
}

/* NVRTC asks, and can do without. */
int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return NOT_FOUND;
}

/* ---- memory --------------------------------------------------------------------------------- */

int cuMemGetInfo_v2(size_t *free_bytes, size_t *bytes)
{
    ENTER("cuMemGetInfo");
    *free_bytes = memory_free_bytes();
    *bytes = memory_bytes();
    return 0;
}

int cuMemAlloc_v2(address *at, size_t bytes)
{
    ENTER("cuMemAlloc %zu", bytes);
    *at = bytes == 0 ? 0 : (address)(uintptr_t)memory_take(bytes);
    return bytes == 0 ? INVALID_VALUE : *at == 0 ? OUT_OF_MEMORY : 0;
}

int cuMemFree_v2(address at)
{
    ALONE;

    standin_log("cuMemFree");
    return memory_give((void *)(uintptr_t)at) ? 0 : INVALID_VALUE;
}

int cuMemAllocHost_v2(void **memory, size_t bytes)
{
    ENTER("cuMemAllocHost %zu", bytes);
    *memory = malloc(bytes);
    return *memory == NULL ? OUT_OF_MEMORY : 0;
}

int cuMemFreeHost(void *memory)
{
    ALONE;

    standin_log("cuMemFreeHost");
    free(memory);
    return 0;
}

/* ---- streams ---------------------------------------------------------------------------- */

static void add(tasks *list, const task *item)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->items = realloc(list->items, list->capacity * sizeof(*list->items));
        if (list->items == NULL) {
            abort();
        }
    }
    list->items[list->count++] = *item;
}

static void ask(stream *s, const task *item)
{
    add(s->capture != NULL ? &s->capture->kept : &s->asked, item);
}

static void fail_with(int result, const char *text)
{
    if (fault == 0) {
        fault = result;
        fault_text = text;
        standin_log("fault: %s", text);
    }
}

static void carry_out_launch(const task *t)
{
    fibre_launch launch = {
        .kernel = t->function->entry,
        .params = t->params,
        .blocks = {t->blocks[0], t->blocks[1], t->blocks[2]},
        .threads = t->threads,
        .shared = t->function->module->shared,
        .shared_bytes = t->function->module->shared_bytes
    };
    const char *wrong = fibre_run(&launch);

    if (wrong != NULL) {
        fail_with(LAUNCH_FAILED, wrong);
    }
}

/* Up to and with item `end`. */
static int carry_out(stream *s, uint32_t end)
{
    const char *wrong;

    if (s->done >= end) {
        return fault;
    }
    memory_open();
    for (; s->done < end && fault == 0; s->done++) {
        task *t = &s->asked.items[s->done];

        if (t->kind == TASK_LAUNCH) {
            carry_out_launch(t);
        } else if (t->kind == TASK_WORK) {
            const char *failed = t->work(t->params);

            if (failed != NULL) {
                fail_with(LAUNCH_FAILED, failed);
            }
        } else if (t->kind == TASK_EVENT) {
            t->event->stream = NULL;
        } else {
            memcpy(t->to, t->from, t->bytes);
        }
    }
    wrong = memory_close();
    if (wrong != NULL) {
        fail_with(ILLEGAL_ADDRESS, wrong);
    }
    if (s->done == s->asked.count || fault != 0) {
        for (uint32_t i = 0; i < s->asked.count; i++) {
            free(s->asked.items[i].params);
        }
        s->asked.count = s->done = 0;
    }
    return fault;
}

int cuStreamCreate(stream **s, unsigned flags)
{
    ENTER("cuStreamCreate %u", flags);
    *s = calloc(1, sizeof(**s));
    return *s == NULL ? OUT_OF_MEMORY : 0;
}

int cuStreamDestroy_v2(stream *s)
{
    ALONE;

    standin_log("cuStreamDestroy");
    (void)carry_out(s, s->asked.count);
    free(s->asked.items);
    free(s);
    return 0;
}

int cuStreamSynchronize(stream *s)
{
    ENTER("cuStreamSynchronize");
    return s->capture != NULL ? CAPTURE_REFUSED : carry_out(s, s->asked.count);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, stream *s)
{
    task t = {.kind = TASK_IN, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};

    ENTER("cuMemcpyHtoDAsync %zu", bytes);
    if (!memory_holds(t.to, bytes)) {
        return INVALID_VALUE;
    }
    ask(s, &t);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, stream *s)
{
    task t = {.kind = TASK_OUT, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes};

    ENTER("cuMemcpyDtoHAsync %zu", bytes);
    if (!memory_holds(t.from, bytes)) {
        return INVALID_VALUE;
    }
    ask(s, &t);
    return 0;
}

/* ---- events ----------------------------------------------------------------------------- */

int cuEventCreate(event **e, unsigned flags)
{
    ENTER("cuEventCreate %u", flags);
    *e = calloc(1, sizeof(**e));
    return *e == NULL ? OUT_OF_MEMORY : 0;
}

int cuEventDestroy_v2(event *e)
{
    standin_log("cuEventDestroy");
    free(e);
    return 0;
}

int cuEventRecord(event *e, stream *s)
{
    ENTER("cuEventRecord");
    e->stream = s;
    ask(s, &(task){.kind = TASK_EVENT, .event = e});
    return 0;
}

int cuEventSynchronize(event *e)
{
    stream *s = e->stream;

    ENTER("cuEventSynchronize");
    for (uint32_t i = s == NULL ? 0 : s->asked.count; i > 0; i--) {
        if (s->asked.items[i - 1].kind == TASK_EVENT && s->asked.items[i - 1].event == e) {
            return carry_out(s, i);
        }
    }
    return 0;
}

/* ---- code ------------------------------------------------------------------------------- */

int cuModuleLoadData(module **m, const void *image)
{
    uint64_t bytes;
    static uint32_t count;
    char path[64]; /* a new one each time: the loader goes by names */
    module *made = calloc(1, sizeof(*made));
    int file;
    exg_emulator **emulator;
    void (*range)(char **first, char **end);

    ENTER("cuModuleLoadData");
    if (made != NULL && memcmp(image, "\177ELF", 4) == 0) { /* NVRTC's own: is not run here */
        *m = made;
        return 0;
    }
    memcpy(&bytes, image, sizeof(bytes));
    (void)snprintf(path, sizeof(path), "/tmp/exg-standin-%d-%u-XXXXXX", (int)getpid(), count++);
    file = mkstemp(path);
    if (made == NULL || file < 0 || write(file, (const char *)image + 8, bytes) != (ssize_t)bytes) {
        return OUT_OF_MEMORY;
    }
    made->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)close(file);
    (void)unlink(path);
    if (made->library == NULL) {
        standin_log("fault: %s", dlerror());
        return INVALID_IMAGE;
    }
    emulator = dlsym(made->library, "exg_emulated");
    *(void **)&range = dlsym(made->library, "exg_shared_range");
    if (emulator == NULL || range == NULL) {
        return INVALID_IMAGE;
    }
    *emulator = &fibre_emulator;
    {
        char *end = NULL;

        range(&made->shared, &end);
        made->shared_bytes = (uint64_t)(end - made->shared);
    }
    *m = made;
    return 0;
}

int cuModuleUnload(module *m)
{
    standin_log("cuModuleUnload");
    if (m->library != NULL) {
        (void)dlclose(m->library);
    }
    while (m->functions != NULL) {
        function *next = m->functions->next;

        free(m->functions);
        m->functions = next;
    }
    free(m);
    return 0;
}

int cuModuleGetFunction(function **f, module *m, const char *name)
{
    void *entry = m->library == NULL ? NULL : dlsym(m->library, name);

    ENTER("cuModuleGetFunction %s", name);
    if (entry == NULL && m->library != NULL) {
        return NOT_FOUND;
    }
    *f = calloc(1, sizeof(**f));
    if (*f == NULL) {
        return OUT_OF_MEMORY;
    }
    (*f)->module = m;
    (void)snprintf((*f)->name, sizeof((*f)->name), "%s", name);
    *(void **)&(*f)->entry = entry;
    (*f)->next = m->functions;
    m->functions = *f;
    return 0;
}

/* A task with parameters of its own. */
static int ask_with(stream *s, task *t, const void *params, size_t bytes)
{
    t->params = malloc(bytes);
    if (t->params == NULL) {
        return OUT_OF_MEMORY;
    }
    memcpy(t->params, params, bytes);
    t->bytes = bytes;
    ask(s, t);
    return 0;
}

int cuLaunchKernel(function *f, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, stream *s, void **params, void **extra)
{
    task t = {
        .kind = TASK_LAUNCH,
        .function = f,
        .blocks = {blocks_x, blocks_y, blocks_z},
        .threads = threads_x
    };
    size_t bytes = 0;
    const void *given = NULL;

    ENTER("cuLaunchKernel %s %u,%u,%u %u", f->name, blocks_x, blocks_y, blocks_z, threads_x);
    for (; extra != NULL && *extra != NULL; extra += 2) {
        if (*extra == (void *)1) {
            given = extra[1];
        } else if (*extra == (void *)2) {
            bytes = *(const size_t *)extra[1];
        }
    }
    if (blocks_x == 0 || blocks_y == 0 || blocks_z == 0 || blocks_y > 65535 || blocks_z > 65535 ||
        threads_x == 0 || threads_x > 1024 || threads_y != 1 || threads_z != 1 ||
        shared_bytes != 0 || params != NULL || given == NULL || bytes > PARAMS_MAX ||
        f->entry == NULL) {
        return INVALID_VALUE;
    }
    return ask_with(s, &t, given, bytes);
}

int standin_ask(void *s, standin_work *run, const void *params, size_t bytes)
{
    task t = {.kind = TASK_WORK, .work = run};

    ENTER("standin_ask %zu", bytes);
    return ask_with(s, &t, params, bytes);
}

/* ---- graphs ----------------------------------------------------------------------------- */

int cuStreamBeginCapture_v2(stream *s, int mode)
{
    ENTER("cuStreamBeginCapture %d", mode);
    s->capture = calloc(1, sizeof(*s->capture));
    return s->capture == NULL ? OUT_OF_MEMORY : 0;
}

int cuStreamEndCapture(stream *s, graph **g)
{
    ENTER("cuStreamEndCapture");
    *g = s->capture;
    s->capture = NULL;
    return 0;
}

static task again(const task *from)
{
    task t = *from;

    if (from->params != NULL) {
        t.params = malloc(from->bytes);
        if (t.params == NULL) {
            abort();
        }
        memcpy(t.params, from->params, from->bytes);
    }
    return t;
}

int cuGraphInstantiateWithFlags(graph **exec, graph *g, unsigned long long flags)
{
    ENTER("cuGraphInstantiate %llu of %u", flags, g->kept.count);
    *exec = calloc(1, sizeof(**exec));
    for (uint32_t i = 0; *exec != NULL && i < g->kept.count; i++) {
        task t = again(&g->kept.items[i]);

        add(&(*exec)->kept, &t);
    }
    return *exec == NULL ? OUT_OF_MEMORY : 0;
}

int cuGraphLaunch(graph *exec, stream *s)
{
    ENTER("cuGraphLaunch");
    for (uint32_t i = 0; i < exec->kept.count; i++) {
        task t = again(&exec->kept.items[i]);

        ask(s, &t);
    }
    return 0;
}

int cuGraphDestroy(graph *g)
{
    for (uint32_t i = 0; i < g->kept.count; i++) {
        free(g->kept.items[i].params);
    }
    free(g->kept.items);
    free(g);
    return 0;
}

int cuGraphExecDestroy(graph *exec)
{
    return cuGraphDestroy(exec);
}
