/* loop.c - the iterations of a loop. What is carried is in memory of the loop's own, since
 * a plan writes its results where the next iteration's inputs were read; on devices in theirs,
 * with a place for the slices of the iteration at hand, so that its plan finds all inputs where
 * they were.
 */
#include "libexec/session/loop.h"
#include "libexec/session/graph_executor.h"
#include "libexec/session/loop_buffers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct exg_loop_run {
    exg_session_context *context;
    const exg_graph_segment *segment;
    exg_graph_executor condition, body;
    exg_arena *arena;
    uint32_t places;   /* exg_session_context_memories */
    exg_tensor *given; /* by operand, without data; of a sliced one, the slice */
    void **whole;      /* by place and operand: where it is */
    void **data;       /* likewise: what the iteration is given of it */
    exg_argument *numbers;
    exg_tensor_meta *metas; /* by operand, with room for sizes and strides */
    const exg_tensor_meta **meta_of;
    int64_t *key;
    exg_tensor *results;   /* without data */
    exg_loop_buffer *kept; /* by result, then by sliced operand, then the stacks: two a result */
    exg_tensor *layer;     /* by result, of its stack */
    int64_t layers, room;  /* of each stack */
    uint32_t side;         /* of the two the one that is filled; the other one takes over */
};

static uint32_t kept_count(const exg_loop_run *l)
{
    const exg_loop *loop = &l->segment->loop;

    return loop->result_count + loop->sliced_count +
           (loop->is_stacked ? 2 * loop->result_count : 0);
}

void exg_loop_destroy(exg_loop_run *loop)
{
    if (loop == NULL) {
        return;
    }
    exg_graph_executor_destroy(&loop->condition);
    exg_graph_executor_destroy(&loop->body);
    exg_arena_destroy(loop->arena);
    free(loop);
}

bool exg_loop_evict(exg_loop_run *loop)
{
    return loop != NULL &&
           (exg_graph_executor_evict(&loop->condition) || exg_graph_executor_evict(&loop->body));
}

const exg_tensor *exg_loop_results(const exg_loop_run *loop)
{
    return loop->results;
}

void *exg_loop_result_address(const exg_loop_run *loop, uint32_t index, uint32_t place)
{
    return loop->kept[index].data[place];
}

