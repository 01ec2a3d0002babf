/* ceilings.c - what this machine does at best: a product, and a pass over memory. */
#include "cli/bench.h"

#include <exg/emit.h>
#include <stdlib.h>

#define SIDE     512       /* of the matrices multiplied */
#define ELEMENTS (1 << 23) /* of the tensor that is read and written: beyond caches */
#define TIMES    5         /* at least, and */
#define AT_LEAST 100e6     /* nanoseconds, for a machine that does other things beside */

/* y = x x, or y = -x. */
static exg_status build(const exg_operators *operators, bool product, exg_program **program,
                        exg_error *err)
{
    const int64_t sizes[2] = {product ? SIDE : ELEMENTS / SIDE, SIDE};
    exg_tensor_meta meta;
    exg_argument y;
    exg_builder *b;
    exg_ref x;

    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, program, err));
    EXG_TRY(exg_builder_create(operators, *program, &b, err));
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    y = exg_arg_ref(product ? EMIT(b, mm_default, x, x) : EMIT(b, neg_default, x));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    return exg_builder_finish(b, err);
}

/* The shortest of several runs, in nanoseconds. */
static exg_status time_runs(exg_session *session, bool product, double *shortest, exg_error *err)
{
    exg_session_input input = {.name = "x", .tensor = {.dtype = EXG_DTYPE_F32, .rank = 2}};
    exg_status status = EXG_OK;
    float *elements;
    double all = 0;

    input.tensor.sizes[0] = product ? SIDE : ELEMENTS / SIDE;
    input.tensor.sizes[1] = SIDE;
    exg_tensor_set_contiguous(&input.tensor);
    elements = malloc((size_t)exg_tensor_numel(&input.tensor) * sizeof(float));
    if (elements == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (int64_t i = 0; i < exg_tensor_numel(&input.tensor); i++) {
        elements[i] = 1; /* zeros would be one page, which is read from a cache */
    }
    input.tensor.data = elements;
    for (int i = 0; status == EXG_OK && (i < TIMES || all < AT_LEAST); i++) {
        double ns;

        status = exg_session_run(session, &input, 1, err);
        ns = (double)exg_session_statistics(session)->run_ns;
        all += ns;
        *shortest = i == 0 || ns < *shortest ? ns : *shortest;
    }
    free(elements);
    return status;
}

static exg_status time_program(const exg_operators *operators, bool product,
                               const exg_session_options *options, double *shortest, exg_error *err)
{
    exg_program *program = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status = build(operators, product, &program, err);

    status = status == EXG_OK ? exg_verify(program, operators, &verified, NULL, err) : status;
    status = status == EXG_OK ? exg_session_create(&verified, options, &session, err) : status;
    status = status == EXG_OK ? time_runs(session, product, shortest, err) : status;
    exg_session_destroy(session);
    exg_program_destroy(program);
    return status;
}

exg_status cli_measure_ceilings(const exg_session_options *options, cli_ceilings *ceilings,
                                exg_error *err)
{
    const exg_session_options own = {.size = sizeof(own),
                                     .thread_count = options->thread_count,
                                     .device = options->device,
                                     .work_limit = 1e15};
    exg_operators *operators;
    double product = 0;
    double pass = 0;
    exg_status status;

    EXG_TRY(exg_operators_create(&operators, err));
    status = time_program(operators, true, &own, &product, err);
    status = status == EXG_OK ? time_program(operators, false, &own, &pass, err) : status;
    exg_operators_destroy(operators);
    EXG_TRY(status);
    ceilings->flops_per_s = product > 0 ? 2.0 * SIDE * SIDE * SIDE / product * 1e9 : 0;
    ceilings->bytes_per_s = pass > 0 ? 2.0 * ELEMENTS * sizeof(float) / pass * 1e9 : 0;
    return EXG_OK;
}
