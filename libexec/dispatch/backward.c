/* backward.c - from what was computed back to the leaves: the latest step first, so that every
 * gradient of its results has come. The same order on every rank. */
#include "libexec/dispatch/tape.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

/* The steps that gradients have come to: a heap, the latest on top. */
typedef struct agenda {
    exg_dispatcher *d;
    exg_history **steps;
    uint32_t count, capacity;
} agenda;

static bool later(const exg_history *a, const exg_history *b)
{
    return a->number > b->number;
}

static exg_status put_step(agenda *a, exg_history *h, exg_error *err)
{
    uint32_t at = a->count;

    if (a->count == a->capacity) {
        uint32_t capacity = a->capacity == 0 ? 64 : a->capacity * 2;
        exg_history **steps = realloc(a->steps, capacity * sizeof(*steps));

        if (steps == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        a->steps = steps;
        a->capacity = capacity;
    }
    h->pending = calloc(h->output_count, sizeof(*h->pending));
    if (h->pending == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    a->count++;
    for (; at > 0 && later(h, a->steps[(at - 1) / 2]); at = (at - 1) / 2) {
        a->steps[at] = a->steps[(at - 1) / 2];
    }
    a->steps[at] = exg_history_share(h);
    return EXG_OK;
}

/* The latest, whose use is the caller's. */
static exg_history *take_step(agenda *a)
{
    exg_history *top = a->steps[0];
    exg_history *last = a->steps[--a->count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < a->count; child = 2 * at + 1) {
        child += child + 1 < a->count && later(a->steps[child + 1], a->steps[child]);
        if (!later(a->steps[child], last)) {
            break;
        }
        a->steps[at] = a->steps[child];
        at = child;
    }
    a->steps[at] = last;
    return top;
}

/* `sum` with `more`, which is taken over; the one that is there when there is only one. */
static exg_status add(exg_dispatcher *d, exg_dtensor **sum, exg_dtensor *more, exg_error *err)
{
    exg_object args[2];
    exg_object result = exg_object_none();
    exg_status status;

    if (*sum == NULL) {
        *sum = more;
        return EXG_OK;
    }
    args[0] = exg_object_dtensor(*sum);
    args[1] = exg_object_dtensor(more);
    status = exg_dispatch(d, "aten.add.Tensor", args, 2, NULL, 0, &result, err);
    exg_dtensor_destroy(more);
    if (status == EXG_OK) {
        exg_dtensor_destroy(*sum);
        *sum = result.dtensor;
    }
    return status;
}

/* A gradient of what `edge` says, which is taken over. */
static exg_status bring(agenda *a, exg_edge edge, exg_dtensor *gradient, exg_error *err)
{
    exg_status status = edge.of->pending != NULL ? EXG_OK : put_step(a, edge.of, err);

    if (status != EXG_OK) {
        exg_dtensor_destroy(gradient);
        return status;
    }
    return add(a->d, &edge.of->pending[edge.output], gradient, err);
}

/* The leaf's gradient is its own: dense, and of no memory that others write. */
static exg_status reach_leaf(agenda *a, exg_history *leaf, exg_error *err)
{
    exg_dtensor *gradient = leaf->pending[0];
    exg_object result = exg_object_none();
    exg_object args[1];
    exg_dtensor *lies;
    exg_status status;

    EXG_TRY(
        exg_redistribute(a->d, gradient, leaf->placements, gradient->mesh->ndim, NULL, &lies, err));
    if (lies->local.data == gradient->local.data) {
        args[0] = exg_object_dtensor(lies);
        status = exg_dispatch(a->d, "aten.clone.default", args, 1, NULL, 0, &result, err);
        exg_dtensor_destroy(lies);
        EXG_TRY(status);
        lies = result.dtensor;
    }
    return add(a->d, &leaf->gradient, lies, err);
}

static exg_status go_back(agenda *a, exg_history *h, exg_error *err)
{
    const exg_tape_step *step = h->step;
    exg_dtensor **made = calloc(h->input_count + 1u, sizeof(*made));
    exg_status status;

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = step->kind->back(a->d, h, h->pending, made, err);
    for (uint32_t i = 0; i < h->input_count; i++) {
        if (made[i] != NULL && status == EXG_OK && h->inputs[i].of != NULL) {
            status = bring(a, h->inputs[i], made[i], err);
        } else {
            exg_dtensor_destroy(made[i]);
        }
    }
    free(made);
    return status;
}

static void drop_pending(exg_history *h)
{
    for (uint32_t i = 0; h->pending != NULL && i < h->output_count; i++) {
        exg_dtensor_destroy(h->pending[i]);
    }
    free(h->pending);
    h->pending = NULL;
}

/* The gradient that a root begins with. */
static exg_status begin(exg_dispatcher *d, exg_dtensor *root, const exg_dtensor *given,
                        exg_dtensor **gradient, exg_error *err)
{
    exg_object args[1] = {exg_object_dtensor(root)};
    exg_object result = exg_object_none();
    int64_t numel = 1;

    for (uint32_t k = 0; k < root->rank; k++) {
        numel *= root->sizes[k];
    }
    if (root->history == NULL || (given == NULL && numel != 1) ||
        (given != NULL && (given->local.dtype != root->local.dtype ||
                           !exg_dims_equal(given->sizes, given->rank, root->sizes, root->rank)))) {
        return EXG_FAIL(err, USAGE, "TAP-004",
                        root->history == NULL ? "nothing that has a gradient leads here"
                        : given == NULL       ? "a root of %lld elements without a gradient"
                                              : "a gradient of other sizes or dtype than its root",
                        (long long)numel);
    }
    if (given != NULL) {
        return exg_dtensor_alias(given, gradient, err);
    }
    EXG_TRY(exg_dispatch(d, "aten.ones_like.default", args, 1, NULL, 0, &result, err));
    *gradient = result.dtensor;
    return EXG_OK;
}

/* After a fault nothing goes back, but what was put is let go. */
static exg_status go_all(agenda *a, exg_status status, exg_error *err)
{
    while (a->count > 0) {
        exg_history *h = take_step(a);

        if (status == EXG_OK) {
            status = h->number == 0 ? reach_leaf(a, h, err) : go_back(a, h, err);
        }
        drop_pending(h);
        exg_history_release(h);
    }
    return status;
}

exg_status exg_backward(exg_dispatcher *d, exg_dtensor *const *roots,
                        const exg_dtensor *const *gradients, uint32_t count,
                        const exg_backward_options *given, exg_error *err)
{
    EXG_REQUIRE(err, d, EXG_IF_ANY(count, roots));
    exg_backward_options options = {0};
    agenda a = {.d = d};
    exg_status status = EXG_OK;
    bool before;

    EXG_TRY(EXG_READ_OPTIONS(exg_backward_options, &options, given, err));
    before = exg_set_grad_enabled(d, options.create_graph);
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        exg_dtensor *gradient;

        status = begin(d, roots[i], gradients == NULL ? NULL : gradients[i], &gradient, err);
        if (status == EXG_OK) {
            status = bring(&a, (exg_edge){roots[i]->history, roots[i]->output}, gradient, err);
        }
    }
    status = go_all(&a, status, err);
    (void)exg_set_grad_enabled(d, before);
    free(a.steps);
    return status;
}