static exg_status allocate(exg_loop_run *l, uint32_t level, exg_error *err)
{
    exg_arena *arena = l->arena;
    uint32_t count = l->segment->loop.operand_count;
    uint32_t kept = kept_count(l);

    l->given = EXG_NEW_ARRAY(arena, exg_tensor, count);
    l->whole = EXG_NEW_ARRAY(arena, void *, (size_t)count * l->places);
    l->data = EXG_NEW_ARRAY(arena, void *, (size_t)count * l->places);
    l->numbers = EXG_NEW_ARRAY(arena, exg_argument, count);
    l->metas = EXG_NEW_ARRAY(arena, exg_tensor_meta, count);
    l->meta_of = EXG_NEW_ARRAY(arena, const exg_tensor_meta *, count);
    l->key = EXG_NEW_ARRAY(arena, int64_t, (size_t)count * (EXG_RANK_MAX + 2));
    l->results = EXG_NEW_ARRAY(arena, exg_tensor, l->segment->loop.result_count);
    l->kept = EXG_NEW_ARRAY(arena, exg_loop_buffer, kept);
    l->layer = EXG_NEW_ARRAY(arena, exg_tensor, l->segment->loop.result_count);
    if (l->given == NULL || l->whole == NULL || l->data == NULL || l->numbers == NULL ||
        l->metas == NULL || l->meta_of == NULL || l->key == NULL || l->results == NULL ||
        l->kept == NULL || l->layer == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < kept; i++) {
        l->kept[i].level = level;
        l->kept[i].index = i;
        l->kept[i].data = EXG_NEW_ARRAY(arena, void *, l->places);
        if (l->kept[i].data == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        l->metas[i].sizes = EXG_NEW_ARRAY(arena, exg_sym_int, EXG_RANK_MAX);
        l->metas[i].strides = EXG_NEW_ARRAY(arena, exg_sym_int, EXG_RANK_MAX);
        if (l->metas[i].sizes == NULL || l->metas[i].strides == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

exg_status exg_loop_create(exg_session_context *context, const exg_graph_segment *segment,
                           uint32_t level, exg_loop_run **loop, exg_error *err)
{
    exg_loop_run *l = calloc(1, sizeof(*l));
    exg_arena *arena =
        l == NULL ? NULL
                  : exg_arena_create(exg_arena_allocator(segment->arena), EXG_ARENA_UNBOUNDED);

    *loop = NULL;
    if (arena == NULL) {
        free(l);
        return EXG_OUT_OF_MEMORY(err);
    }
    *l = (exg_loop_run){.context = context, .segment = segment, .arena = arena};
    l->condition =
        (exg_graph_executor){context, segment->loop.condition, .is_part = true, .level = level + 1};
    l->body =
        (exg_graph_executor){context, segment->loop.body, .is_part = true, .level = level + 1};
    l->places = exg_session_context_memories(context);
    *loop = l;
    return allocate(l, level, err);
}

static uint64_t bytes_of(const exg_tensor *tensor)
{
    return (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
}

/* ---- operands ---------------------------------------------------------------------------- */

static bool is_tensor(const exg_loop *loop, uint32_t i)
{
    return loop->operands[i].number.kind == EXG_ARGUMENT_NONE && !loop->operands[i].is_weight;
}

static bool is_sliced(const exg_loop *loop, uint32_t i)
{
    return i >= loop->carried_count && i < loop->carried_count + loop->sliced_count;
}

static void give(exg_loop_run *l, uint32_t place, uint32_t operand, void *data)
{
    l->data[place * l->segment->loop.operand_count + operand] = data;
}

/* Operand `i` is output `index` of the segment; of one that was only planned, without data. */
static void take(exg_loop_run *l, uint32_t i, const exg_executable *executable, uint32_t index)
{
    l->given[i] = exg_executable_plan(executable)
                      ->outputs[executable->segment->first_output + index]
                      .location.view;
    for (uint32_t p = 0; p < l->places && !l->context->options.plan_only; p++) {
        void *held = exg_executable_output_address(executable, index, p);

        l->whole[p * l->segment->loop.operand_count + i] = held;
        give(l, p, i, held);
    }
}

/* What the segment left; of what is cut along dim 0, the first slice. Gives the number of
 * slices, or -1 where they differ. */
static int64_t take_operands(exg_loop_run *l, const exg_executable *executable)
{
    const exg_loop *loop = &l->segment->loop;
    int64_t slices = -2;

    for (uint32_t i = 0; i < loop->operand_count; i++) {
        exg_tensor *t = &l->given[i];

        l->numbers[i] = loop->operands[i].number;
        if (!is_tensor(loop, i)) {
            continue;
        }
        take(l, i, executable, loop->operands[i].output);
        if (is_sliced(loop, i)) {
            int64_t here = t->rank == 0 ? -1 : t->sizes[0];

            slices = slices == -2 || slices == here ? here : -1;
            if (t->rank > 0) {
                t->rank--;
                memmove(t->sizes, t->sizes + 1, t->rank * sizeof(*t->sizes));
                exg_tensor_set_contiguous(t);
            }
        }
    }
    return slices;
}

static exg_status select_plan(exg_loop_run *l, exg_graph_executor *executor, exg_error *err)
{
    const exg_loop *loop = &l->segment->loop;
    const exg_symbols none = {0};
    uint32_t words = 0;

    exg_graph_executor_leave(executor);
    for (uint32_t i = 0; i < loop->operand_count; i++) {
        const exg_tensor *t = &l->given[i];

        l->meta_of[i] = NULL;
        if (!is_tensor(loop, i)) {
            l->key[words] = 0;
            memcpy(&l->key[words++], &l->numbers[i].as_int,
                   l->numbers[i].kind == EXG_ARGUMENT_BOOL ? 1 : sizeof(int64_t));
            continue;
        }
        l->metas[i].dtype = t->dtype;
        l->metas[i].rank = t->rank;
        l->key[words++] = (int64_t)t->dtype * EXG_RANK_MAX + t->rank;
        for (uint32_t d = 0; d < t->rank; d++) {
            l->metas[i].sizes[d] = exg_sym_int_of(t->sizes[d]);
            l->key[words++] = t->sizes[d];
        }
        l->meta_of[i] = &l->metas[i];
    }
    return exg_graph_executor_select(executor, l->key, words, &none, l->meta_of, l->numbers, err);
}

/* ---- iterations ---------------------------------------------------------------------------- */

static exg_status make_room(exg_loop_run *l, uint32_t kept, uint64_t bytes, exg_error *err)
{
    return exg_loop_buffer_reserve(&l->kept[kept], l->context, bytes, err);
}

/* The operand of that number, which the segment left, is the result so far. */
static exg_status keep_given(exg_loop_run *l, uint32_t i, exg_error *err)
{
    EXG_TRY(make_room(l, i, bytes_of(&l->given[i]), err));
    for (uint32_t p = 0; p < l->places; p++) {
        void *kept = exg_loop_result_address(l, i, p);

        EXG_TRY(exg_loop_buffer_copy(l->context, p, kept,
                                     l->whole[p * l->segment->loop.operand_count + i],
                                     bytes_of(&l->given[i]), err));
        give(l, p, i, kept);
    }
    l->results[i] = l->given[i];
    return EXG_OK;
}

/* Result `at` of the body's last run, which must be a tensor. */
static exg_status result_of(const exg_loop_run *l, uint32_t at, exg_tensor *tensor, exg_error *err)
{
    const exg_executable *last = l->body.last;
    const exg_plan_output *made =
        &exg_executable_plan(last)->outputs[last->segment->first_output + at];

    if (made->constant.kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(err, UNSUPPORTED, "RUN-005", "result %u of a loop is not a tensor", at);
    }
    *tensor = made->location.view;
    return EXG_OK;
}

/* What the body made of it is; the next iteration's operand. */
static exg_status keep_carried(exg_loop_run *l, exg_error *err)
{
    for (uint32_t i = 0; i < l->segment->loop.carried_count; i++) {
        exg_tensor made;

        EXG_TRY(result_of(l, i, &made, err));
        EXG_TRY(make_room(l, i, bytes_of(&made), err));
        for (uint32_t p = 0; p < l->places; p++) {
            void *kept = exg_loop_result_address(l, i, p);

            EXG_TRY(exg_loop_buffer_copy(l->context, p, kept,
                                         exg_executable_output_address(l->body.last, i, p),
                                         bytes_of(&made), err));
            give(l, p, i, kept);
        }
        l->given[i] = l->results[i] = made;
    }
    return EXG_OK;
}

static exg_status count_iteration(exg_loop_run *l, exg_error *err)
{
    EXG_TRY(exg_stop_check(&l->context->stop, err));
    if (l->context->loops_left == 0) {
        return exg_error_fix(err,
                             EXG_FAIL(err, LIMIT, "RUN-004",
                                      "loops went on for more than %" PRIu64 " iterations",
                                      l->context->options.loop_limit),
                             "--loop-limit, exg_session_options.loop_limit");
    }
    l->context->loops_left--;
    exg_progress_count(&l->context->progress.iterations);
    return EXG_OK;
}

static exg_status go_on(exg_loop_run *l, bool *goes_on, exg_error *err)
{
    exg_session_output held;
    exg_argument number;

    EXG_TRY(select_plan(l, &l->condition, err));
    EXG_TRY(exg_graph_executor_run(&l->condition, l->data, err));
    held = exg_executable_output(l->condition.last, 0, 0);
    number = held.constant;
    if (held.constant.kind == EXG_ARGUMENT_TENSOR) {
        EXG_TRY(exg_executable_read_scalar(l->context, l->condition.last, 0, &number, err));
    }
    *goes_on = exg_is_true(&number);
    return EXG_OK;
}

/* ---- stacks --------------------------------------------------------------------------------- */

#define LAYERS_FIRST 8

static uint32_t stack_of(const exg_loop_run *l, uint32_t i, uint32_t side)
{
    return l->segment->loop.result_count + l->segment->loop.sliced_count + 2 * i + side;
}

static exg_status copy_kept(exg_loop_run *l, uint32_t to, uint64_t at, uint32_t from,
                            uint64_t bytes, exg_error *err)
{
    for (uint32_t p = 0; p < l->places; p++) {
        EXG_TRY(exg_loop_buffer_copy(l->context, p,
                                     (uint8_t *)exg_loop_result_address(l, to, p) + at,
                                     exg_loop_result_address(l, from, p), bytes, err));
    }
    return EXG_OK;
}

/* Twice the room, on the other side. */
static exg_status grow_stacks(exg_loop_run *l, exg_error *err)
{
    int64_t room = l->room == 0 ? LAYERS_FIRST : 2 * l->room;

    for (uint32_t i = 0; i < l->segment->loop.result_count; i++) {
        uint64_t bytes = bytes_of(&l->layer[i]);

        if (bytes > 0 && (uint64_t)room > INT64_MAX / bytes) {
            return EXG_FAIL(err, LIMIT, "PLN-001", "the results of a loop are too large");
        }
        EXG_TRY(make_room(l, stack_of(l, i, !l->side), bytes * (uint64_t)room, err));
        if (l->layers > 0) {
            EXG_TRY(copy_kept(l, stack_of(l, i, !l->side), 0, stack_of(l, i, l->side),
                              bytes * (uint64_t)l->layers, err));
        }
    }
    l->side = !l->side;
    l->room = room;
    return EXG_OK;
}

/* What is carried now joins what was. */
static exg_status keep_layers(exg_loop_run *l, exg_error *err)
{
    for (uint32_t i = 0; i < l->segment->loop.result_count; i++) {
        const exg_tensor *made = &l->results[i];

        if (l->layers == 0) {
            l->layer[i] = *made;
        } else if (!exg_tensor_is_alike(made, &l->layer[i])) {
            return EXG_FAIL(err, MALFORMED, "RUN-005", "layers of a loop's result differ in size");
        }
    }
    if (l->layers == l->room) {
        EXG_TRY(grow_stacks(l, err));
    }
    for (uint32_t i = 0; i < l->segment->loop.result_count; i++) {
        uint64_t bytes = bytes_of(&l->layer[i]);

        EXG_TRY(copy_kept(l, stack_of(l, i, l->side), bytes * (uint64_t)l->layers, i, bytes, err));
    }
    l->layers++;
    return EXG_OK;
}

/* The stacks are the results; of no iteration, what was given. */
static exg_status give_stacks(exg_loop_run *l, exg_error *err)
{
    for (uint32_t i = 0; i < l->segment->loop.result_count; i++) {
        exg_tensor *whole = &l->results[i];
        uint64_t bytes = bytes_of(whole) * (uint64_t)l->layers;

        if (whole->rank == EXG_RANK_MAX) {
            return EXG_FAIL(err, LIMIT, "PLN-001", "the results of a loop have too many dims");
        }
        if (l->layers > 0) {
            EXG_TRY(make_room(l, i, bytes, err));
            EXG_TRY(copy_kept(l, i, 0, stack_of(l, i, l->side), bytes, err));
        }
        memmove(whole->sizes + 1, whole->sizes, whole->rank * sizeof(*whole->sizes));
        whole->sizes[0] = l->layers > 0 ? l->layers : 1;
        whole->rank++;
        exg_tensor_set_contiguous(whole);
    }
    return EXG_OK;
}

static exg_status run_while(exg_loop_run *l, exg_error *err)
{
    const exg_loop *loop = &l->segment->loop;
    bool goes_on = true;

    l->layers = l->room = 0;

    for (uint32_t i = 0; i < loop->carried_count; i++) {
        if (!is_tensor(loop, i) && !loop->operands[i].is_weight) {
            return EXG_FAIL(err, UNSUPPORTED, "RUN-005", "a loop carries a number");
        }
        EXG_TRY(keep_given(l, i, err));
    }
    for (;;) {
        EXG_TRY(go_on(l, &goes_on, err));
        if (!goes_on) {
            return loop->is_stacked ? give_stacks(l, err) : EXG_OK;
        }
        EXG_TRY(count_iteration(l, err));
        EXG_TRY(select_plan(l, &l->body, err));
        EXG_TRY(exg_graph_executor_run(&l->body, l->data, err));
        EXG_TRY(keep_carried(l, err));
        if (loop->is_stacked) {
            EXG_TRY(keep_layers(l, err));
        }
    }
}

/* The slices that this iteration made join those of the others. */
static exg_status keep_slices(exg_loop_run *l, int64_t at, int64_t slices, exg_error *err)
{
    const exg_loop *loop = &l->segment->loop;

    for (uint32_t i = loop->carried_count; i < loop->result_count; i++) {
        exg_tensor made;
        exg_tensor *whole = &l->results[i];

        EXG_TRY(result_of(l, i, &made, err));
        if (made.rank + 1 > EXG_RANK_MAX ||
            (bytes_of(&made) > 0 && (uint64_t)slices > INT64_MAX / bytes_of(&made))) {
            return EXG_FAIL(err, LIMIT, "PLN-001", "the results of a loop are too large");
        }
        if (at == 0) {
            EXG_TRY(make_room(l, i, bytes_of(&made) * (uint64_t)slices, err));
            whole->dtype = made.dtype;
            whole->rank = made.rank + 1;
            whole->sizes[0] = slices;
            memcpy(whole->sizes + 1, made.sizes, made.rank * sizeof(*made.sizes));
            exg_tensor_set_contiguous(whole);
        } else if (made.dtype != whole->dtype ||
                   !exg_dims_equal(made.sizes, made.rank, whole->sizes + 1, whole->rank - 1)) {
            return EXG_FAIL(err, MALFORMED, "RUN-005", "slices of a loop's result differ in size");
        }
        for (uint32_t p = 0; p < l->places; p++) {
            uint8_t *kept = exg_loop_result_address(l, i, p);

            EXG_TRY(exg_loop_buffer_copy(l->context, p, kept + (uint64_t)at * bytes_of(&made),
                                         exg_executable_output_address(l->body.last, i, p),
                                         bytes_of(&made), err));
        }
    }
    return EXG_OK;
}

/* Slice `at` of what is cut, as the iteration's operand. */
static exg_status give_slices(exg_loop_run *l, int64_t at, exg_error *err)
{
    const exg_loop *loop = &l->segment->loop;

    for (uint32_t s = 0; s < loop->sliced_count; s++) {
        uint32_t i = loop->carried_count + s;
        exg_loop_buffer *here = &l->kept[loop->result_count + s];
        uint64_t bytes = bytes_of(&l->given[i]);

        if (l->context->devices != NULL) {
            EXG_TRY(make_room(l, loop->result_count + s, bytes, err));
        }
        for (uint32_t p = 0; p < l->places; p++) {
            uint8_t *slice =
                (uint8_t *)l->whole[p * loop->operand_count + i] + (uint64_t)at * bytes;

            if (l->context->devices != NULL) {
                EXG_TRY(exg_loop_buffer_copy(l->context, p, here->data[p], slice, bytes, err));
            }
            give(l, p, i, l->context->devices == NULL ? slice : here->data[p]);
        }
    }
    return EXG_OK;
}

/* Result `i` as it will be, when an iteration makes `made` of it. */
static bool foresee(exg_loop_run *l, uint32_t i, const exg_tensor *made, int64_t slices)
{
    bool carried = i < l->segment->loop.carried_count;
    exg_tensor *result = &l->results[i];
    exg_tensor whole = *made;

    if (!carried && made->rank == EXG_RANK_MAX) {
        return false;
    }
    if (!carried) {
        whole.rank = made->rank + 1;
        whole.sizes[0] = slices;
        memcpy(whole.sizes + 1, made->sizes, made->rank * sizeof(*made->sizes));
        exg_tensor_set_contiguous(&whole);
    }
    if (carried ? !is_tensor(&l->segment->loop, i) || !exg_tensor_is_alike(made, &l->given[i])
                : result->rank > 0 && !exg_tensor_is_alike(&whole, result)) {
        return false;
    }
    *result = whole;
    return true;
}

/* Do all ways through the body, which was explored, end with results of the same sizes? */
static bool foresee_ends(exg_loop_run *l, const exg_executable *body, int64_t slices)
{
    bool known = body->segment->graph_break == EXG_GRAPH_BREAK_END || body->follow != NULL;
    uint32_t count =
        body->segment->graph_break == EXG_GRAPH_BREAK_END ? l->segment->loop.result_count : 0;

    for (uint32_t i = 0; known && i < count; i++) {
        const exg_plan_output *made =
            &exg_executable_plan(body)->outputs[body->segment->first_output + i];

        known = made->constant.kind == EXG_ARGUMENT_TENSOR &&
                foresee(l, i, &made->location.view, slices);
    }
    for (const exg_executable *f = body->follow; known && f != NULL; f = f->next) {
        known = foresee_ends(l, f, slices);
    }
    return known;
}

/* A map of nothing gives nothing, of the sizes that an iteration would. */
static exg_status map_nothing(exg_loop_run *l, exg_error *err)
{
    EXG_TRY(select_plan(l, &l->body, err));
    EXG_TRY(exg_graph_executor_explore(&l->body, err));
    if (!foresee_ends(l, l->body.current, 0)) {
        return EXG_FAIL(err, UNSUPPORTED, "RUN-005", "a loop over no slices");
    }
    for (uint32_t i = 0; i < l->segment->loop.result_count; i++) {
        EXG_TRY(make_room(l, i, 0, err));
    }
    return EXG_OK;
}

static exg_status run_slices(exg_loop_run *l, int64_t slices, exg_error *err)
{
    const exg_loop *loop = &l->segment->loop;

    if (slices == 0 && loop->carried_count == 0) {
        return map_nothing(l, err);
    }
    if (slices < 1) {
        return EXG_FAIL(err, MALFORMED, "RUN-005",
                        slices < 0 ? "what a loop cuts along dim 0 differs there in size"
                                   : "a loop over no slices");
    }
    for (uint32_t i = 0; i < loop->carried_count; i++) {
        EXG_TRY(keep_given(l, i, err));
    }
    for (int64_t at = 0; at < slices; at++) {
        EXG_TRY(count_iteration(l, err));
        EXG_TRY(give_slices(l, at, err));
        EXG_TRY(select_plan(l, &l->body, err));
        EXG_TRY(exg_graph_executor_run(&l->body, l->data, err));
        EXG_TRY(keep_carried(l, err));
        EXG_TRY(keep_slices(l, at, slices, err));
    }
    return EXG_OK;
}

exg_status exg_loop_execute(exg_loop_run *loop, const exg_executable *executable, exg_error *err)
{
    const exg_node *node = executable->segment->node;
    int64_t slices = take_operands(loop, executable);

    EXG_TRY_IN(err,
               executable->segment->loop.condition != NULL ? run_while(loop, err)
                                                           : run_slices(loop, slices, err),
               "node '%s'", node->name == NULL ? node->target : node->name);
    return EXG_OK;
}

/* ---- on paper ------------------------------------------------------------------------------ */

exg_status exg_loop_explore(exg_loop_run *l, const exg_executable *executable, bool *known,
                            exg_error *err)
{
    int64_t slices = take_operands(l, executable);

    if (l->segment->loop.condition != NULL) {
        EXG_TRY(select_plan(l, &l->condition, err));
        EXG_TRY(exg_graph_executor_explore(&l->condition, err));
    }
    EXG_TRY(select_plan(l, &l->body, err));
    EXG_TRY(exg_graph_executor_explore(&l->body, err));
    *known = !l->segment->loop.is_stacked &&
             (l->segment->loop.condition != NULL || slices >= 1 ||
              (slices == 0 && l->segment->loop.carried_count == 0)) &&
             foresee_ends(l, l->body.current, slices);
    return EXG_OK;
}
