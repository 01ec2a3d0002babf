/* kernels.c - collectives as steps of a plan (rows of collective.def), whole or begun and
 * finished apart. A fault of the exchange stays in the communicator, where the rank finds it.
 * Those of devices that are joined are carried out by these.
 */
#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/device/device.h"
#include "libexec/kernels/kernel.h"

#include <string.h>

#define COLLECTIVES(ROW)                                                                           \
    /* row, kind, positions of arguments: dim, other dim, name of the reduction (0: none) */       \
    ROW(all_reduce, EXG_ALL_REDUCE, 0, 0, 1)                                                       \
    ROW(all_gather, EXG_ALL_GATHER, 1, 0, 0)                                                       \
    ROW(reduce_scatter, EXG_REDUCE_SCATTER, 1, 0, 3)                                               \
    ROW(all_to_all, EXG_ALL_TO_ALL, 1, 3, 0)                                                       \
    ROW(window, EXG_HALO, 1, 0, 0)                                                                 \
    ROW(broadcast, EXG_BROADCAST, 0, 0, 0)                                                         \
    ROW(all_to_all_single, EXG_ALL_TO_ALL_SINGLE, 0, 0, 0)

static uint32_t dim_at(const exg_kernel_call *call, uint32_t position)
{
    int64_t dim = exg_call_int(call, position);

    return (uint32_t)(dim < 0 ? dim + call->inputs[0].rank : dim);
}

static exg_reduce_op op_at(const exg_kernel_call *call, uint32_t position)
{
    exg_reduce_op op = EXG_REDUCE_SUM;

    while (op + 1 < EXG_REDUCE_OP_COUNT &&
           strcmp(exg_reduce_op_name(op), call->args[position].as_string) != 0) {
        op++;
    }
    return op;
}

/* Those met along the mesh dim that the last argument says; NULL: none. */
static exg_communicator *along(const exg_kernel_call *call)
{
    int64_t dim = exg_call_int(call, call->arg_count - 1);

    return call->grid == NULL || dim < 0 || dim >= (int64_t)call->grid->ndim
               ? NULL
               : call->grid->dims[dim];
}

/* A window's numbers are arguments 2 to 7. */
static exg_halo halo_of_call(const exg_kernel_call *call)
{
    return (exg_halo){.size = exg_call_int(call, 2),
                      .parts = exg_call_int(call, 3),
                      .stride = exg_call_int(call, 4),
                      .before = exg_call_int(call, 5),
                      .reach = exg_call_int(call, 6),
                      .period = exg_call_int(call, 7)};
}

static exg_collective make(const exg_kernel_call *call, exg_collective_kind kind, uint32_t dim,
                           uint32_t other_dim, uint32_t op)
{
    bool splits = kind == EXG_ALL_TO_ALL_SINGLE;

    return (exg_collective){.kind = kind,
                            .in = &call->inputs[0],
                            .out = &call->outputs[0],
                            .dim = dim == 0 ? 0 : dim_at(call, dim),
                            .other_dim = other_dim == 0 ? 0 : dim_at(call, other_dim),
                            .op = op == 0 ? EXG_REDUCE_SUM : op_at(call, op),
                            .halo = kind == EXG_HALO ? halo_of_call(call) : (exg_halo){0},
                            .root = kind == EXG_BROADCAST ? (uint32_t)exg_call_int(call, 1) : 0,
                            .received = splits ? call->args[1].as_ints : NULL,
                            .sent = splits ? call->args[2].as_ints : NULL,
                            .rank_count = splits ? call->args[1].count : 0};
}

/* A step's collective, and where it is while it is under way. */
typedef struct flight {
    exg_collective what;
    exg_communicator *c;
    uint64_t turn;
    bool settles; /* where it ends; else where the next along its line does */
    void *made;   /* by the device that carries it out; NULL: the host does */
} flight;

/* Has the device collectives of its own? What it does not take the host carries out, between
 * copies. */
static bool is_of_device(const exg_kernel_call *call)
{
    return call->device != NULL && call->device->table->begin_collective != NULL;
}

static exg_status prepare_on_device(exg_kernel_call *call, flight *f, exg_error *err)
{
    exg_device_link *link = call->grid->links[exg_call_int(call, call->arg_count - 1)];
    exg_strip *sent = EXG_NEW_ARRAY(call->arena, exg_strip, f->c->size);
    exg_strip *received = EXG_NEW_ARRAY(call->arena, exg_strip, f->c->size);

    if (link == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "DEV-010", "the ranks' devices are not joined");
    }
    if (sent == NULL || received == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < f->c->size; r++) {
        sent[r] = exg_collective_sent(f->c, &f->what, r);
        received[r] = exg_collective_received(f->c, &f->what, r);
    }
    return call->device->table->prepare_collective(call->device, link, &f->what, sent, received,
                                                   call->arena, &f->made, &call->workspace_bytes,
                                                   err);
}

/* Of what is said rank by rank: are they the ranks that meet? */
static exg_status check_ranks(const exg_kernel_call *call, const exg_collective *what,
                              exg_error *err)
{
    uint32_t size = along(call)->size;
    bool is_split = what->kind == EXG_ALL_TO_ALL_SINGLE;

    if ((is_split && (what->rank_count != size || call->args[2].count != size)) ||
        (what->kind == EXG_BROADCAST && what->root >= size)) {
        return EXG_FAIL(err, MALFORMED, "NOD-017", "%s of other ranks than the %u that meet",
                        exg_collective_name(what->kind), size);
    }
    return EXG_OK;
}

