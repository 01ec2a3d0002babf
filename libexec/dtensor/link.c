/* link.c - see link.h. */
#include "libexec/dtensor/link.h"
#include "libexec/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

struct exg_mesh_link {
    exg_mesh_link *next;
    bool dims[EXG_MESH_DIMS_MAX];
    exg_communicator *c;   /* the mesh's where it is along all dims */
    exg_device_link *link; /* NULL: the devices cannot be joined */
};

/* ---- joining ----------------------------------------------------------------------------- */

/* Ranks take devices in turn. */
static exg_status is_one_device(const exg_device_mesh *mesh, bool *one, exg_error *err)
{
    const exg_device_table *table = mesh->device == NULL ? NULL : mesh->device->table;
    uint32_t count;

    *one = table != NULL && table->join != NULL && mesh->communicator->ops->lends &&
           table->kernel_of(&exg_kernel_copy) != NULL; /* to row-major memory and back */
    if (*one) {
        EXG_TRY(table->count(&count, err));
        for (uint32_t r = 1; r < mesh->size; r++) {
            *one = *one && mesh->ranks[r] % count == mesh->ranks[0] % count;
        }
    }
    return EXG_OK;
}

/* One colour for those at the same coordinates along the other dims. */
static uint32_t color_of(const exg_device_mesh *mesh, const bool *dims)
{
    uint32_t color = 0;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        if (!dims[d]) {
            color = color * mesh->sizes[d] + exg_device_mesh_coordinate(mesh, d);
        }
    }
    return color;
}

static bool is_whole(const exg_device_mesh *mesh, const bool *dims)
{
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        if (!dims[d]) {
            return false;
        }
    }
    return true;
}

static exg_status join(exg_device_mesh *mesh, exg_mesh_link *l, exg_error *err)
{
    exg_status status;

    l->c = mesh->communicator;
    if (!is_whole(mesh, l->dims)) {
        EXG_TRY(exg_communicator_split(mesh->communicator, color_of(mesh, l->dims), &l->c, err));
    }
    status = mesh->device->table->join(mesh->device, l->c, &l->link, err);
    if (status == EXG_UNSUPPORTED) {
        exg_error_clear(err);
        return EXG_OK;
    }
    return status;
}

static void leave(exg_device_mesh *mesh, exg_mesh_link *l)
{
    if (l->link != NULL) {
        mesh->device->table->leave(mesh->device, l->link);
    }
    if (l->c != mesh->communicator) {
        exg_communicator_close(l->c);
    }
    free(l);
}

void exg_mesh_leave_links(exg_device_mesh *mesh)
{
    for (exg_mesh_link *l = mesh->links; l != NULL;) {
        exg_mesh_link *next = l->next;

        leave(mesh, l);
        l = next;
    }
    mesh->links = NULL;
}

static exg_status add(exg_device_mesh *mesh, const bool *dims, exg_mesh_link **added,
                      exg_error *err)
{
    uint64_t exchanges = mesh->communicator->exchanges;
    uint64_t bytes_sent = mesh->communicator->bytes_sent;
    exg_mesh_link *l = calloc(1, sizeof(*l));
    exg_status status = EXG_OUT_OF_MEMORY(err);

    if (l != NULL) {
        memcpy(l->dims, dims, sizeof(l->dims));
        status = join(mesh, l, err);
    }
    mesh->communicator->exchanges = exchanges; /* none of a DTensor's */
    mesh->communicator->bytes_sent = bytes_sent;
    if (status != EXG_OK) {
        exg_communicator_abort(mesh->communicator, status);
        if (l != NULL) {
            leave(mesh, l);
        }
        return status;
    }
    l->next = mesh->links;
    mesh->links = *added = l;
    return EXG_OK;
}

exg_status exg_mesh_link_find(exg_device_mesh *mesh, const bool *dims, exg_mesh_link **link,
                              exg_error *err)
{
    bool along[EXG_MESH_DIMS_MAX];
    exg_mesh_link *found = mesh->links;
    bool one;

    *link = NULL;
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        along[d] = dims == NULL || d >= mesh->ndim || mesh->sizes[d] == 1 || dims[d];
    }
    while (found != NULL && memcmp(found->dims, along, sizeof(along)) != 0) {
        found = found->next;
    }
    if (found == NULL) {
        EXG_TRY(is_one_device(mesh, &one, err));
        if (!one) {
            return EXG_OK;
        }
        EXG_TRY(add(mesh, along, &found, err));
    }
    *link = found->link == NULL ? NULL : found;
    return EXG_OK;
}

/* ---- a collective ------------------------------------------------------------------------ */

typedef struct flight {
    exg_collective what;
    exg_tensor in, out;
    void *made;
} flight;

static void run(const exg_kernel_call *call)
{
    const flight *f = call->params;

    call->device->table->begin_collective(call->device, f->made, call->workspace);
    call->device->table->finish_collective(call->device, f->made);
}

static exg_status prepare(exg_kernel_call *call, exg_error *err);

static const exg_kernel collective = {.name = "collective", .prepare = prepare, .run = run};

/* What the kernel's call begins with. */
typedef struct asked {
    const exg_mesh_link *link;
    const exg_collective *what;
    const exg_strip *sent, *received;
} asked;

static exg_status prepare(exg_kernel_call *call, exg_error *err)
{
    const asked *a = call->params;
    uint32_t size = a->link->c->size;
    flight *f = EXG_NEW(call->arena, flight);
    const exg_strip *sent = exg_arena_memdup(call->arena, a->sent, size, sizeof(*sent));
    const exg_strip *received = exg_arena_memdup(call->arena, a->received, size, sizeof(*sent));

    if (f == NULL || sent == NULL || received == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *f = (flight){.what = *a->what, .in = *a->what->in, .out = *a->what->out};
    f->what.in = &f->in;
    f->what.out = &f->out;
    call->params = f;
    return call->device->table->prepare_collective(call->device, a->link->link, &f->what, sent,
                                                   received, call->arena, &f->made,
                                                   &call->workspace_bytes, err);
}

/* What was posted before is counted before. */
static exg_status take_in_posted(exg_communicator *c, exg_error *err)
{
    const exg_posted *last = c->posted;

    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    return last == NULL ? EXG_OK : exg_exchange_arrive(c, last, err);
}

exg_status exg_mesh_link_run(exg_device_mesh *mesh, const exg_mesh_link *link,
                             const exg_collective *what, const exg_strip *sent,
                             const exg_strip *received, exg_error *err)
{
    exg_communicator *c = mesh->communicator;
    exg_kernel_call call = {.params = &(asked){link, what, sent, received}};
    uint64_t exchanges;
    uint64_t bytes_sent = c->bytes_sent;
    exg_status status;

    EXG_TRY(take_in_posted(c, err));
    exchanges = c->exchanges + 1; /* hosts meet more often */
    link->c->deadline_ns = c->deadline_ns;
    for (uint32_t r = 0; r < link->c->size; r++) {
        bytes_sent += r == link->c->rank ? 0 : sent[r].rows * sent[r].run;
    }
    status = exg_shared_device_launch(mesh->shared_device, &collective, &call, err);
    c->exchanges = exchanges;
    c->bytes_sent = bytes_sent;
    if (status != EXG_OK && status != EXG_UNSUPPORTED) {
        exg_communicator_abort(link->c, status);
        exg_communicator_abort(c, status);
    }
    return status;
}
