/* device_table.c - CUDA as a device table: the door of the plugin. */
#include "libexec/device/cuda/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const exg_device_table exg_device_cuda;

static exg_status count(uint32_t *found, exg_error *err)
{
    exg_cuda_driver driver;
    exg_status status;
    int devices = 0;

    *found = 0;
    EXG_TRY(exg_cuda_driver_open(&driver, err));
    EXG_TRY(exg_cuda_check(&driver, driver.device_count(&devices), "counting devices", err));
    if (devices <= 0) {
        status = EXG_FAIL(err, DEVICE, "DEV-005", "the driver of CUDA finds no device");
        return exg_error_fix(err, status, "look at CUDA_VISIBLE_DEVICES and at nvidia-smi");
    }
    *found = (uint32_t)devices;
    return EXG_OK;
}

/* The driver, and the handle of device `index`. */
static exg_status find(uint32_t index, exg_cuda_driver *driver, cuda_ordinal *ordinal,
                       exg_error *err)
{
    uint32_t devices;

    EXG_TRY(count(&devices, err));
    EXG_TRY(exg_cuda_driver_open(driver, err));
    if (index >= devices) {
        return EXG_FAIL(err, DEVICE, "DEV-005", "there is no device %u of CUDA: there are %u",
                        index, devices);
    }
    return exg_cuda_check(driver, driver->device_get(ordinal, (int)index), "finding a device", err);
}

static exg_status attribute(const exg_cuda_driver *driver, int which, cuda_ordinal ordinal,
                            int *value, exg_error *err)
{
    return exg_cuda_check(driver, driver->device_attribute(value, which, ordinal),
                          "describing a device", err);
}

/* *capability: 90 of "sm_90". */
static exg_status architecture_of(const exg_cuda_driver *driver, cuda_ordinal ordinal,
                                  int *capability, char *text, size_t bytes, exg_error *err)
{
    int major = 0;
    int minor = 0;

    EXG_TRY(attribute(driver, CUDA_CAPABILITY_MAJOR, ordinal, &major, err));
    EXG_TRY(attribute(driver, CUDA_CAPABILITY_MINOR, ordinal, &minor, err));
    *capability = 10 * major + minor;
    (void)snprintf(text, bytes, "sm_%d", *capability);
    return EXG_OK;
}

/* One more line of files, if it fits. */
static void note_file(exg_device_info *info, const void *calls)
{
    const char *file = exg_cuda_library_file(calls);
    size_t used = strlen(info->files);

    if (file != NULL && used + strlen(file) + 1 < sizeof(info->files)) {
        (void)snprintf(info->files + used, sizeof(info->files) - used, "%s%s",
                       used == 0 ? "" : "\n", file);
    }
}

static void describe_libraries(const exg_cuda_driver *driver, int capability, exg_device_info *info)
{
    exg_nvrtc nvrtc;
    exg_cuda_blas blas;
    exg_cuda_dnn dnn;
    exg_nccl nccl;
    bool has_blas = exg_cuda_blas_find(driver, &blas);
    bool has_dnn = exg_cuda_dnn_find(driver, &dnn);

    (void)snprintf(info->libraries, sizeof(info->libraries), "%scuBLASLt, %scuDNN",
                   has_blas ? "" : "no ", has_dnn ? "" : "no ");
    note_file(info, driver);
    if (exg_nvrtc_open(driver, capability, &nvrtc, NULL) == EXG_OK) {
        note_file(info, &nvrtc);
    }
    if (has_blas) {
        note_file(info, &blas);
    }
    if (has_dnn) {
        note_file(info, &dnn);
    }
    if (exg_nccl_open(&nccl, NULL) == EXG_OK) {
        exg_nccl_name(&nccl, info->collectives, sizeof(info->collectives));
        note_file(info, &nccl);
    } else {
        (void)snprintf(info->collectives, sizeof(info->collectives), "no NCCL");
    }
}

static exg_status describe(uint32_t index, exg_device_info *info, exg_error *err)
{
    exg_cuda_driver driver;
    cuda_ordinal ordinal;
    cuda_context context = NULL;
    int capability;
    size_t free_bytes = 0;
    size_t bytes = 0;
    exg_status status;

    EXG_TRY(find(index, &driver, &ordinal, err));
    EXG_TRY(exg_cuda_check(&driver, driver.device_name(info->name, sizeof(info->name), ordinal),
                           "describing a device", err));
    EXG_TRY(architecture_of(&driver, ordinal, &capability, info->architecture,
                            sizeof(info->architecture), err));
    EXG_TRY(
        exg_cuda_check(&driver, driver.context_retain(&context, ordinal), "opening a device", err));
    status = exg_cuda_check(&driver, driver.context_set(context), "entering a device", err);
    if (status == EXG_OK) {
        status = exg_cuda_check(&driver, driver.memory_info(&free_bytes, &bytes),
                                "asking for free memory", err);
    }
    (void)driver.context_set(NULL);
    info->memory_bytes = bytes;
    info->free_bytes = free_bytes;
    describe_libraries(&driver, capability, info);
    return status;
}

