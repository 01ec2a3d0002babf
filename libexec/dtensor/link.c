/* link.c - see link.h. */
#include "libexec/dtensor/link.h"
#include "libexec/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

struct exg_mesh_link {
    exg_mesh_link *next;
    bool dims[EXG_MESH_DIMS_MAX];
    exg_communicator *c;      /* the mesh's where it is along all dims */
    exg_device_link *link;    /* NULL: the devices cannot be joined */
    exg_mesh_flight *flights; /* begun and not finished, in order */
};

/* ---- joining ----------------------------------------------------------------------------- */

/* The same on all ranks. */
static bool can_join(const exg_device_mesh *mesh)
{
    const exg_device_table *table = mesh->device == NULL ? NULL : mesh->device->table;

    return table != NULL && table->join != NULL &&
           table->kernel_of(&exg_kernel_copy) != NULL; /* to row-major memory and back */
}

exg_status exg_mesh_shares_device(const exg_device_mesh *mesh, bool *shares, exg_error *err)
{
    uint32_t count;

    *shares = mesh->device != NULL && mesh->communicator->ops->lends;
    if (*shares) {
        EXG_TRY(mesh->device->table->count(&count, err));
        for (uint32_t r = 1; r < mesh->size; r++) { /* ranks take devices in turn */
            *shares = *shares && mesh->ranks[r] % count == mesh->ranks[0] % count;
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

    *link = NULL;
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        along[d] = dims == NULL || d >= mesh->ndim || mesh->sizes[d] == 1 || dims[d];
    }
    while (found != NULL && memcmp(found->dims, along, sizeof(along)) != 0) {
        found = found->next;
    }
    if (found == NULL && !can_join(mesh)) {
        return EXG_OK;
    }
    if (found == NULL) {
        EXG_TRY(add(mesh, along, &found, err));
    }
    *link = found->link == NULL ? NULL : found;
    return EXG_OK;
}

/* ---- a collective ------------------------------------------------------------------------ */

struct exg_mesh_flight {
    exg_mesh_flight *next;
    bool arrived; /* finished */
    exg_device_mesh *mesh;
    exg_mesh_link *link;
    exg_collective what;
    exg_tensor in, out;
    exg_arena *arena; /* of what it works with */
    void *made, *workspace;
    uint64_t workspace_bytes;
    exg_block *source; /* of `in`; NULL: the caller's */
};

static void run_begin(const exg_kernel_call *call)
{
    const exg_mesh_flight *f = call->params;

    call->device->table->begin_collective(call->device, f->made, f->workspace);
}

static void run_finish(const exg_kernel_call *call)
{
    const exg_mesh_flight *f = call->params;

    call->device->table->finish_collective(call->device, f->made);
}

static const exg_kernel begins = {.name = "collective", .run = run_begin};
static const exg_kernel finishes = {.name = "collective", .run = run_finish};

/* Others hear of a fault. */
static exg_status launch(const exg_mesh_flight *f, const exg_kernel *kernel, exg_error *err)
{
    exg_accelerator *device = f->mesh->device;
    exg_kernel_call call = {.params = (void *)(uintptr_t)f, .device = device};
    exg_status status = device->table->launch(device, kernel, &call, 0, err);

    if (status != EXG_OK) {
        exg_communicator_abort(f->link->c, status);
        exg_communicator_abort(f->mesh->communicator, status);
    }
    return status;
}

/* Its memory; what it is stays until it is looked at. */
static void let_go(exg_mesh_flight *f)
{
    if (f->workspace != NULL) {
        exg_shared_device_free(f->mesh->shared_device, f->workspace, f->workspace_bytes);
    }
    exg_block_release(f->source);
    exg_arena_destroy(f->arena);
    f->workspace = NULL;
    f->source = NULL;
    f->arena = NULL;
}

static void drop(exg_mesh_flight *f)
{
    let_go(f);
    free(f);
}

/* UNSUPPORTED, on all ranks. */
static exg_status prepare(exg_mesh_flight *f, const exg_strip *sent, const exg_strip *received,
                          exg_error *err)
{
    exg_device_mesh *mesh = f->mesh;
    uint32_t size = f->link->c->size;
    const exg_strip *out = exg_arena_memdup(f->arena, sent, size, sizeof(*sent));
    const exg_strip *in = exg_arena_memdup(f->arena, received, size, sizeof(*received));

    if (out == NULL || in == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(mesh->device->table->prepare_collective(mesh->device, f->link->link, &f->what, out, in,
                                                    f->arena, &f->made, &f->workspace_bytes, err));
    return f->workspace_bytes == 0
               ? EXG_OK
               : exg_shared_device_allocate(mesh->shared_device, f->workspace_bytes, &f->workspace,
                                            err);
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

static exg_mesh_flight *make_flight(exg_device_mesh *mesh, exg_mesh_link *link,
                                    const exg_collective *what)
{
    exg_mesh_flight *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        return NULL;
    }
    *f = (exg_mesh_flight){
        .mesh = mesh, .link = link, .what = *what, .in = *what->in, .out = *what->out};
    f->what.in = &f->in;
    f->what.out = &f->out;
    f->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (f->arena == NULL) {
        free(f);
        return NULL;
    }
    return f;
}

/* All that was begun is finished in order. */
static void add_flight(exg_mesh_flight *f)
{
    exg_mesh_flight **last = &f->link->flights;

    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = f;
}

/* Hosts meet more often than once, or not at all. */
static exg_status begin(exg_mesh_flight *f, const exg_strip *sent, const exg_strip *received,
                        exg_error *err)
{
    exg_communicator *c = f->mesh->communicator;
    uint64_t exchanges, bytes_sent = c->bytes_sent;
    exg_status status;

    EXG_TRY(take_in_posted(c, err));
    exchanges = c->exchanges + 1;
    f->link->c->deadline_ns = c->deadline_ns;
    for (uint32_t r = 0; r < f->link->c->size; r++) {
        bytes_sent += r == f->link->c->rank ? 0 : sent[r].rows * sent[r].run;
    }
    EXG_TRY(prepare(f, sent, received, err));
    status = launch(f, &begins, err);
    c->exchanges = exchanges;
    c->bytes_sent = bytes_sent;
    return status;
}

exg_status exg_mesh_link_begin(exg_device_mesh *mesh, exg_mesh_link *link,
                               const exg_collective *what, const exg_strip *sent,
                               const exg_strip *received, exg_block *source,
                               exg_mesh_flight **flight, exg_error *err)
{
    exg_mesh_flight *f = make_flight(mesh, link, what);
    exg_status status = EXG_OUT_OF_MEMORY(err);

    *flight = NULL;
    if (f != NULL) {
        f->source = exg_block_share(source);
        status = begin(f, sent, received, err);
    }
    if (status != EXG_OK) {
        if (status != EXG_UNSUPPORTED) { /* which all know */
            exg_communicator_abort(link->c, status);
            exg_communicator_abort(mesh->communicator, status);
        }
        if (f != NULL) {
            drop(f);
        }
        return status;
    }
    add_flight(f);
    *flight = f;
    return EXG_OK;
}

static exg_status finish(exg_mesh_flight *f, exg_error *err)
{
    exg_communicator *c = f->mesh->communicator;
    uint64_t exchanges = c->exchanges, bytes_sent = c->bytes_sent;
    exg_status status = launch(f, &finishes, err);

    c->exchanges = exchanges;
    c->bytes_sent = bytes_sent;
    f->arrived = true;
    f->link->flights = f->next;
    let_go(f);
    return status;
}

exg_status exg_mesh_flight_finish(exg_mesh_flight *f, exg_error *err)
{
    exg_status status = EXG_OK;

    while (!f->arrived) {
        exg_status one = finish(f->link->flights, status == EXG_OK ? err : NULL);

        status = status == EXG_OK ? one : status;
    }
    free(f);
    return status;
}

bool exg_mesh_flight_arrived(const exg_mesh_flight *flight)
{
    return flight->arrived;
}

exg_status exg_mesh_link_run(exg_device_mesh *mesh, exg_mesh_link *link, const exg_collective *what,
                             const exg_strip *sent, const exg_strip *received, exg_error *err)
{
    exg_mesh_flight *f;

    EXG_TRY(exg_mesh_link_begin(mesh, link, what, sent, received, NULL, &f, err));
    return exg_mesh_flight_finish(f, err);
}
