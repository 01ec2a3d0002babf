/* history.c - the life of histories, and what a DTensor says of its own. */
#include "libexec/dtensor/history.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

exg_history *exg_history_create(uint32_t input_count, uint32_t output_count)
{
    exg_history *h = calloc(1, sizeof(*h) + input_count * sizeof(*h->inputs));

    if (h != NULL) {
        h->uses = 1;
        h->inputs = (exg_edge *)(void *)(h + 1);
        h->input_count = input_count;
        h->output_count = output_count;
    }
    return h;
}

exg_history *exg_history_share(exg_history *h)
{
    if (h != NULL) {
        h->uses++;
    }
    return h;
}

/* Long histories are let go one after the other, not inside one another. */
void exg_history_release(exg_history *h)
{
    exg_history *rest = NULL;

    if (h != NULL && --h->uses == 0) {
        rest = h;
    }
    while (rest != NULL) {
        exg_history *gone = rest;

        rest = gone->next;
        for (uint32_t i = 0; i < gone->input_count; i++) {
            exg_history *of = gone->inputs[i].of;

            if (of != NULL && --of->uses == 0) {
                of->next = rest;
                rest = of;
            }
        }
        if (gone->let_go != NULL) {
            gone->let_go(gone->step);
        }
        exg_dtensor_destroy(gone->gradient);
        free(gone);
    }
}

void exg_dtensor_set_history(exg_dtensor *t, exg_history *h, uint32_t output)
{
    exg_history *before = t->history;

    t->history = exg_history_share(h);
    t->output = output;
    exg_history_release(before);
}

void exg_gradient_placements(const exg_dtensor *t, exg_placement *to)
{
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        to[m] = t->placements[m].kind == EXG_PARTIAL ? exg_replicate() : t->placements[m];
    }
}

/* ---- asking --------------------------------------------------------------------------------- */

bool exg_dtensor_requires_grad(const exg_dtensor *t)
{
    return t->history != NULL;
}

bool exg_dtensor_is_leaf(const exg_dtensor *t)
{
    return t->history == NULL || t->history->number == 0;
}

const exg_dtensor *exg_dtensor_grad(const exg_dtensor *t)
{
    return t->history == NULL ? NULL : t->history->gradient;
}

exg_dtensor *exg_dtensor_take_grad(exg_dtensor *t)
{
    exg_dtensor *gradient = t->history == NULL ? NULL : t->history->gradient;

    if (gradient != NULL) {
        t->history->gradient = NULL;
    }
    return gradient;
}

exg_status exg_dtensor_set_requires_grad(exg_dtensor *t, bool requires_grad, exg_error *err)
{
    EXG_REQUIRE(err, t);
    exg_history *leaf;

    if (requires_grad && !exg_dtype_is_float(t->local.dtype) &&
        !exg_dtype_is_complex(t->local.dtype)) {
        return EXG_FAIL(err, USAGE, "DTN-016", "a gradient of %s", exg_dtype_name(t->local.dtype));
    }
    if (requires_grad == (t->history != NULL)) {
        return EXG_OK;
    }
    if (!exg_dtensor_is_leaf(t)) {
        return EXG_FAIL(err, USAGE, "DTN-016", "what was computed has a gradient of its own");
    }
    leaf = requires_grad ? exg_history_create(0, 1) : NULL;
    if (requires_grad && leaf == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (leaf != NULL) {
        exg_gradient_placements(t, leaf->placements);
    }
    exg_dtensor_set_history(t, leaf, 0);
    exg_history_release(leaf);
    return EXG_OK;
}