static void close_handles(exg_cuda_device *d)
{
    if (d->stream != NULL) {
        (void)d->driver.stream_wait(d->stream);
    }
    exg_cuda_close_links(d);
    if (d->turn != NULL) {
        (void)d->driver.event_destroy(d->turn);
    }
    exg_cuda_drop_stages(d);
    exg_cuda_blas_close(d);
    exg_cuda_dnn_close(d);
    for (uint32_t i = 0; i < d->block_count; i++) {
        (void)d->driver.memory_free(d->blocks[i]);
    }
    for (uint32_t i = 0; i < d->module_count; i++) {
        (void)d->driver.module_unload(d->modules[i].module);
        free(d->modules[i].text);
        free(d->modules[i].options);
    }
    if (d->stream != NULL) {
        (void)d->driver.stream_destroy(d->stream);
    }
}

/* The device's primary context stays for the life of the process, as PyTorch's does: making one
 * takes tenths of a second, and CUDA's libraries keep things of their own in it. */
static void close_device(exg_accelerator *device)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    if (d == NULL) {
        return;
    }
    if (d->context != NULL) {
        (void)d->driver.context_set(d->context);
        if (!d->is_lost) { /* else all that its work may use stays with it */
            close_handles(d);
        }
        exg_cuda_close_graphs(d);
        (void)d->driver.context_set(NULL);
    }
    free(d->modules);
    free(d->blocks);
    free(d);
}

static exg_status start(exg_cuda_device *d, uint32_t index, exg_error *err)
{
    const exg_cuda_driver *c = &d->driver;

    EXG_TRY(find(index, &d->driver, &d->ordinal, err));
    EXG_TRY(architecture_of(c, d->ordinal, &d->capability, d->architecture, sizeof(d->architecture),
                            err));
    EXG_TRY(exg_nvrtc_open(&d->driver, d->capability, &d->nvrtc, err));
    if (d->nvrtc.target != d->capability) {
        (void)snprintf(d->architecture, sizeof(d->architecture), "compute_%d", d->nvrtc.target);
    }
    EXG_TRY(attribute(c, CUDA_PROCESSORS, d->ordinal, &d->processors, err));
    EXG_TRY(exg_cuda_check(c, c->context_retain(&d->context, d->ordinal), "opening a device", err));
    EXG_TRY(exg_cuda_enter(d, err));
    return exg_cuda_check(c, c->stream_create(&d->stream, CUDA_STREAM_NON_BLOCKING),
                          "making a stream", err);
}

static exg_status open_device(uint32_t index, exg_accelerator **device, exg_error *err)
{
    exg_cuda_device *d = calloc(1, sizeof(*d));
    exg_status status;

    *device = NULL;
    if (d == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    d->head.table = &exg_device_cuda;
    d->head.index = index;
    status = start(d, index, err);
    if (status != EXG_OK) {
        close_device(&d->head);
        return status;
    }
    *device = &d->head;
    return EXG_OK;
}

static exg_status make_room(exg_cuda_device *d, exg_error *err)
{
    if (d->block_count == d->block_capacity) {
        uint32_t capacity = d->block_capacity == 0 ? 64 : 2 * d->block_capacity;
        cuda_address *grown = realloc(d->blocks, capacity * sizeof(*grown));

        if (grown == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        d->blocks = grown;
        d->block_capacity = capacity;
    }
    return EXG_OK;
}

static exg_status allocate(exg_accelerator *device, uint64_t bytes, void **address, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    cuda_address at = 0;
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    cuda_result result;
    exg_status status;

    *address = NULL;
    EXG_TRY(exg_cuda_enter(d, err));
    EXG_TRY(make_room(d, err));
    result = d->driver.memory_alloc(&at, bytes == 0 ? 1 : bytes);
    if (result == CUDA_OUT_OF_MEMORY) {
        (void)d->driver.memory_info(&free_bytes, &all_bytes);
        status = EXG_FAIL(err, NO_MEMORY, "MEM-004",
                          "device %u of CUDA has no %llu bytes: %zu of %zu are free", device->index,
                          (unsigned long long)bytes, free_bytes, all_bytes);
        return exg_error_fix(err, status, "run with smaller inputs, or over more ranks (--mesh)");
    }
    EXG_TRY(exg_cuda_check(&d->driver, result, "taking memory", err));
    d->blocks[d->block_count++] = at;
    *address = (void *)(uintptr_t)at;
    return EXG_OK;
}

static void release(exg_accelerator *device, void *address)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    if (address == NULL) {
        return;
    }
    (void)d->driver.context_set(d->context);
    (void)exg_cuda_watch(d, NULL);
    if (!d->is_lost) {
        (void)d->driver.memory_free((cuda_address)(uintptr_t)address);
        for (uint32_t i = 0; i < d->block_count; i++) {
            if (d->blocks[i] == (cuda_address)(uintptr_t)address) {
                d->blocks[i] = d->blocks[--d->block_count];
            }
        }
    }
}

/* What the driver does not know of, of the host, is a fault to it. */
static bool holds(exg_accelerator *device, const void *address)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    cuda_address at = (cuda_address)(uintptr_t)address;
    unsigned type = 0;
    int ordinal = -1;

    return exg_cuda_enter(d, NULL) == EXG_OK &&
           d->driver.address_attribute(&type, CUDA_ADDRESS_TYPE, at) == 0 &&
           type == CUDA_ADDRESS_OF_DEVICE &&
           d->driver.address_attribute(&ordinal, CUDA_ADDRESS_ORDINAL, at) == 0 &&
           ordinal == d->ordinal;
}

