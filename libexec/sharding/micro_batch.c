/* micro_batch.c - the program of some of the rows of a batch: placed by row, as `data` does it,
 * with nobody to exchange anything with. */
#include "libexec/sharding/pipeline.h"
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>
#include <inttypes.h>
#include <stdio.h>

#define NEVER_NS 1e15 /* of a message: any other way is taken, where there is one */

static const exg_tensor_meta *user_input(const exg_program *program, uint32_t i)
{
    const exg_graph *graph = program->graph;
    const exg_tensor_meta *meta = program->signature.inputs[i].kind == EXG_INPUT_USER &&
                                          graph->inputs[i].kind == EXG_ARGUMENT_TENSOR
                                      ? graph->values[graph->inputs[i].as_tensor].tensor
                                      : NULL;

    return meta == NULL || meta->rank == 0 ? NULL : meta;
}

/* Rows: dim 0 of the first input that has any. */
static int64_t rows_of(const exg_program *program)
{
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        if (user_input(program, i) != NULL) {
            return user_input(program, i)->sizes[0].value;
        }
    }
    return 0;
}

/* The inputs that have as many rows, by row. */
static exg_status find_rows(const exg_program *program, int64_t rows, exg_arena *arena,
                            exg_partition_options *options, exg_error *err)
{
    exg_partition_pattern *patterns =
        EXG_NEW_ARRAY(arena, exg_partition_pattern, program->graph->input_count + 1);

    *options = (exg_partition_options){
        .size = sizeof(*options), .mode = EXG_PARTITION_PATTERNS, .patterns = patterns};
    if (patterns == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_tensor_meta *meta = user_input(program, i);

        if (meta != NULL && meta->sizes[0].value == rows) {
            patterns[options->pattern_count++] =
                (exg_partition_pattern){.pattern = program->signature.inputs[i].arg.name,
                                        .placement = exg_shard(0),
                                        .of = EXG_PARTITION_INPUTS};
        }
    }
    return EXG_OK;
}

static exg_status refuse(exg_error *err, const char *why)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "PLC-012",
                                  "the batch cannot be computed in micro-batches: %s", why),
                         "give as many micro-batches as divide the rows, or leave --microbatches "
                         "out where rows depend on each other");
}

/* Nothing is exchanged: rows are computed apart. */
static exg_status check_apart(const exg_program *program, const exg_operators *operators,
                              exg_error *err)
{
    const exg_graph *graph = program->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_operator *op = exg_operators_find(operators, graph->nodes[n].target);
        char why[200];

        if (op != NULL && exg_is_exchange(op->id)) {
            const char *next = n + 1 < graph->node_count ? graph->nodes[n + 1].name : "the result";

            snprintf(why, sizeof(why), "'%.80s' needs '%.60s' of all rows", next,
                     graph->values[graph->nodes[n].inputs[0].arg.as_tensor].name);
            return refuse(err, why);
        }
    }
    return EXG_OK;
}

exg_status exg_micro_batch(const exg_program *functional, const exg_operators *operators,
                           const exg_partition_goal *goal, uint32_t count, uint32_t place,
                           const uint32_t *stages, exg_arena *arena, exg_program **out,
                           exg_placement *outputs, uint32_t **stages_out, exg_error *err)
{
    int64_t rows = rows_of(functional);
    exg_partition_options options;
    exg_partition_summary summary;
    exg_partitioned_dim along = {.size = count,
                                 .place = place,
                                 .whole = functional,
                                 .named_inputs = UINT32_MAX,
                                 .outputs = outputs,
                                 .stages = {stages, arena, NULL}};
    exg_costs costs = *goal->costs;
    exg_partition_goal apart = *goal;
    char why[100];
    exg_status status;

    *out = NULL;
    costs.links[0].message_ns = NEVER_NS;
    apart.costs = &costs;
    if (rows < (int64_t)count) {
        snprintf(why, sizeof(why), "there are %" PRId64 " rows for %u", rows, count);
        return refuse(err, why);
    }
    EXG_TRY(find_rows(functional, rows, arena, &options, err));
    EXG_TRY(exg_partition_along(functional, operators, &options, &apart, &along, NULL, &summary,
                                out, err));
    *stages_out = along.stages.made;
    status = check_apart(*out, operators, err);
    for (uint32_t o = 0; status == EXG_OK && o < functional->graph->output_count; o++) {
        if (outputs[o].kind == EXG_PARTIAL && outputs[o].op != EXG_REDUCE_SUM) {
            snprintf(why, sizeof(why), "output %u is the %s of all rows", o,
                     exg_reduce_op_name(outputs[o].op));
            status = refuse(err, why);
        }
    }
    if (status != EXG_OK) {
        exg_program_destroy(*out);
        *out = NULL;
    }
    return status;
}
