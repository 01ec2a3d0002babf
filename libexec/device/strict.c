/* strict.c - the host with a device's manners, so that what a real device would punish now and
 * then shows up always, and without one:
 *
 *   - addresses fault when the host follows them: they are of pages that are never open. A kernel
 *     is given where its operands really lie, and may follow no other's
 *   - what is asked for is carried out late: in wait(), never before
 *   - fresh memory is NaN (every byte 0xff), each block ends at a page that is never open, and
 *     what was released is not taken again until RELEASED_MAX others were
 *   - what was recorded works where it did then: other operands by now are a fault
 *
 * Kernels are the host's own. `strict-host` has but two of them and leaves the rest to be
 * computed between copies, as a device with few kernels does.
 */
#include "libexec/device/device.h"
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/kernels.h"
#include "libexport/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT      256u
#define RELEASED_MAX   256
#define SPARE_PAGES    16 /* blocks of up to so many pages are mapped once, and taken again */
#define STRICT_DEVICES 64 /* as many as a session's ranks */

/* Pages whose addresses are given out, a closed page, those where the memory is, a closed page. */
typedef struct block {
    struct block *next; /* of the spare ones */
    uint8_t *pages;
    size_t bytes; /* of either */
    void *address;
} block;

/* A call as it was when it was asked for. */
typedef struct asked_call {
    exg_kernel_call call;
    exg_tensor operands[]; /* inputs, results */
} asked_call;

typedef struct request {
    const exg_kernel *kernel; /* NULL: a copy */
    asked_call *asked;        /* the request's own, of what was recorded the graph's */
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t operands;
    const exg_kernel_call *call; /* of what was recorded: where its operands are by now */
    bool is_kept;                /* by a graph */
} request;

typedef struct requests {
    request *items;
    uint32_t count, capacity;
} requests;

struct exg_device_graph {
    requests kept;
};

typedef struct strict {
    exg_accelerator head;
    block **blocks; /* by address */
    uint32_t block_count, block_capacity;
    block *released[RELEASED_MAX]; /* a ring */
    uint32_t released_count;
    block *spare[SPARE_PAGES + 1]; /* that were released long ago, by pages; closed */
    requests asked;
    asked_call *room; /* for the call that is carried out */
    uint32_t room_operands;
    exg_device_graph *recording; /* NULL: not */
    const exg_kernel *silent;    /* raised a fault, and does not say that it may; NULL: none */
    size_t page;
} strict;

static strict *strict_of(exg_accelerator *device)
{
    return (strict *)device;
}

static exg_status count_devices(uint32_t *count, exg_error *err)
{
    (void)err;
    *count = STRICT_DEVICES;
    return EXG_OK;
}

static exg_status describe(uint32_t index, exg_device_info *info, exg_error *err)
{
    (void)index;
    (void)err;
    (void)snprintf(info->name, sizeof(info->name), "the host, with the rules of a device");
    return EXG_OK;
}

static exg_status open_as(const exg_device_table *table, uint32_t index, exg_accelerator **device,
                          exg_error *err)
{
    strict *s = calloc(1, sizeof(*s));

    *device = NULL;
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    s->head = (exg_accelerator){table, index};
    s->page = (size_t)sysconf(_SC_PAGESIZE);
    *device = &s->head;
    return EXG_OK;
}

static exg_status open_strict(uint32_t index, exg_accelerator **device, exg_error *err)
{
    return open_as(&exg_device_strict, index, device, err);
}

static exg_status open_strict_host(uint32_t index, exg_accelerator **device, exg_error *err)
{
    return open_as(&exg_device_strict_host, index, device, err);
}

static uint8_t *memory_of(const strict *s, const block *b)
{
    return b->pages + b->bytes + s->page;
}

static void unmap(const strict *s, block *b)
{
    if (b != NULL) {
        munmap(b->pages, 2 * (b->bytes + s->page));
        free(b);
    }
}

static bool is_small(const strict *s, size_t bytes)
{
    return bytes <= SPARE_PAGES * s->page;
}

static bool map_pages(const strict *s, block *b)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const size_t bytes = 2 * (b->bytes + s->page);
    void *pages = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);

    if (pages == MAP_FAILED) {
        return false;
    }
    b->pages = pages;
    if (mprotect(memory_of(s, b), b->bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(pages, bytes);
        return false;
    }
    return true;
}

