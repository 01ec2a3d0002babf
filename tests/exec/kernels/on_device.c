/* on_device.c - see on_device.h. Blocks of the harness go over whole, so that a kernel that
 * reads or writes beside its operands is seen.
 */
#include "tests/exec/kernels/on_device.h"
#include "tests/exec/kernels/harness.h"

#include "libexec/device/device.h"
#include "libexec/kernels/random.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 128
#define OPERANDS   64

typedef struct moved {
    char *here;
    size_t bytes;
    void *there;
    bool is_output;
} moved;

static exg_accelerator *device;

bool on_device(void)
{
    return getenv("EXG_KERNEL_DEVICE") != NULL;
}

static void expect_ok(exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        fail_msg("%s: %s %s", err->code, err->message, err->fix);
    }
}

static void close_device(void)
{
    device->table->close(device);
}

static void open_device(void)
{
    const exg_device_table *table;
    exg_error err;

    if (device == NULL) {
        exg_error_clear(&err);
        expect_ok(exg_device_table_find(getenv("EXG_KERNEL_DEVICE"), &table, &err), &err);
        expect_ok(table->open(0, &device, &err), &err);
        (void)atexit(close_device);
    }
}

static void *allocate(uint64_t bytes, const void *content)
{
    void *address;
    exg_error err;

    exg_error_clear(&err);
    expect_ok(device->table->allocate(device, bytes, &address, &err), &err);
    if (content != NULL) {
        expect_ok(device->table->copy_in(device, address, content, bytes, &err), &err);
    }
    return address;
}

/* The block behind an operand on the device; its address there in place of the host's. */
static void move(exg_tensor *t, bool is_output, moved *blocks, uint32_t *count)
{
    char *first;
    size_t bytes;
    uint32_t k = 0;

    if (exg_tensor_is_absent(t) || t->data == NULL || exg_tensor_numel(t) == 0) {
        return;
    }
    assert_true(find_block(t->data, &first, &bytes));
    while (k < *count && blocks[k].here != first) {
        k++;
    }
    if (k == *count) {
        assert_true(k < BLOCKS_MAX);
        blocks[(*count)++] = (moved){first, bytes, allocate(bytes, first), false};
    }
    blocks[k].is_output |= is_output;
    t->data = (char *)blocks[k].there + ((char *)t->data - first);
}

static void run_there(const exg_kernel *own, exg_kernel_call *call, exg_fault_note *fault,
                      moved *blocks, uint32_t count)
{
    const exg_device_table *table = device->table;
    const exg_random_source source = call->random == NULL ? (exg_random_source){0} : *call->random;
    exg_error err;

    exg_error_clear(&err);
    call->workspace = call->workspace_bytes > 0 ? allocate(call->workspace_bytes, NULL) : NULL;
    memset(fault, 0, sizeof(*fault));
    call->fault = allocate(sizeof(*fault), fault);
    call->random = allocate(sizeof(source), &source);
    expect_ok(table->launch(device, own, call, call->input_count, &err), &err);
    for (uint32_t k = 0; k < count; k++) {
        if (blocks[k].is_output) {
            expect_ok(
                table->copy_out(device, blocks[k].here, blocks[k].there, blocks[k].bytes, &err),
                &err);
        }
    }
    expect_ok(table->copy_out(device, fault, call->fault, sizeof(*fault), &err), &err);
    expect_ok(table->wait(device, &err), &err);
    table->release(device, call->workspace);
    table->release(device, call->fault);
    table->release(device, (void *)(uintptr_t)call->random);
}

/* With EXG_KERNEL_ONE_OF=N: is this call one in N of its kernel's, the first among them? */
static bool is_sampled(const exg_kernel *kernel)
{
    static struct {
        const exg_kernel *kernel;
        long calls;
    } counts[128];
    const char *every = getenv("EXG_KERNEL_ONE_OF");
    uint32_t k = 0;

    while (counts[k].kernel != NULL && counts[k].kernel != kernel) {
        k++;
    }
    assert_true(k < 127);
    counts[k].kernel = kernel;
    return every == NULL || counts[k].calls++ % strtol(every, NULL, 10) == 0;
}

/* What the packer makes of operands that are there; by now `packed` has no data. */
static void pack_there(const exg_kernel *packer, const exg_kernel_call *call, exg_tensor *packed)
{
    exg_kernel_call c = *call;
    exg_error err;

    *packed = (exg_tensor){.dtype = EXG_DTYPE_U8, .rank = 1};
    c.outputs = packed;
    c.output_count = 1;
    c.packed = NULL;
    c.params = NULL;
    exg_error_clear(&err);
    expect_ok(packer->prepare(&c, &err), &err);
    assert_true(exg_tensor_numel(packed) > 0);
    packed->data = allocate((uint64_t)exg_tensor_numel(packed), NULL);
    expect_ok(device->table->launch(device, packer, &c, c.input_count, &err), &err);
}

bool run_on_device(const exg_kernel *kernel, const exg_kernel_call *call, bool packs,
                   exg_fault_note *fault)
{
    exg_kernel_call c = *call;
    exg_tensor inputs[OPERANDS];
    exg_tensor outputs[OPERANDS];
    moved blocks[BLOCKS_MAX];
    exg_tensor packed = {0};
    uint32_t count = 0;
    const exg_kernel *own;
    exg_error err;
    exg_status status;

    open_device();
    own = device->table->kernel_of(kernel);
    if (own == NULL || (packs && own->packer == NULL)) {
        print_message("%s: the host's\n", kernel->name);
        return false;
    }
    if (!is_sampled(kernel)) {
        return false;
    }
    assert_true(c.input_count <= OPERANDS && c.output_count <= OPERANDS);
    for (uint32_t i = 0; i < c.input_count; i++) {
        inputs[i] = c.inputs[i];
    }
    for (uint32_t i = 0; i < c.output_count; i++) {
        outputs[i] = c.outputs[i];
    }
    c.inputs = inputs;
    c.outputs = outputs;
    c.device = device;
    c.packed = packs ? &packed : NULL;
    c.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_error_clear(&err);
    status = own->prepare(&c, &err);
    if (status == EXG_UNSUPPORTED) {
        print_message("%s: the host's: %s\n", kernel->name, err.message);
        exg_arena_destroy(c.arena);
        return false;
    }
    expect_ok(status, &err);
    if (getenv("EXG_KERNEL_PREPARE_ONLY") != NULL) {
        exg_arena_destroy(c.arena);
        return false;
    }
    for (uint32_t i = 0; i < c.input_count; i++) {
        move(&inputs[i], false, blocks, &count);
    }
    for (uint32_t i = 0; i < c.output_count; i++) {
        move(&outputs[i], true, blocks, &count);
    }
    if (packs) {
        pack_there(own->packer, &c, &packed);
    }
    run_there(own, &c, fault, blocks, count);
    device->table->release(device, packed.data);
    for (uint32_t k = 0; k < count; k++) {
        device->table->release(device, blocks[k].there);
    }
    exg_arena_destroy(c.arena);
    return true;
}
