/* cuda.c - a stand-in for libcuda: the entry points that the plugin uses, over the emulator.
 * Calls and what is wrong with them are as the driver's; each is noted in the log.
 */
#include "tests/standin/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread device_count *entered;
int fault;
const char *fault_text = "";
static device_count devices[DEVICES_MAX];

static pthread_mutex_t one_call;
static pthread_once_t lock_made = PTHREAD_ONCE_INIT;

static void make_lock(void)
{
    pthread_mutexattr_t again;

    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&one_call, &again);
}

int take_lock(void)
{
    pthread_once(&lock_made, make_lock);
    return pthread_mutex_lock(&one_call);
}

void drop_lock(int *taken)
{
    (void)taken;
    pthread_mutex_unlock(&one_call);
}

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
    *value = attribute == 16   ? 4 /* multiprocessors */
             : attribute == 75 ? capability / 10
                               : capability % 10;
    return attribute == 16 || attribute == 75 || attribute == 76 ? 0 : INVALID_VALUE;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    memset(uuid, 0, 16);
    uuid[0] = (unsigned char)device;
    return 0;
}

int standin_device(void)
{
    return entered == NULL ? -1 : (int)(entered - devices);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ALONE;

    standin_log("cuDevicePrimaryCtxRetain %d", device);
    (void)memory_bytes();
    *context = &devices[device];
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    entered = context;
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

/* The type of an address, and its device: the one that asks. */
int cuPointerGetAttribute(void *value, int attribute, address at)
{
    const int type = 2; /* a device's */
    const int device = standin_device();
    ALONE;

    if (!memory_holds((const void *)(uintptr_t)at, 1)) {
        return INVALID_VALUE;
    }
    memcpy(value, attribute == 2 ? &type : &device, sizeof(int));
    return attribute == 2 || attribute == 9 ? 0 : INVALID_VALUE;
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

/* ---- code ------------------------------------------------------------------------------- */

/* ThreadSanitizer does not see where the loader maps, and takes it for what was mapped there
 * before. */
__attribute__((no_sanitize("thread"))) int cuModuleLoadData(module **m, const void *image)
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
    task t = {.kind = TASK_LAUNCH,
              .function = f,
              .blocks = {blocks_x, blocks_y, blocks_z},
              .threads = threads_x};
    const char *broken = getenv("EXG_STANDIN_NO_LAUNCH"); /* a device that takes none */
    size_t bytes = 0;
    const void *given = NULL;

    ENTER("cuLaunchKernel %s %u,%u,%u %u s%u", f->name, blocks_x, blocks_y, blocks_z, threads_x,
          s->number);
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
    if (broken != NULL && strtol(broken, NULL, 10) == standin_device()) {
        return LAUNCH_FAILED;
    }
    return ask_with(s, &t, given, bytes);
}

int standin_ask(void *s, standin_work *run, const void *params, size_t bytes)
{
    task t = {.kind = TASK_WORK, .work = run};

    ENTER("standin_ask %zu", bytes);
    return ask_with(s, &t, params, bytes);
}