/* NULL: out of memory. */
static block *take_block(strict *s, size_t bytes)
{
    block **spare = is_small(s, bytes) ? &s->spare[bytes / s->page] : NULL;
    block *b;

    if (spare != NULL && *spare != NULL) {
        b = *spare;
        *spare = b->next;
        return b;
    }
    b = calloc(1, sizeof(*b));
    if (b != NULL) {
        b->bytes = bytes;
        if (!map_pages(s, b)) {
            free(b);
            return NULL;
        }
    }
    return b;
}

static void give_block(strict *s, block *b)
{
    if (b != NULL && is_small(s, b->bytes)) {
        b->next = s->spare[b->bytes / s->page];
        s->spare[b->bytes / s->page] = b;
    } else {
        unmap(s, b);
    }
}

/* The first block whose pages end behind the address. */
static uint32_t place_of(const strict *s, const void *address)
{
    uint32_t low = 0;
    uint32_t high = s->block_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const block *b = s->blocks[middle];

        if ((uintptr_t)address < (uintptr_t)b->pages + b->bytes) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* The block that an address is in; NULL: none of ours. */
static block *block_at(const strict *s, const void *address)
{
    uint32_t k = place_of(s, address);

    return k < s->block_count && (uintptr_t)address >= (uintptr_t)s->blocks[k]->pages ? s->blocks[k]
                                                                                      : NULL;
}

/* Among the blocks; false: out of memory. */
static bool keep_block(strict *s, block *b)
{
    uint32_t k = place_of(s, b->pages);

    if (s->block_count == s->block_capacity) {
        uint32_t capacity = s->block_capacity == 0 ? 64 : 2 * s->block_capacity;
        block **blocks = realloc(s->blocks, capacity * sizeof(block *));

        if (blocks == NULL) {
            return false;
        }
        s->blocks = blocks;
        s->block_capacity = capacity;
    }
    memmove(&s->blocks[k + 1], &s->blocks[k], (s->block_count - k) * sizeof(block *));
    s->blocks[k] = b;
    s->block_count++;
    return true;
}

static void forget_calls(requests *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->items[i].is_kept) {
            free(list->items[i].asked);
        }
    }
    list->count = 0;
}

static void close_strict(exg_accelerator *device)
{
    strict *s = strict_of(device);

    if (s == NULL) {
        return;
    }
    forget_calls(&s->asked);
    for (uint32_t i = 0; i < s->block_count; i++) {
        unmap(s, s->blocks[i]);
    }
    for (uint32_t i = 0; i < RELEASED_MAX; i++) {
        unmap(s, s->released[i]);
    }
    for (uint32_t i = 0; i <= SPARE_PAGES; i++) {
        for (block *b = s->spare[i]; b != NULL;) {
            block *next = b->next;

            unmap(s, b);
            b = next;
        }
    }
    free(s->blocks);
    free(s->asked.items);
    free(s->room);
    free(s);
}

static const exg_kernel *kernel_of(const exg_kernel *kernel)
{
    return kernel;
}

/* A kernel that takes any operands in what it says of itself, and none when asked. */
static exg_status refuse(exg_kernel_call *call, exg_error *err)
{
    (void)call;
    return EXG_FAIL(err, UNSUPPORTED, "KRN-001", "the device strict-host has no sums");
}

static const exg_kernel *kernel_of_few(const exg_kernel *kernel)
{
    static const exg_kernel sum = {
        .name = "sum", .prepare = refuse, .flags = EXG_KERNEL_ANY_STRIDES};

    return kernel == &exg_kernel_sum || kernel == &sum                     ? &sum
           : kernel == &exg_kernel_copy || kernel == &exg_kernel_pointwise ? kernel
                                                                           : NULL;
}

/* ---- memory ------------------------------------------------------------------------------ */

