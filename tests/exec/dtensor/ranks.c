#include "tests/exec/dtensor/ranks.h"
#include "tests/export/refusal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANKS_MAX 16

typedef struct job {
    rank_context context;
    void (*body)(rank_context *c);
} job;

static bool is_on_host(const exg_dtensor *t)
{
    return strcmp(exg_device_mesh_device_type(exg_dtensor_device_mesh(t)), "cpu") == 0;
}

/* What the rank of this thread copied. */
typedef struct host_copy {
    struct host_copy *next;
    exg_tensor tensor;
    double data[]; /* aligned for every dtype */
} host_copy;

static _Thread_local host_copy *copies;

const exg_tensor *on_host(const exg_dtensor *t)
{
    const exg_tensor *part = exg_dtensor_to_local(t);
    size_t bytes = (size_t)exg_tensor_numel(part) * exg_dtype_bytes(part->dtype);
    host_copy *copy;

    if (is_on_host(t)) {
        return part;
    }
    copy = calloc(1, sizeof(*copy) + bytes + 1);
    if (copy == NULL || exg_dtensor_copy_to_host(t, NULL, copy->data, NULL) != EXG_OK) {
        abort();
    }
    copy->next = copies;
    copies = copy;
    copy->tensor = *part;
    copy->tensor.data = copy->data;
    exg_tensor_set_contiguous(&copy->tensor);
    return &copy->tensor;
}

bool borrows(const exg_dtensor *t, const void *data)
{
    return is_on_host(t) == (exg_dtensor_to_local(t)->data == data);
}

void to_device(exg_dtensor *t, const exg_tensor *part)
{
    if (part->data != exg_dtensor_to_local(t)->data &&
        exg_dtensor_copy_from_host(t, NULL, part->data, NULL) != EXG_OK) {
        abort();
    }
}

static void *run(void *argument)
{
    job *j = argument;

    j->body(&j->context);
    while (copies != NULL) {
        host_copy *next = copies->next;

        free(copies);
        copies = next;
    }
    return NULL;
}

uint32_t one_in(void)
{
#ifdef __SANITIZE_THREAD__
    const uint32_t untold = 4;
#else
    const uint32_t untold = 1;
#endif
    const char *told = getenv("EXG_ONE_IN");

    return told == NULL ? untold : (uint32_t)strtoul(told, NULL, 10);
}

exg_mesh_shape mesh_shape(const char *text)
{
    static const char *const names[EXG_MESH_DIMS_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    exg_mesh_shape shape = {.device_type = getenv("EXG_TEST_DEVICE")};

    for (const char *at = text; *at != '\0'; at += *at == 'x') {
        shape.names[shape.ndim] = names[shape.ndim];
        shape.sizes[shape.ndim++] = (uint32_t)strtoul(at, (char **)&at, 10);
    }
    return shape;
}

uint32_t placements_of(const char *text, exg_placement *placements)
{
    char copy[100];
    char *state;
    uint32_t count = 0;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, " ", &state); word != NULL;
         word = strtok_r(NULL, " ", &state)) {
        assert_int_equal(exg_placement_parse(word, &placements[count++], NULL), EXG_OK);
    }
    return count;
}

static uint64_t once_on_mesh(const char *shape, void (*body)(rank_context *c), const void *user)
{
    exg_mesh_shape grid = mesh_shape(shape);
    exg_device_mesh *meshes[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    job jobs[RANKS_MAX] = {0};
    uint64_t exchanges;
    uint32_t size;
    exg_error err;

    if (exg_local_mesh_create(&grid, meshes, &err) != EXG_OK) {
        fail_msg("%s: %s", shape, err.message);
    }
    size = exg_device_mesh_size(meshes[0]);
    for (uint32_t r = 0; r < size; r++) {
        jobs[r] = (job){.context = {.mesh = meshes[r], .user = user}, .body = body};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &jobs[r]), 0);
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
    }
    exchanges = exg_device_mesh_exchanges(meshes[0]);
    for (uint32_t r = 0; r < size; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
    for (uint32_t r = 0; r < size; r++) {
        if (jobs[r].context.faults > 0) {
            fail_msg("mesh %s, rank %u: %s (%u faults)", shape, r, jobs[r].context.what,
                     jobs[r].context.faults);
        }
    }
    return exchanges;
}

uint64_t on_mesh(const char *shape, void (*body)(rank_context *c), const void *user)
{
#ifdef REFUSES_MEMORY
    const char *device = getenv("EXG_TEST_DEVICE");
    int64_t before = memory_blocks();
    uint64_t exchanges = once_on_mesh(shape, body, user);

    if (device != NULL && strcmp(device, "cuda") == 0) {
        return exchanges; /* the stand-in for NCCL keeps its communicators */
    }
    if (memory_blocks() > before) { /* kept for the next time? */
        before = memory_blocks();
        (void)once_on_mesh(shape, body, user);
        if (memory_blocks() > before) {
            fail_msg("mesh %s: %d blocks of memory are left", shape,
                     (int)(memory_blocks() - before));
        }
    }
    return exchanges;
#else
    return once_on_mesh(shape, body, user);
#endif
}
