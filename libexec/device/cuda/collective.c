/* collective.c - a collective between devices: what it needs is made ready with the plan; then
 * it is begun and finished, by whatever its line goes through.
 */
#include "libexec/device/cuda/line.h"
#include "libexec/device/cuda/rows.h"

#include <stdio.h>
#include <string.h>

#define TEXT "libexec/kernels/cuda/collective.cu"

static bool reduces(const exg_collective *what)
{
    return what->kind == EXG_ALL_REDUCE || what->kind == EXG_REDUCE_SCATTER;
}

/* ---- moves and sums ----------------------------------------------------------------------- */

static exg_status compile_move(exg_cuda_collective *m, exg_error *err)
{
    static const char *const options[] = {"-DELEMENT=element_1", "-DELEMENT=element_2",
                                          "-DELEMENT=element_4", "-DELEMENT=element_8",
                                          "-DELEMENT=element_16"};
    uint32_t bytes = exg_dtype_bytes(m->what->in->dtype);
    uint32_t power = 0;

    while (1u << power < bytes) {
        power++;
    }
    return exg_cuda_compile(m->line->device, exg_cuda_text_find(TEXT), options[power], "move",
                            &m->move, err);
}

static exg_status compile_combine(exg_cuda_collective *m, exg_error *err)
{
    static const char *const ops[EXG_REDUCE_OP_COUNT] = {
        [EXG_REDUCE_SUM] = "SUM", [EXG_REDUCE_AVG] = "AVG",         [EXG_REDUCE_MAX] = "MAX",
        [EXG_REDUCE_MIN] = "MIN", [EXG_REDUCE_PRODUCT] = "PRODUCT", [EXG_REDUCE_BAND] = "BAND",
        [EXG_REDUCE_BOR] = "BOR", [EXG_REDUCE_BXOR] = "BXOR",
    };
    exg_dtype dtype = m->what->in->dtype;
    char options[64];

    (void)snprintf(options, sizeof(options), "-DDTYPE=%s -D%s%s", exg_cuda_dtype(dtype),
                   ops[m->what->op], exg_dtype_is_float(dtype) ? " -DREAL" : "");
    return exg_cuda_compile(m->line->device, exg_cuda_text_find(TEXT), options, "combine",
                            &m->combine, err);
}

static exg_status launch(const exg_cuda_device *d, cuda_function function, int64_t count,
                         uint32_t rows, void *params, size_t bytes, cuda_stream stream,
                         exg_error *err)
{
    exg_cuda_launch l = {
        .function = function, .blocks = {1, rows, 1}, .params_bytes = (uint32_t)bytes};

    exg_cuda_grid(&l, count);
    return exg_cuda_ask_kernel(d, &l, params, stream, err);
}

void exg_cuda_add_move(const exg_cuda_collective *made, cuda_moves_params *moves, uint32_t *count,
                       uint64_t from, const exg_strip *of_from, uint64_t to, const exg_strip *of_to)
{
    int64_t element = exg_dtype_bytes(made->what->in->dtype);

    if (exg_strip_bytes(of_from) == 0) {
        return;
    }
    moves->moves[(*count)++] = (cuda_strips){
        .from = (const void *)(uintptr_t)(from + of_from->first),
        .to = (void *)(uintptr_t)(to + of_to->first),
        .count = (int64_t)exg_strip_bytes(of_from) / element,
        .from_run = (int64_t)of_from->run / element,
        .from_pitch = (int64_t)of_from->pitch / element,
        .to_run = (int64_t)of_to->run / element,
        .to_pitch = (int64_t)of_to->pitch / element,
    };
}

exg_status exg_cuda_move(const exg_cuda_collective *made, const cuda_moves_params *moves,
                         uint32_t count, cuda_stream stream, exg_error *err)
{
    cuda_moves_params params = *moves;
    int64_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        most = moves->moves[i].count > most ? moves->moves[i].count : most;
    }
    return count == 0 ? EXG_OK
                      : launch(made->line->device, made->move, most, count, &params, sizeof(params),
                               stream, err);
}

exg_status exg_cuda_combine(const exg_cuda_collective *made, const uint64_t *parts,
                            const exg_strip *strip, cuda_stream stream, exg_error *err)
{
    int64_t element = exg_dtype_bytes(made->what->in->dtype);
    cuda_combine_params params = {
        .out = made->what->out->data,
        .part_count = (int64_t)made->line->c->size,
        .count = (int64_t)exg_strip_bytes(strip) / element,
        .run = (int64_t)strip->run / element,
        .pitch = (int64_t)strip->pitch / element,
    };

    for (uint32_t r = 0; r < made->line->c->size; r++) {
        params.parts[r] = (const void *)(uintptr_t)(parts[r] + strip->first);
    }
    return params.count == 0 ? EXG_OK
                             : launch(made->line->device, made->combine, params.count, 1, &params,
                                      sizeof(params), stream, err);
}

