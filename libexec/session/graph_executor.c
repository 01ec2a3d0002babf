/* graph_executor.c - from segment to segment: runs one, reads the number it waits for, finds or
 * makes the one that follows. */
#include "libexec/session/graph_executor.h"
#include "libexec/session/loop.h"

#include <stdlib.h>
#include <string.h>

/* A segment needs the one before it, so the last go first: a program may have as many segments as
 * nodes. `next` of one whose followers are gone leads back, by way of the list it was in. */
static void destroy_all(exg_executable *executable)
{
    exg_executable *up = NULL; /* those that wait for what follows them, the nearest first */

    while (executable != NULL) {
        exg_executable *first = executable->follow;

        if (first != NULL) { /* down; the rest of the list comes after it */
            executable->follow = first->next;
            executable->next = up;
            up = executable;
            executable = first;
            continue;
        }
        exg_loop_destroy(executable->loop);
        exg_executable_destroy(executable);
        executable = up;
        up = executable == NULL ? NULL : executable->next;
    }
}

void exg_graph_executor_destroy(exg_graph_executor *executor)
{
    for (exg_executable *b = executor->plans; b != NULL;) {
        exg_executable *next = b->next;

        destroy_all(b);
        b = next;
    }
    free(executor->path);
}

/* The one of the list that was not used longest, but for two that are needed (or NULL). */
static bool drop_oldest(exg_executable **list, const exg_executable *current,
                        const exg_executable *passed)
{
    exg_executable **oldest = NULL;
    exg_executable *gone;

    for (exg_executable **at = list; *at != NULL; at = &(*at)->next) {
        oldest = *at == current || *at == passed ? oldest : at;
    }
    if (oldest == NULL) {
        return false;
    }
    gone = *oldest;
    *oldest = gone->next;
    destroy_all(gone);
    return true;
}

/* Puts a new plan in front; those not used longest make room where there are more than `most`. */
static void add_plan(exg_executable **list, exg_executable *executable, uint32_t most,
                     const exg_executable *passed)
{
    uint32_t count = 0;

    executable->next = *list;
    *list = executable;
    for (const exg_executable *b = executable; b != NULL; b = b->next) {
        count++;
    }
    while (count > most && drop_oldest(list, executable, passed)) {
        count--;
    }
}

/* How many of the first segment are kept. */
static uint32_t plan_limit(const exg_graph_executor *r)
{
    uint32_t most = r->is_part ? EXG_FOLLOW_MAX : r->context->options.plan_limit;

    return most == 0 ? UINT32_MAX : most;
}

/* The first segment of the run whose results are read; or NULL. */
static const exg_executable *passed_first(const exg_graph_executor *r)
{
    return r->path_count > 0 ? r->path[0] : NULL;
}

void exg_graph_executor_leave(exg_graph_executor *executor)
{
    executor->last = NULL;
    executor->path_count = 0;
}

bool exg_graph_executor_evict(void *executor)
{
    exg_graph_executor *r = executor;
    bool dropped = drop_oldest(&r->plans, r->current, passed_first(r));

    for (uint32_t d = 0; !dropped && d < r->path_count; d++) {
        dropped =
            drop_oldest(&r->path[d]->follow, NULL, d + 1 < r->path_count ? r->path[d + 1] : NULL) ||
            exg_loop_evict(r->path[d]->loop);
    }
    return dropped;
}

/* Plans that were not used for long go. */
static void make_room(exg_session_context *context)
{
    while (context->plan_bytes > context->plan_bytes_limit &&
           exg_graph_executor_evict(context->executor)) {
    }
}

/* With the loop that the segment ends at, if it does. */
static exg_status make_executable(exg_graph_executor *r, exg_graph_segment *segment,
                                  const int64_t *key, uint32_t key_count, exg_executable **made,
                                  exg_error *err)
{
    exg_executable *b;
    exg_status status = EXG_OK;

    *made = NULL;
    make_room(r->context);
    EXG_TRY(
        exg_executable_create(r->context, segment, r->is_part, r->level, key, key_count, &b, err));
    if (segment->graph_break == EXG_GRAPH_BREAK_LOOP) {
        status = exg_loop_create(r->context, segment, b->level, &b->loop, err);
    }
    if (status != EXG_OK) {
        destroy_all(b);
        return status;
    }
    *made = b;
    return EXG_OK;
}