static exg_status launch(exg_accelerator *device, const exg_kernel *kernel,
                         const exg_kernel_call *call, uint32_t operands, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    (void)operands; /* the call is read now */
    EXG_TRY(exg_cuda_enter(d, err));
    d->status = EXG_OK;
    kernel->run(call);
    if (d->status != EXG_OK && err != NULL) {
        *err = d->err;
    }
    return d->status;
}

static exg_status wait_for(exg_accelerator *device, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    return exg_cuda_watch(d, err);
}

static exg_status follow(exg_accelerator *device, void *stream, bool after, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    cuda_stream theirs = stream;

    EXG_TRY(exg_cuda_enter(d, err));
    if (d->turn == NULL) {
        EXG_TRY(exg_cuda_check(&d->driver, d->driver.event_create(&d->turn, CUDA_EVENT_NO_TIMING),
                               "making an event", err));
    }
    return after ? exg_cuda_follow(d, theirs, d->turn, d->stream, err)
                 : exg_cuda_follow(d, d->stream, d->turn, theirs, err);
}

static exg_status mark(exg_accelerator *device, void **made, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    const exg_cuda_driver *c = &d->driver;
    cuda_event event = NULL;
    exg_status status;

    *made = NULL;
    EXG_TRY(exg_cuda_enter(d, err));
    EXG_TRY(
        exg_cuda_check(c, c->event_create(&event, CUDA_EVENT_NO_TIMING), "making an event", err));
    status = exg_cuda_check(c, c->event_record(event, d->stream), "recording an event", err);
    if (status != EXG_OK) {
        (void)c->event_destroy(event);
        return status;
    }
    *made = event;
    return EXG_OK;
}

static exg_status after(exg_accelerator *device, void *mark, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    return exg_cuda_check(&d->driver, d->driver.stream_wait_event(d->stream, mark, 0),
                          "waiting for an event", err);
}

static exg_status await(exg_accelerator *device, void *mark, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    return exg_cuda_check(&d->driver, d->driver.event_wait(mark), "running on the device", err);
}

static void unmark(exg_accelerator *device, void *mark)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    (void)d->driver.context_set(d->context);
    (void)d->driver.event_destroy(mark);
}

__attribute__((visibility("default"))) const exg_device_table exg_device_cuda = {
    .version = EXG_DEVICE_TABLE_VERSION,
    .name = "cuda",
    .count = count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .kernel_of = exg_cuda_kernel_of,
    .allocate = allocate,
    .release = release,
    .holds = holds,
    .copy_in = exg_cuda_copy_in,
    .copy_out = exg_cuda_copy_out,
    .copy = exg_cuda_copy_within,
    .launch = launch,
    .pairs = exg_cuda_pairs,
    .launch_pair = exg_cuda_launch_pair,
    .wait = wait_for,
    .follow = follow,
    .mark = mark,
    .after = after,
    .await = await,
    .unmark = unmark,
    .record = exg_cuda_record,
    .recorded = exg_cuda_recorded,
    .replay = exg_cuda_replay,
    .forget = exg_cuda_forget,
    .join = exg_cuda_join,
    .leave = exg_cuda_leave,
    .prepare_collective = exg_cuda_prepare_collective,
    .begin_collective = exg_cuda_begin_collective,
    .finish_collective = exg_cuda_finish_collective,
    .stuck_at = exg_cuda_stuck_at,
};
