/* search.c - where strategies are left open, those of least predicted time among those that fit
 * into the memory.
 */
#include "libexec/comm/grid.h"
#include "libexec/sharding/placer.h"

#include <inttypes.h>
#include <string.h>

/* Nodes times strategies that are tried together. */
#define TRIALS_MAX 2000000u

static uint64_t memory_of(const exg_partition_summary *summary)
{
    return summary->weight_bytes + summary->value_bytes;
}

static bool fits(const exg_placer *t, const exg_partition_summary *summary)
{
    return t->goal.memory_limit == 0 || memory_of(summary) <= t->goal.memory_limit;
}

exg_status exg_check_memory(const exg_placer *t, const exg_partition_summary *summary,
                            exg_error *err)
{
    return fits(t, summary)
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, LIMIT, "PLC-009",
                                        "a rank needs %" PRIu64
                                        " bytes for weights and values, and may take %" PRIu64,
                                        memory_of(summary), t->goal.memory_limit),
                               "use more ranks, or another placement (fsdp needs the least)");
}

/* The better one fits, and is faster; where none fits it is smaller. Ties go to the earlier. */
static bool is_better(const exg_placer *t, const exg_partition_summary *a,
                      const exg_partition_summary *b)
{
    if (fits(t, a) != fits(t, b)) {
        return fits(t, a);
    }
    return fits(t, a) ? a->predicted_ns < b->predicted_ns : memory_of(a) < memory_of(b);
}

typedef struct best_found {
    bool found;
    exg_partition_summary of;
} best_found;

/* A search for the best of all combinations of modes for the dims that are open. */
typedef struct choosing {
    exg_placer trial;
    bool open[EXG_MESH_DIMS_MAX];
    bool experts;    /* are there any? */
    best_found best; /* and its modes */
    /* By dim: of those in which it is left whole the best, and the fastest. */
    best_found beside[EXG_MESH_DIMS_MAX], fastest[EXG_MESH_DIMS_MAX];
    exg_error *err;
} choosing;

static void note_best(const exg_placer *t, const exg_partition_summary *summary, best_found *best)
{
    if (!best->found || is_better(t, summary, &best->of)) {
        *best = (best_found){true, *summary};
    }
}

static void note_beside(choosing *c, const exg_partition_summary *summary)
{
    for (uint32_t d = 0; d < c->trial.mesh->ndim; d++) {
        best_found *fastest = &c->fastest[d];

        if (c->open[d] && summary->modes[d] == EXG_PARTITION_REPLICATE) {
            note_best(&c->trial, summary, &c->beside[d]);
            if (!fastest->found || summary->predicted_ns < fastest->of.predicted_ns) {
                *fastest = (best_found){true, *summary};
            }
        }
    }
}

static bool is_tried(const choosing *c, uint32_t d, exg_partition_mode mode)
{
    return mode != EXG_PARTITION_AUTO && mode != EXG_PARTITION_PIPELINE &&
           (mode != EXG_PARTITION_EXPERT || c->experts) &&
           (mode == EXG_PARTITION_REPLICATE || c->trial.mesh->sizes[d] > 1);
}

/* Is there a dim before that is whole, and might as well be this one? */
static bool is_tried_before(const choosing *c, uint32_t d, exg_partition_mode mode)
{
    const exg_placer *t = &c->trial;
    const exg_link *links = t->goal.costs->links;

    for (uint32_t k = 0; mode != EXG_PARTITION_REPLICATE && k < d; k++) {
        if (c->open[k] && t->options[k].mode == EXG_PARTITION_REPLICATE &&
            t->mesh->sizes[k] == t->mesh->sizes[d] && links[k].message_ns == links[d].message_ns &&
            links[k].ns_per_byte == links[d].ns_per_byte) {
            return true;
        }
    }
    return false;
}