exg_status exg_graph_executor_select(exg_graph_executor *executor, const int64_t *key,
                                     uint32_t key_count, const exg_symbols *symbols,
                                     const exg_tensor_meta *const *metas,
                                     const exg_argument *numbers, exg_error *err)
{
    uint64_t start = exg_now_ns();
    exg_graph_segment *segment;

    executor->current = exg_executable_find(&executor->plans, key, key_count);
    if (executor->current != NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_graph_segment_begin(executor->program, executor->context->operators, symbols, metas,
                                    numbers, &segment, err));
    EXG_TRY(make_executable(executor, segment, key, key_count, &executor->current, err));
    add_plan(&executor->plans, executor->current, plan_limit(executor), passed_first(executor));
    executor->context->plan_ns += exg_now_ns() - start;
    return EXG_OK;
}

/* ---- what follows ---------------------------------------------------------------------- */

static exg_status bind(exg_graph_executor *r, exg_executable *after, exg_graph_segment *segment,
                       const int64_t *key, uint32_t key_count, exg_executable **next,
                       exg_error *err)
{
    EXG_TRY(make_executable(r, segment, key, key_count, next, err));
    add_plan(&after->follow, *next, EXG_FOLLOW_MAX, NULL);
    return EXG_OK;
}

/* What a number is known by among those that may follow. */
static void write_key(const exg_argument *number, int64_t *key)
{
    key[0] = (int64_t)number->kind;
    key[1] = 0;
    memcpy(&key[1], &number->as_int, number->kind == EXG_ARGUMENT_BOOL ? 1 : sizeof(key[1]));
}

static exg_status after_number(exg_graph_executor *r, exg_executable *b, exg_executable **next,
                               exg_error *err)
{
    exg_argument number;
    int64_t key[2];
    uint64_t start;
    exg_graph_segment *segment;

    EXG_TRY(exg_executable_read_scalar(r->context, b, b->segment->number_output, &number, err));
    write_key(&number, key);
    *next = exg_executable_find(&b->follow, key, 2);
    if (*next != NULL) {
        return EXG_OK;
    }
    start = exg_now_ns();
    EXG_TRY(exg_graph_segment_resume(b->segment, &number, &segment, err));
    EXG_TRY(bind(r, b, segment, key, 2, next, err));
    r->context->plan_ns += exg_now_ns() - start;
    return EXG_OK;
}

static exg_tensor_meta meta_of(const exg_tensor *tensor, exg_sym_int *sizes, exg_sym_int *strides)
{
    exg_tensor_meta meta = {.dtype = tensor->dtype,
                            .rank = tensor->rank,
                            .sizes = sizes,
                            .strides = strides,
                            .storage_offset = exg_sym_int_of(0)};

    for (uint32_t d = 0; d < tensor->rank; d++) {
        sizes[d] = exg_sym_int_of(tensor->sizes[d]);
        strides[d] = exg_sym_int_of(tensor->strides[d]);
    }
    return meta;
}

/* Sizes of a loop's results, as words. */
static uint32_t sizes_of(const exg_tensor *tensors, uint32_t count, int64_t *words)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < tensors[i].rank; d++, at++) {
            if (words != NULL) {
                words[at] = tensors[i].sizes[d];
            }
        }
    }
    return at;
}

static exg_status make_after_loop(exg_graph_executor *r, exg_executable *b, const int64_t *key,
                                  uint32_t key_count, exg_executable **next, exg_error *err)
{
    const exg_tensor *results = exg_loop_results(b->loop);
    uint32_t count = b->segment->loop.result_count;
    exg_tensor_meta *metas = calloc(count + 1, sizeof(*metas));
    exg_sym_int *sizes = calloc((size_t)count * 2 * EXG_RANK_MAX + 1, sizeof(*sizes));
    exg_graph_segment *segment;
    exg_status status = metas == NULL || sizes == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        metas[i] = meta_of(&results[i], sizes + (size_t)i * 2 * EXG_RANK_MAX,
                           sizes + ((size_t)i * 2 + 1) * EXG_RANK_MAX);
    }
    if (status == EXG_OK) {
        status = exg_graph_segment_resume_loop(b->segment, metas, &segment, err);
    }
    free(metas);
    free(sizes);
    return status == EXG_OK ? bind(r, b, segment, key, key_count, next, err) : status;
}

