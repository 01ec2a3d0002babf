/* mpi.c - ranks as processes: a communicator over the MPI plugin, loaded when asked for. */
#include "libexec/comm/attendance.h"
#include "libexec/comm/mpi_plugin.h"

#include <dlfcn.h>
#include <exg/device_mesh.h>
#include <stdlib.h>
#include <string.h>

typedef struct mpi {
    exg_communicator base;
    const exg_mpi_plugin *plugin;
    exg_mpi_group *group;
    exg_segment *parts; /* by exchange under way, by rank: where what they send comes to lie */
} mpi;

static exg_status outcome_status(const mpi *m, exg_mpi_outcome outcome, uint32_t peer,
                                 exg_error *err)
{
    switch (outcome) {
    case EXG_MPI_DONE:
        return EXG_OK;
    case EXG_MPI_LATE:
        return EXG_FAIL(err, PEER, "COM-001", "rank %u did not arrive within %.1f s", peer,
                        (double)m->base.deadline_ns * 1e-9);
    case EXG_MPI_MISMATCH:
        return EXG_FAIL(err, PEER, "COM-002",
                        "rank %u sends another number of bytes than rank %u "
                        "expects",
                        peer, m->base.rank);
    case EXG_MPI_ABORTED:
        return EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run");
    case EXG_MPI_STOPPED:
        return EXG_FAIL(err, LIMIT, "RUN-010", "the run was stopped");
    default:
        return EXG_FAIL(err, PEER, "COM-007", "MPI failed in an exchange with rank %u", peer);
    }
}

/* A fault that is not theirs is told to the others. */
static exg_status conclude(mpi *m, exg_mpi_outcome outcome, uint32_t peer, exg_error *err)
{
    if (outcome != EXG_MPI_DONE && outcome != EXG_MPI_ABORTED) {
        m->plugin->abort(m->group);
    }
    return outcome_status(m, outcome, peer, err);
}

static exg_segment *parts_of(const mpi *m, uint64_t turn)
{
    return m->parts + turn % EXG_EXCHANGES_MAX * m->base.size;
}

static exg_status mpi_begin(exg_communicator *self, uint64_t turn, const exg_segment *send,
                            const exg_segment *receive, exg_error *err)
{
    mpi *m = (mpi *)self;
    uint32_t peer = self->rank;
    exg_segment *parts = parts_of(m, turn);
    const exg_segment *own = &send[self->rank];

    if (own->bytes != receive[self->rank].bytes) {
        return conclude(m, EXG_MPI_MISMATCH, peer, err);
    }
    if (receive[self->rank].data != NULL) {
        exg_segment_copy(&receive[self->rank], own);
    }
    memcpy(parts, receive, self->size * sizeof(*parts));
    parts[self->rank] = *own;
    return conclude(m, m->plugin->begin(m->group, turn, send, receive, self->deadline_ns, &peer),
                    peer, err);
}

static exg_status mpi_finish(exg_communicator *self, uint64_t turn, exg_exchange_reader *reader,
                             void *context, exg_error *err)
{
    mpi *m = (mpi *)self;
    uint32_t peer = 0;
    exg_mpi_outcome outcome = m->plugin->finish(m->group, turn, self->deadline_ns, &peer);

    if (outcome == EXG_MPI_DONE && reader != NULL) {
        reader(context, parts_of(m, turn));
    }
    return conclude(m, outcome, peer, err);
}

static exg_status mpi_settle(exg_communicator *self, uint64_t turn, exg_error *err)
{
    mpi *m = (mpi *)self;
    uint32_t peer = 0;

    return conclude(m, m->plugin->settle(m->group, turn, self->deadline_ns, &peer), peer, err);
}

static void mpi_abort(exg_communicator *self, exg_status status)
{
    (void)status;
    ((mpi *)self)->plugin->abort(((mpi *)self)->group);
}

static bool mpi_is_aborted(exg_communicator *self)
{
    return ((mpi *)self)->plugin->is_aborted(((mpi *)self)->group);
}

static void mpi_watch(exg_communicator *self, const exg_stop *stop)
{
    ((mpi *)self)->plugin->watch(((mpi *)self)->group, stop);
}

static void mpi_close(exg_communicator *self)
{
    mpi *m = (mpi *)self;

    m->plugin->close(m->group);
    free(m->parts);
    free(m);
}

static exg_status mpi_split(exg_communicator *self, uint32_t color, exg_communicator **out,
                            exg_error *err);