/* Of the dims from `d` on; those before are placed, which left `whole`. */
static exg_status choose_from(choosing *c, uint32_t d, const exg_program *whole,
                              const exg_partition_summary *sum)
{
    exg_placer *t = &c->trial;

    if (d == t->mesh->ndim) {
        exg_partition_summary summary = *sum;

        EXG_TRY(exg_partition_predict(whole, t->operators, &t->goal, t->mesh, &summary, c->err));
        EXG_TRY(exg_partition_footprint(whole, t->operators, &summary, c->err));
        note_best(t, &summary, &c->best);
        note_beside(c, &summary);
        return EXG_OK;
    }
    const exg_partition_mode given = t->options[d].mode;

    for (exg_partition_mode mode = c->open[d] ? EXG_PARTITION_REPLICATE : given;
         mode <= (c->open[d] ? EXG_PARTITION_AUTO : given); mode++) {
        exg_partition_summary with = *sum;
        exg_program *made = NULL;
        bool uneven = false;
        exg_status status;

        if (c->open[d] && (!is_tried(c, d, mode) || is_tried_before(c, d, mode))) {
            continue;
        }
        t->options[d].mode = mode;
        status = exg_placer_place_dim(t, d, whole, NULL, &with, &uneven, &(exg_stage_notes){0},
                                      &made, c->err);
        status = status == EXG_OK ? choose_from(c, d + 1, made, &with) : status;
        exg_program_destroy(made);
        EXG_TRY(status);
    }
    t->options[d].mode = given;
    return EXG_OK;
}

/* Nodes times micro-batches that are placed to try them. */
#define BATCHED_MAX 20000u

/* As many micro-batches as were asked for, or one, or one for each stage if there are so many rows.
 */
static uint32_t batches_to_try(const exg_placer *t, uint32_t d, uint32_t attempt)
{
    const exg_graph *graph = t->functional->graph;
    uint32_t ranks = t->mesh->sizes[d];
    int64_t rows = 0;

    for (uint32_t i = graph->input_count; i-- > 0;) {
        const exg_tensor_meta *meta = graph->inputs[i].kind == EXG_ARGUMENT_TENSOR
                                          ? graph->values[graph->inputs[i].as_tensor].tensor
                                          : NULL;

        if (meta != NULL && meta->rank > 0 &&
            t->functional->signature.inputs[i].kind == EXG_INPUT_USER) {
            rows = meta->sizes[0].value;
        }
    }
    if (t->options[d].microbatches > 0 || attempt == 0) {
        return attempt > 0 ? 0 : t->options[d].microbatches > 0 ? t->options[d].microbatches : 1;
    }
    return rows >= ranks && graph->node_count <= BATCHED_MAX / ranks ? ranks : 0;
}

/* The first of the ranks that have most weights. */
static exg_status find_heaviest(const exg_placer *t, uint32_t d, uint32_t *rank, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_pipeline_shape shape = exg_placer_shape(t, d);
    uint32_t ranks = shape.ranks;
    double *bytes = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, double, ranks);
    exg_stages stages;
    exg_status status = bytes == NULL ? EXG_OUT_OF_MEMORY(err)
                                      : exg_stages_find(t->functional, t->operators, &t->goal, d,
                                                        shape.stages, arena, &stages, err);
    uint32_t most = 0;

    for (uint32_t k = 0; status == EXG_OK && k < stages.count; k++) {
        bytes[k % ranks] += stages.weight_bytes[k];
    }
    for (uint32_t r = 1; status == EXG_OK && r < ranks; r++) {
        most = bytes[r] > bytes[most] ? r : most;
    }
    exg_arena_destroy(arena);
    *rank = most * exg_mesh_shape_stride(t->mesh, d);
    return status;
}

/* A pipeline along one dim, beside the modes that were found for the others. A program in which
 * rows depend on each other is not one in micro-batches. */
static exg_status try_pipeline(choosing *c, uint32_t d, const best_found *beside)
{
    for (uint32_t attempt = 0; attempt < 2 && beside->found; attempt++) {
        exg_placer t = c->trial;
        uint32_t batches = batches_to_try(&t, d, attempt);
        exg_partition_summary summary = {0};
        exg_program *local = NULL;
        exg_error err;

        for (uint32_t k = 0; k < t.mesh->ndim; k++) {
            t.options[k].mode = beside->of.modes[k];
        }
        t.options[d].mode = EXG_PARTITION_PIPELINE;
        t.options[d].microbatches = batches;
        if (batches == 0) {
            break;
        }
        EXG_TRY(find_heaviest(&t, d, &t.rank, c->err));
        if (exg_placer_place(&t, NULL, &summary, &local, &err) == EXG_OK &&
            summary.used_stages > 1) {
            note_best(&c->trial, &summary, &c->best);
        }
        exg_program_destroy(local);
    }
    return EXG_OK;
}