static exg_status after_loop(exg_graph_executor *r, exg_executable *b, exg_executable **next,
                             exg_error *err)
{
    int64_t few[64];
    const exg_tensor *results;
    uint32_t words;
    int64_t *key = few;
    uint64_t start;
    exg_status status = EXG_OK;

    EXG_TRY(exg_loop_execute(b->loop, b, err));
    results = exg_loop_results(b->loop);
    words = sizes_of(results, b->segment->loop.result_count, NULL);
    if (words > 64) {
        key = malloc(words * sizeof(*key));
        if (key == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    (void)sizes_of(results, b->segment->loop.result_count, key);
    *next = exg_executable_find(&b->follow, key, words);
    if (*next == NULL) {
        start = exg_now_ns();
        status = make_after_loop(r, b, key, words, next, err);
        r->context->plan_ns += exg_now_ns() - start;
    }
    if (key != few) {
        free(key);
    }
    return status;
}

/* ---- looking ahead ----------------------------------------------------------------------- */

static exg_status explore_after(exg_graph_executor *r, exg_executable *b, exg_error *err);

/* What follows `truth`, unless the program asserts the contrary. */
static exg_status explore_side(exg_graph_executor *r, exg_executable *b, bool truth, exg_error *err)
{
    exg_argument number = exg_arg_bool(truth);
    int64_t key[2];
    exg_graph_segment *segment;
    exg_executable *next;
    exg_status status = exg_graph_segment_resume(b->segment, &number, &segment, err);

    if (status == EXG_MALFORMED) { /* so no run comes there */
        return EXG_OK;
    }
    EXG_TRY(status);
    write_key(&number, key);
    EXG_TRY(bind(r, b, segment, key, 2, &next, err));
    return explore_after(r, next, err);
}

static exg_status leave_unchecked(exg_session_context *e, const exg_graph_segment *s,
                                  const char *why, exg_error *err)
{
    exg_text_printf(&e->unchecked, "not checked: what follows '%s' (%s), for %s\n",
                    s->node->name == NULL ? "" : s->node->name, s->node->target, why);
    return e->unchecked.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status explore_number(exg_graph_executor *r, exg_executable *b, exg_error *err)
{
    const exg_graph_segment *s = b->segment;
    const exg_plan_output *number =
        &exg_executable_plan(b)->outputs[s->first_output + s->number_output];

    if (number->location.view.dtype != EXG_DTYPE_B8) {
        return leave_unchecked(r->context, s, "it hangs on a number that only the run knows", err);
    }
    for (int truth = 0; truth < 2; truth++) {
        EXG_TRY(explore_side(r, b, truth == 1, err));
    }
    return EXG_OK;
}

static exg_status explore_loop(exg_graph_executor *r, exg_executable *b, exg_error *err)
{
    uint32_t count = b->segment->loop.result_count;
    exg_executable *next;
    bool known;
    int64_t *key;
    uint32_t words;
    exg_status status;

    EXG_TRY(exg_loop_explore(b->loop, b, &known, err));
    if (!known) {
        return leave_unchecked(r->context, b->segment,
                               "what the loop carries changes its size, or hangs on the run", err);
    }
    key = malloc((sizes_of(exg_loop_results(b->loop), count, NULL) + 1) * sizeof(*key));
    if (key == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    words = sizes_of(exg_loop_results(b->loop), count, key);
    status = make_after_loop(r, b, key, words, &next, err);
    free(key);
    return status == EXG_OK ? explore_after(r, next, err) : status;
}

static exg_status explore_after(exg_graph_executor *r, exg_executable *b, exg_error *err)
{
    if (b->segment->graph_break == EXG_GRAPH_BREAK_END) {
        return EXG_OK;
    }
    if (r->context->explored++ >= EXG_EXPLORED_MAX) {
        return leave_unchecked(r->context, b->segment, "too many segments may come before it", err);
    }
    return b->segment->graph_break == EXG_GRAPH_BREAK_LOOP ? explore_loop(r, b, err)
                                                           : explore_number(r, b, err);
}

exg_status exg_graph_executor_explore(exg_graph_executor *executor, exg_error *err)
{
    return explore_after(executor, executor->current, err);
}

/* ---- running ----------------------------------------------------------------------------- */

static exg_status set_inputs(exg_graph_executor *r, exg_executable *b, void *const *data,
                             exg_error *err)
{
    const exg_plan *plan = exg_executable_plan(b);
    const exg_graph_segment *s = b->segment;
    uint32_t own = plan->input_count - s->input_count;
    uint32_t places = exg_session_context_memories(r->context);

    for (uint32_t p = 0; p < own; p++) {
        if (plan->inputs[p].kind != EXG_INPUT_USER || plan->inputs[p].buffer == EXG_NO_BUFFER) {
            continue;
        }
        if (!r->is_part && exg_ranks_have(r->context, p)) {
            EXG_TRY(exg_executable_set_rank_inputs(r->context, b, p, err));
        } else if (!r->is_part) {
            EXG_TRY(exg_executable_check_whole(b, p, err));
            exg_executable_set_input(b, p, data[p], r->context->there[p]);
        }
        for (uint32_t at = 0; r->is_part && at < places; at++) {
            exg_executable_bind_input(r->context, b, p, at, data[at * own + p]);
        }
    }
    for (uint32_t i = 0; i < s->input_count * places; i++) {
        const exg_live_in *from = &s->inputs[i / places];
        const exg_executable *maker = r->path[from->depth];

        exg_executable_bind_input(
            r->context, b, own + i / places, i % places,
            from->of_loop ? exg_loop_result_address(maker->loop, from->index, i % places)
                          : exg_executable_output_address(maker, from->index, i % places));
    }
    return EXG_OK;
}

/* What is used where the caller has it takes no room. */
static void expect_inputs(const exg_graph_executor *r, exg_executable *b, void *const *data)
{
    const exg_plan *plan = exg_executable_plan(b);
    uint32_t own = plan->input_count - b->segment->input_count;

    for (uint32_t p = 0; !r->is_part && p < own; p++) {
        if (plan->inputs[p].kind != EXG_INPUT_USER || plan->inputs[p].buffer == EXG_NO_BUFFER) {
            continue;
        }
        if (exg_ranks_have(r->context, p)) {
            exg_executable_expect_rank_inputs(r->context, b, p);
        } else {
            exg_executable_expect_input(b, p, data[p], r->context->there[p]);
        }
    }
}

static exg_status step_on(exg_graph_executor *r, exg_executable *b, uint32_t depth, exg_error *err)
{
    if (depth >= r->path_capacity) {
        uint32_t capacity = r->path_capacity == 0 ? 8 : r->path_capacity * 2;
        exg_executable **path = realloc(r->path, capacity * sizeof(exg_executable *));

        if (path == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        r->path = path;
        r->path_capacity = capacity;
    }
    r->path[depth] = b;
    r->path_count = depth + 1;
    return EXG_OK;
}

/* Is the run to go on? Where each rank has a session, not when another one ended it. */
static exg_status check_run(const exg_session_context *e, exg_error *err)
{
    EXG_TRY(exg_stop_check(&e->stop, err));
    return e->is_spmd && e->grids != NULL && exg_grid_is_aborted(e->grids)
               ? EXG_FAIL(err, PEER, "COM-003", "another rank failed and ended the run")
               : EXG_OK;
}

exg_status exg_graph_executor_run(exg_graph_executor *executor, void *const *data, exg_error *err)
{
    exg_executable *b = executor->current;

    exg_graph_executor_leave(executor);
    for (uint32_t depth = 0;; depth++) {
        EXG_TRY(check_run(executor->context, err));
        exg_progress_count(&executor->context->progress.segments);
        EXG_TRY(step_on(executor, b, depth, err));
        expect_inputs(executor, b, data);
        EXG_TRY(exg_executable_settle(executor->context, b, err));
        EXG_TRY(set_inputs(executor, b, data, err));
        if (!executor->is_part && b->segment->graph_break == EXG_GRAPH_BREAK_END) {
            EXG_TRY(exg_executable_bind_outputs(executor->context, b, err));
        }
        EXG_TRY(exg_executable_run(executor->context, b, err));
        if (b->segment->graph_break == EXG_GRAPH_BREAK_END) {
            executor->last = b;
            return EXG_OK;
        }
        EXG_TRY(b->segment->graph_break == EXG_GRAPH_BREAK_LOOP
                    ? after_loop(executor, b, &b, err)
                    : after_number(executor, b, &b, err));
    }
}