static exg_status prepare(exg_kernel_call *call, const exg_collective *what, exg_error *err)
{
    flight *f;

    if (along(call) == NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "COM-005", "a collective outside a mesh");
    }
    if (exg_collective_reduces(what) && !exg_can_reduce(what->in->dtype, what->op)) {
        return EXG_FAIL(err, UNSUPPORTED, "COM-006", "a reduction '%s' of %s",
                        exg_reduce_op_name(what->op), exg_dtype_name(what->in->dtype));
    }
    EXG_TRY(check_ranks(call, what, err));
    f = EXG_NEW(call->arena, flight);
    if (f == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *f = (flight){.what = *what, .c = along(call), .settles = true};
    call->params = f;
    if (is_of_device(call)) {
        return prepare_on_device(call, f, err);
    }
    call->workspace_bytes = exg_collective_workspace(f->c, what);
    return EXG_OK;
}

static flight *flight_of(const exg_kernel_call *call)
{
    return (flight *)(uintptr_t)call->params;
}

/* With the operands where the call has them. */
static exg_collective of_call(const exg_kernel_call *call)
{
    exg_collective what = flight_of(call)->what;

    what.in = &call->inputs[0];
    what.out = &call->outputs[0];
    return what;
}

static void run_whole(const exg_kernel_call *call)
{
    const exg_collective what = of_call(call);
    const flight *f = flight_of(call);

    if (f->made != NULL) {
        call->device->table->begin_collective(call->device, f->made, call->workspace);
        call->device->table->finish_collective(call->device, f->made);
        return;
    }
    (void)exg_collective_run(f->c, &what, call->workspace, NULL);
}

static void run_begin(const exg_kernel_call *call)
{
    const exg_collective what = of_call(call);
    flight *f = flight_of(call);
    void *workspace = call->packed == NULL ? NULL : call->packed->data;

    if (f->made != NULL) {
        call->device->table->begin_collective(call->device, f->made, workspace);
        return;
    }
    (void)exg_collective_begin(f->c, &what, workspace, &f->turn, NULL);
}

static void run_finish(const exg_kernel_call *call)
{
    const exg_collective what = of_call(call);
    const flight *f = flight_of(call);

    if (f->made != NULL) {
        call->device->table->finish_collective(call->device, f->made);
        return;
    }
    if (exg_collective_finish(f->c, &what, f->turn, NULL) == EXG_OK) {
        (void)(f->settles    ? exg_collective_settle(f->c, &what, f->turn, NULL)
               : f->turn > 0 ? exg_exchange_settle(f->c, f->turn - 1, NULL)
                             : EXG_OK);
    }
}

#define FLAGS EXG_KERNEL_EACH_RUN | EXG_KERNEL_EXCHANGES

#define ROW(row, kind, dim, other_dim, op)                                                         \
    static exg_status prepare_##row(exg_kernel_call *call, exg_error *err)                         \
    {                                                                                              \
        exg_collective what = make(call, kind, dim, other_dim, op);                                \
                                                                                                   \
        return prepare(call, &what, err);                                                          \
    }                                                                                              \
    extern const exg_kernel exg_kernel_##row;                                                      \
    const exg_kernel exg_kernel_##row = {                                                          \
        .name = #row, .prepare = prepare_##row, .run = run_whole, .flags = FLAGS};                 \
    static const exg_kernel begin_##row = {.name = "begin", .run = run_begin, .flags = FLAGS};     \
    static const exg_kernel finish_##row = {.name = "end", .run = run_finish, .flags = FLAGS};
COLLECTIVES(ROW)
#undef ROW

static const struct {
    const exg_kernel *whole, *begin, *finish;
} kernels[] = {
#define ROW(row, kind, dim, other_dim, op)                                                         \
    [kind] = {&exg_kernel_##row, &begin_##row, &finish_##row},
    COLLECTIVES(ROW)
#undef ROW
};

const char *exg_collective_name(exg_collective_kind kind)
{
    return kernels[kind].whole->name;
}

#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

exg_collective_phase exg_collective_of(const exg_kernel *kernel, const exg_kernel_call *call,
                                       const exg_collective **what, uint32_t *mesh_dim)
{
    for (size_t i = 0; i < KERNELS; i++) {
        exg_collective_phase phase = kernels[i].whole == kernel    ? EXG_COLLECTIVE_WHOLE
                                     : kernels[i].begin == kernel  ? EXG_COLLECTIVE_BEGINS
                                     : kernels[i].finish == kernel ? EXG_COLLECTIVE_ENDS
                                                                   : EXG_COLLECTIVE_NONE;

        if (phase != EXG_COLLECTIVE_NONE) {
            *what = &flight_of(call)->what;
            *mesh_dim = (uint32_t)exg_call_int(call, call->arg_count - 1);
            return phase;
        }
    }
    return EXG_COLLECTIVE_NONE;
}

void exg_collective_split(const exg_kernel *whole, const exg_kernel **begin,
                          const exg_kernel **finish)
{
    for (size_t i = 0; i < KERNELS; i++) {
        if (kernels[i].whole == whole) {
            *begin = kernels[i].begin;
            *finish = kernels[i].finish;
        }
    }
}

void exg_collective_link(const exg_kernel_call *call, bool settles)
{
    flight_of(call)->settles = settles;
}