static exg_status allocate(exg_accelerator *device, uint64_t bytes, void **address, exg_error *err)
{
    strict *s = strict_of(device);
    uint64_t padded = (EXG_MAX(bytes, 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t whole = (size_t)((padded + s->page - 1) / s->page * s->page);
    block *b = bytes > INT64_MAX / 4 ? NULL : take_block(s, whole);

    *address = NULL;
    if (b != NULL && !keep_block(s, b)) {
        unmap(s, b);
        b = NULL;
    }
    if (b == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-004", "device strict: %llu bytes",
                        (unsigned long long)bytes);
    }
    memset(memory_of(s, b), 0xff, whole);
    b->address = b->pages + whole - padded;
    *address = b->address;
    return EXG_OK;
}

static bool holds(exg_accelerator *device, const void *address)
{
    return block_at(strict_of(device), address) != NULL;
}

static exg_status carry_out(exg_accelerator *device, exg_error *err);

static void release(exg_accelerator *device, void *address)
{
    strict *s = strict_of(device);
    block **last = &s->released[s->released_count % RELEASED_MAX];
    block *b;
    uint32_t k;

    if (address == NULL) {
        return;
    }
    (void)carry_out(device, NULL);
    k = place_of(s, address);
    b = block_at(s, address);
    if (b == NULL || b->address != address) {
        return;
    }
    s->block_count--;
    memmove(&s->blocks[k], &s->blocks[k + 1], (s->block_count - k) * sizeof(block *));
    if (!is_small(s, b->bytes)) {
        madvise(memory_of(s, b), b->bytes, MADV_DONTNEED);
    }
    give_block(s, *last);
    *last = b;
    s->released_count++;
}

/* What has the address: in one of our blocks, or there. */
static void *really(const strict *s, const void *address)
{
    const block *b = address == NULL ? NULL : block_at(s, address);
    const uint8_t *at = address;

    return (void *)(uintptr_t)(b == NULL ? at : memory_of(s, b) + (at - b->pages));
}

/* ---- the stream -------------------------------------------------------------------------- */

static exg_status add(requests *list, const request *item, exg_error *err)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        request *items = realloc(list->items, capacity * sizeof(*items));

        if (items == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *item;
    return EXG_OK;
}

static exg_status ask(exg_accelerator *device, const request *item, exg_error *err)
{
    strict *s = strict_of(device);

    return add(s->recording != NULL ? &s->recording->kept : &s->asked, item, err);
}

static exg_status copy(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                       exg_error *err)
{
    return bytes == 0 ? EXG_OK
                      : ask(device, &(request){.to = to, .from = from, .bytes = bytes}, err);
}

static void copy_to(asked_call *a, const exg_kernel_call *call, uint32_t operands)
{
    a->call = *call;
    for (uint32_t i = 0; i < operands; i++) {
        a->operands[i] = call->inputs[i];
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        a->operands[operands + i] = call->outputs[i];
    }
    a->call.inputs = a->operands;
    a->call.outputs = a->operands + operands;
    if (call->packed != NULL) {
        a->call.packed = a->operands + (call->packed - call->inputs);
    }
    if (call->epilogue_inputs != NULL) {
        a->call.epilogue_inputs = a->operands + (call->epilogue_inputs - call->inputs);
    }
}

/* NULL: out of memory. */
static asked_call *new_call(uint32_t operands)
{
    return malloc(sizeof(asked_call) + operands * sizeof(exg_tensor));
}

/* NULL: out of memory. */
static asked_call *copy_of(const exg_kernel_call *call, uint32_t operands)
{
    asked_call *a = new_call(operands + call->output_count);

    if (a != NULL) {
        copy_to(a, call, operands);
    }
    return a;
}

static exg_status launch(exg_accelerator *device, const exg_kernel *kernel,
                         const exg_kernel_call *call, uint32_t operands, exg_error *err)
{
    request r = {.kernel = kernel,
                 .call = call,
                 .asked = copy_of(call, operands),
                 .operands = operands,
                 .is_kept = strict_of(device)->recording != NULL};
    exg_status status = r.asked == NULL ? EXG_OUT_OF_MEMORY(err) : ask(device, &r, err);

    if (status != EXG_OK) {
        free(r.asked);
    }
    return status;
}

/* The call with its operands where they really are; NULL: out of memory. */
static const exg_kernel_call *real_call(strict *s, const request *r)
{
    uint32_t count = r->operands + r->asked->call.output_count;
    exg_kernel_call *call;

    if (s->room == NULL || s->room_operands < count) {
        free(s->room);
        s->room = new_call(count);
        s->room_operands = count;
    }
    if (s->room == NULL) {
        return NULL;
    }
    copy_to(s->room, &r->asked->call, r->operands);
    for (uint32_t i = 0; i < count; i++) {
        s->room->operands[i].data = really(s, s->room->operands[i].data);
    }
    call = &s->room->call;
    call->workspace = really(s, call->workspace);
    call->fault = really(s, call->fault);
    call->random = really(s, call->random);
    return call;
}

static exg_status run(strict *s, const request *r, exg_error *err)
{
    const exg_kernel_call *call = real_call(s, r);
    int before;

    if (call == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    before =
        call->fault == NULL ? 0 : atomic_load_explicit(&call->fault->fault, memory_order_relaxed);
    r->kernel->run(call);
    if (call->fault != NULL && (r->kernel->flags & EXG_KERNEL_RAISES) == 0 &&
        call->epilogue == NULL &&
        atomic_load_explicit(&call->fault->fault, memory_order_relaxed) != before) {
        s->silent = r->kernel;
    }
    return EXG_OK;
}

static exg_status carry_out(exg_accelerator *device, exg_error *err)
{
    strict *s = strict_of(device);
    exg_status status = EXG_OK;

    if (s->asked.count == 0) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < s->asked.count && status == EXG_OK; i++) {
        const request *r = &s->asked.items[i];

        if (r->kernel != NULL) {
            status = run(s, r, err);
        } else {
            memcpy(really(s, r->to), really(s, r->from), (size_t)r->bytes);
        }
    }
    forget_calls(&s->asked);
    EXG_TRY(status);
    return s->silent == NULL ? EXG_OK
                             : EXG_FAIL(err, DEVICE, "DEV-012",
                                        "the kernel '%s' raised a fault, which its row does not "
                                        "say that it may",
                                        s->silent->name);
}

/* ---- graphs ------------------------------------------------------------------------------ */

static exg_status record(exg_accelerator *device, exg_error *err)
{
    strict *s = strict_of(device);

    s->recording = calloc(1, sizeof(*s->recording));
    return s->recording == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status recorded(exg_accelerator *device, exg_device_graph **graph, exg_error *err)
{
    strict *s = strict_of(device);

    (void)err;
    *graph = s->recording;
    s->recording = NULL;
    return EXG_OK;
}

/* Are the operands of a recorded call where they were then? */
static bool lies_as_asked(const request *r)
{
    for (uint32_t i = 0; i < r->operands + r->call->output_count; i++) {
        const exg_tensor *t =
            i < r->operands ? &r->call->inputs[i] : &r->call->outputs[i - r->operands];

        if (t->data != r->asked->operands[i].data) {
            return false;
        }
    }
    return true;
}

static exg_status replay(exg_accelerator *device, const exg_device_graph *graph, exg_error *err)
{
    for (uint32_t i = 0; i < graph->kept.count; i++) {
        const request *r = &graph->kept.items[i];

        if (r->kernel != NULL && !lies_as_asked(r)) {
            return EXG_FAIL(err, DEVICE, "DEV-008",
                            "device strict: the operands of a recorded '%s' have moved",
                            r->kernel->name);
        }
        EXG_TRY(ask(device, r, err));
    }
    return EXG_OK;
}

static void forget(exg_accelerator *device, exg_device_graph *graph)
{
    if (graph != NULL) {
        (void)carry_out(device, NULL); /* what was asked for of it */
        for (uint32_t i = 0; i < graph->kept.count; i++) {
            free(graph->kept.items[i].asked);
        }
        free(graph->kept.items);
        free(graph);
    }
}

#define TABLE(name_, open_, kernel_of_)                                                            \
    {                                                                                              \
        .version = EXG_DEVICE_TABLE_VERSION, .name = (name_), .count = count_devices,              \
        .describe = describe, .open = (open_), .close = close_strict, .kernel_of = (kernel_of_),   \
        .allocate = allocate, .release = release, .shows_releases = true, .holds = holds,          \
        .copy_in = copy, .copy_out = copy, .copy = copy, .launch = launch, .wait = carry_out,      \
        .record = record, .recorded = recorded, .replay = replay, .forget = forget,                \
    }

const exg_device_table exg_device_strict = TABLE("strict", open_strict, kernel_of);
const exg_device_table exg_device_strict_host =
    TABLE("strict-host", open_strict_host, kernel_of_few);