static exg_status try_pipelines(choosing *c)
{
    if (exg_placer_pipeline(&c->trial) < c->trial.mesh->ndim) {
        return EXG_OK; /* there is one */
    }
    for (uint32_t d = 0; d < c->trial.mesh->ndim; d++) {
        EXG_TRY(try_pipeline(c, d, &c->beside[d]));
        if (c->beside[d].found &&
            memcmp(c->beside[d].of.modes, c->fastest[d].of.modes,
                   c->trial.mesh->ndim * sizeof(c->beside[d].of.modes[0])) != 0) {
            EXG_TRY(try_pipeline(c, d, &c->fastest[d]));
        }
    }
    return EXG_OK;
}

/* The best of all combinations, from here on those of `t`. */
static exg_status choose_together(exg_placer *t, const bool *open, bool experts, exg_error *err)
{
    choosing c = {.trial = *t, .experts = experts, .err = err};

    c.trial.rank = 0; /* the same decision on every rank */
    c.trial.choices = NULL;
    memcpy(c.open, open, sizeof(c.open));
    EXG_TRY(choose_from(&c, 0, t->functional, &(exg_partition_summary){0}));
    EXG_TRY(try_pipelines(&c));
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        if (open[d]) {
            t->options[d].mode = c.best.of.modes[d];
            t->options[d].microbatches =
                c.best.of.modes[d] == EXG_PARTITION_PIPELINE ? c.best.of.microbatches : 0;
        }
    }
    return EXG_OK;
}

exg_status exg_choose_modes(exg_placer *t, exg_error *err)
{
    bool open[EXG_MESH_DIMS_MAX] = {false};
    bool experts = false;
    uint32_t count = 0;
    double trials = t->functional->graph->node_count;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        open[d] = t->options[d].mode == EXG_PARTITION_AUTO;
        t->options[d].mode = open[d] ? EXG_PARTITION_REPLICATE : t->options[d].mode;
        open[d] = open[d] && t->mesh->sizes[d] > 1;
        count += open[d];
        trials *= open[d] ? EXG_PARTITION_AUTO : 1;
    }
    if (count == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_find_experts(t->functional, t->operators, &experts, err));
    if (trials <= TRIALS_MAX) {
        return choose_together(t, open, experts, err);
    }
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        bool alone[EXG_MESH_DIMS_MAX] = {false};

        alone[d] = open[d];
        EXG_TRY(open[d] ? choose_together(t, alone, experts, err) : EXG_OK);
    }
    return EXG_OK;
}

/* Nodes times dims for which others are tried: it should not be waited for. */
#define COMPARED_MAX 5000u

void exg_compare_modes(const exg_placer *t, const bool *decided_by_cost,
                       exg_partition_summary *best)
{
    uint32_t tried =
        t->functional->graph->node_count > COMPARED_MAX / t->mesh->ndim ? 0 : t->mesh->ndim;

    for (uint32_t d = 0; d < tried; d++) {
        for (exg_partition_mode mode = EXG_PARTITION_REPLICATE;
             !decided_by_cost[d] && t->mesh->sizes[d] > 1 && mode < EXG_PARTITION_AUTO; mode++) {
            exg_partition_summary other = {0};
            exg_program *local = NULL;
            exg_error err;
            exg_placer trial = *t;

            trial.rank = 0;
            trial.pattern = NULL;
            trial.choices = NULL;
            trial.options[d] =
                (exg_partition_options){.size = sizeof(trial.options[d]), .mode = mode};
            if (mode == t->options[d].mode || mode == EXG_PARTITION_PIPELINE ||
                exg_placer_place(&trial, NULL, &other, &local, &err) != EXG_OK) {
                continue;
            }
            exg_program_destroy(local);
            if (fits(t, &other) && other.predicted_ns < best->predicted_ns &&
                (best->cheaper_ns == 0 || other.predicted_ns < best->cheaper_ns)) {
                best->cheaper_ns = other.predicted_ns;
                best->cheaper_bytes = memory_of(&other);
                memcpy(best->cheaper_modes, other.modes, sizeof(other.modes));
            }
        }
    }
}