exg_status exg_cuda_follow(const exg_cuda_device *device, cuda_stream before, cuda_event event,
                           cuda_stream after, exg_error *err)
{
    const exg_cuda_driver *c = &device->driver;

    EXG_TRY(exg_cuda_check(c, c->event_record(event, before), "recording an event", err));
    return exg_cuda_check(c, c->stream_wait_event(after, event, 0), "waiting for an event", err);
}

/* ---- with the plan ------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Does what goes to each rank, or comes from it, lie end to end by itself? */
static bool is_dense(const exg_strip *strips, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        if (strips[r].rows > 1 && strips[r].run != strips[r].pitch) {
            return false;
        }
    }
    return true;
}

static uint64_t sum_of(const exg_strip *strips, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < count; r++) {
        sum += exg_strip_bytes(&strips[r]);
    }
    return sum;
}

/* NCCL sends and receives what lies in one run. */
static uint64_t lay_out(exg_cuda_collective *m)
{
    uint32_t size = m->line->c->size;
    bool sums = m->way == EXG_CUDA_EXCHANGE && reduces(m->what);

    if (m->way == EXG_CUDA_SHARED || m->way == EXG_CUDA_ALL_REDUCE) {
        return 0;
    }
    m->packed_bytes = is_dense(m->sent, size) ? 0 : round_up(sum_of(m->sent, size));
    m->unpacks = sums || !is_dense(m->received, size);
    return m->packed_bytes + (m->unpacks ? sum_of(m->received, size) : 0);
}

static exg_status compile(exg_cuda_collective *m, exg_error *err)
{
    bool sums = reduces(m->what) && (m->way == EXG_CUDA_SHARED || m->way == EXG_CUDA_EXCHANGE);

    if (m->packed_bytes > 0 || m->unpacks || m->way == EXG_CUDA_SHARED) {
        EXG_TRY(compile_move(m, err));
    }
    return sums ? compile_combine(m, err) : EXG_OK;
}

static exg_status make(exg_cuda_line *line, const exg_collective *what, exg_arena *arena,
                       exg_cuda_collective **made, exg_error *err)
{
    uint32_t size = line->c->size;
    exg_cuda_collective *m = EXG_NEW(arena, exg_cuda_collective);

    *made = m;
    if (m == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    m->line = line;
    m->what = what;
    m->told = EXG_NEW_ARRAY(arena, exg_cuda_word, size);
    m->heard = EXG_NEW_ARRAY(arena, exg_cuda_word, size);
    return m->told == NULL || m->heard == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_cuda_prepare_collective(exg_accelerator *device, exg_line *line,
                                       const exg_collective *what, const exg_strip *sent,
                                       const exg_strip *received, exg_arena *arena, void **made,
                                       uint64_t *workspace_bytes, exg_error *err)
{
    exg_cuda_line *l = (exg_cuda_line *)line;
    exg_cuda_collective *m;

    (void)device;
    if (l->c->size > CUDA_MOVES_MAX) {
        return exg_cuda_refuse("a collective of more than 64 ranks", err);
    }
    EXG_TRY(make(l, what, arena, &m, err));
    m->sent = sent;
    m->received = received;
    m->way = l->is_shared ? EXG_CUDA_SHARED : exg_nccl_way(m);
    *workspace_bytes = lay_out(m);
    *made = m;
    return compile(m, err);
}

/* ---- in a run ------------------------------------------------------------------------------ */

static void conclude(exg_cuda_device *d, exg_status status)
{
    if (status != EXG_OK) {
        d->status = status;
    }
}

/* A place among those asked for. */
static exg_cuda_asked *next_asked(exg_cuda_device *d, const exg_collective *what)
{
    exg_cuda_asked *asked = &d->asked[d->asked_count++ % EXG_CUDA_ASKED];

    asked->what = d->is_recording ? NULL : what;
    return asked;
}

void exg_cuda_begin_collective(exg_accelerator *device, void *made, void *workspace)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_collective *m = made;

    m->workspace = workspace;
    m->asked = next_asked(d, m->what);
    conclude(d, m->way == EXG_CUDA_SHARED ? exg_cuda_shared_begin(m, &d->err)
                                          : exg_nccl_begin(m, &d->err));
}

void exg_cuda_finish_collective(exg_accelerator *device, void *made)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_collective *m = made;

    if (d->status == EXG_OK) { /* begin() may be of the same run() */
        conclude(d, m->way == EXG_CUDA_SHARED ? exg_cuda_shared_finish(m, &d->err)
                                              : exg_nccl_finish(m, &d->err));
    }
}
