/* collective_moves.c - what collectives between devices are made of: moves of bytes, sums, streams
 * that follow one another.
 */
#include "libexec/device/cuda/link.h"
#include "libexec/device/cuda/operand.h"

#include <stdio.h>
#include <string.h>

#define TEXT "libexec/kernels/cuda/collective.cu"

exg_status exg_cuda_compile_move(exg_cuda_collective *m, exg_error *err)
{
    static const char *const options[] = {"-DELEMENT=element_1", "-DELEMENT=element_2",
                                          "-DELEMENT=element_4", "-DELEMENT=element_8",
                                          "-DELEMENT=element_16"};
    uint32_t bytes = exg_dtype_bytes(m->what->in->dtype);
    uint32_t power = 0;

    while (1u << power < bytes) {
        power++;
    }
    return exg_cuda_compile(m->link->device, exg_cuda_text_find(TEXT), options[power], "move",
                            &m->move, err);
}

exg_status exg_cuda_compile_combine(exg_cuda_collective *m, exg_error *err)
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
    return exg_cuda_compile(m->link->device, exg_cuda_text_find(TEXT), options, "combine",
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

exg_status exg_cuda_add_move(exg_cuda_moves *moves, uint64_t from, const exg_strip *of_from,
                             uint64_t to, const exg_strip *of_to, exg_error *err)
{
    int64_t element = exg_dtype_bytes(moves->of->what->in->dtype);

    if (exg_strip_bytes(of_from) == 0) {
        return EXG_OK;
    }
    moves->params.moves[moves->count++] = (cuda_strips){
        .from = (const void *)(uintptr_t)(from + of_from->first),
        .to = (void *)(uintptr_t)(to + of_to->first),
        .count = (int64_t)exg_strip_bytes(of_from) / element,
        .from_run = (int64_t)of_from->run / element,
        .from_pitch = (int64_t)of_from->pitch / element,
        .to_run = (int64_t)of_to->run / element,
        .to_pitch = (int64_t)of_to->pitch / element,
    };
    return moves->count == CUDA_MOVES_MAX ? exg_cuda_move(moves, err) : EXG_OK;
}

exg_status exg_cuda_move(exg_cuda_moves *moves, exg_error *err)
{
    uint32_t count = moves->count;
    int64_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        most = moves->params.moves[i].count > most ? moves->params.moves[i].count : most;
    }
    moves->count = 0;
    return count == 0 ? EXG_OK
                      : launch(moves->of->link->device, moves->of->move, most, count,
                               &moves->params, sizeof(moves->params), moves->stream, err);
}

exg_status exg_cuda_combine(const exg_cuda_collective *made, const uint64_t *parts,
                            const exg_strip *strip, cuda_stream stream, exg_error *err)
{
    int64_t element = exg_dtype_bytes(made->what->in->dtype);
    cuda_combine_params params = {
        .out = made->what->out->data,
        .part_count = (int64_t)made->link->c->size,
        .count = (int64_t)exg_strip_bytes(strip) / element,
        .run = (int64_t)strip->run / element,
        .pitch = (int64_t)strip->pitch / element,
    };

    for (uint32_t r = 0; r < made->link->c->size; r++) {
        params.parts[r] = (const void *)(uintptr_t)(parts[r] + strip->first);
    }
    return params.count == 0 ? EXG_OK
                             : launch(made->link->device, made->combine, params.count, 1, &params,
                                      sizeof(params), stream, err);
}

exg_status exg_cuda_follow(const exg_cuda_device *device, cuda_stream before, cuda_event event,
                           cuda_stream after, exg_error *err)
{
    const exg_cuda_driver *c = &device->driver;

    EXG_TRY(exg_cuda_check(c, c->event_record(event, before), "recording an event", err));
    return exg_cuda_check(c, c->stream_wait_event(after, event, 0), "waiting for an event", err);
}