static const exg_communicator_ops mpi_ops = {
    .name = "mpi",
    .begin = mpi_begin,
    .finish = mpi_finish,
    .settle = mpi_settle,
    .split = mpi_split,
    .abort = mpi_abort,
    .is_aborted = mpi_is_aborted,
    .watch = mpi_watch,
    .close = mpi_close,
};

/* Takes `group` over. */
static exg_status adopt(const exg_mpi_plugin *plugin, exg_mpi_group *group, uint32_t rank,
                        uint32_t size, uint64_t deadline_ns, exg_communicator **out, exg_error *err)
{
    mpi *m = calloc(1, sizeof(*m));
    exg_segment *parts = calloc((size_t)EXG_EXCHANGES_MAX * size, sizeof(*parts));

    if (m == NULL || parts == NULL) {
        free(m);
        free(parts);
        plugin->abort(group);
        plugin->close(group);
        return EXG_OUT_OF_MEMORY(err);
    }
    m->base = (exg_communicator){
        .ops = &mpi_ops, .rank = rank, .size = size, .deadline_ns = deadline_ns, .status = EXG_OK};
    m->plugin = plugin;
    m->group = group;
    m->parts = parts;
    *out = &m->base;
    return EXG_OK;
}

static exg_status mpi_split(exg_communicator *self, uint32_t color, exg_communicator **out,
                            exg_error *err)
{
    mpi *m = (mpi *)self;
    exg_mpi_group *group;
    uint32_t rank = 0;
    uint32_t size = 0;

    if (m->plugin->split(m->group, color, self->deadline_ns, &group, &rank, &size) !=
        EXG_MPI_DONE) {
        return EXG_FAIL(err, PEER, "COM-001", "not all ranks formed the mesh within %.1f s",
                        (double)self->deadline_ns * 1e-9);
    }
    return group == NULL ? EXG_OK
                         : adopt(m->plugin, group, rank, size, self->deadline_ns, out, err);
}

static exg_status load(const exg_mpi_plugin **plugin, exg_error *err)
{
    void *library = dlopen(EXG_MPI_PLUGIN_FILE, RTLD_NOW | RTLD_GLOBAL); /* stays: MPI's own do */
    const exg_mpi_plugin *found = library == NULL ? NULL : dlsym(library, EXG_MPI_PLUGIN_SYMBOL);

    *plugin = NULL;
    if (found == NULL) {
        exg_status status =
            EXG_FAIL(err, UNSUPPORTED, "COM-008", "MPI cannot be loaded: %.200s", dlerror());

        return exg_error_fix(
            err, status, "install exg-plugin-mpi, or build exg where libopenmpi-dev is installed");
    }
    if (found->version != EXG_MPI_PLUGIN_VERSION) {
        return EXG_FAIL(err, UNSUPPORTED, "COM-008", "%s is of another version (%u, not %d)",
                        EXG_MPI_PLUGIN_FILE, found->version, EXG_MPI_PLUGIN_VERSION);
    }
    *plugin = found;
    return EXG_OK;
}

exg_status exg_mpi_create(uint32_t size, uint64_t deadline_ns, exg_communicator **world,
                          exg_error *err)
{
    const exg_mpi_plugin *plugin;
    exg_attendance *attendance;
    exg_mpi_group *group;
    exg_mpi_outcome outcome;
    char missing[256] = "";
    uint32_t rank = 0;
    uint32_t found = 0;

    *world = NULL;
    EXG_TRY(load(&plugin, err));
    attendance = exg_attendance_begin();
    outcome = plugin->start(deadline_ns, &group, &rank, &found);
    if (outcome == EXG_MPI_LATE) {
        exg_attendance_tell(attendance, missing, sizeof(missing));
    }
    exg_attendance_end(attendance);
    if (outcome == EXG_MPI_LATE) {
        return EXG_FAIL(err, PEER, "COM-001", "not all ranks started within %.1f s%s%s",
                        (double)deadline_ns * 1e-9, missing[0] == '\0' ? "" : ": ", missing);
    }
    if (outcome != EXG_MPI_DONE) {
        return EXG_FAIL(err, PEER, "COM-007", "MPI does not start");
    }
    if (found != size) {
        plugin->close(group);
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %u ranks, %u process%s",
                                      size, found, found == 1 ? "" : "es"),
                             "start as many: mpirun -n %u", size);
    }
    return adopt(plugin, group, rank, found, deadline_ns, world, err);
}

void exg_mpi_finish(void)
{
    const exg_mpi_plugin *plugin;

    if (load(&plugin, NULL) == EXG_OK) {
        plugin->stop();
    }
}
