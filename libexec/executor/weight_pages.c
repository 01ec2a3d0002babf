/* weight_pages.c - from the views that steps have of weights. */
#include "libexec/executor/weight_pages.h"
#include "libexec/kernels/kernels.h"
#include "libexport/base/arena.h"
#include "libexport/weights/storage.h"

#include <string.h>

/* Dims from the narrowest stride on: bytes without gaps, then rows of them, and no more. */
static bool as_rows(const exg_location *location, exg_page_rows *rows)
{
    const exg_tensor *view = &location->view;
    uint64_t item = exg_dtype_bytes(view->dtype);
    bool taken[EXG_RANK_MAX] = {false};

    *rows = (exg_page_rows){
        .is_read = true, .first = (uint64_t)location->offset * item, .run = item, .rows = 1};
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t least = EXG_RANK_MAX;
        uint64_t stride;

        for (uint32_t d = 0; d < view->rank; d++) {
            if (!taken[d] && (least == EXG_RANK_MAX || view->strides[d] < view->strides[least])) {
                least = d;
            }
        }
        taken[least] = true;
        stride = (uint64_t)view->strides[least] * item;
        if (view->strides[least] < 0 || view->sizes[least] < 1) {
            return false;
        }
        if (view->sizes[least] == 1 || stride == 0) {
            continue;
        }
        if (rows->rows == 1 && stride == rows->run) {
            rows->run *= (uint64_t)view->sizes[least];
        } else if (rows->rows == 1 || stride == rows->rows * rows->pitch) {
            rows->pitch = rows->rows == 1 ? stride : rows->pitch;
            rows->rows *= (uint64_t)view->sizes[least];
        } else {
            return false;
        }
    }
    return true;
}

static void add_view(exg_page_rows *rows, const exg_location *location, bool looked_up)
{
    exg_span span = exg_location_span(location);
    exg_page_rows own;
    bool regular = as_rows(location, &own);

    if (span.low == span.high) {
        return;
    }
    own.end = (uint64_t)span.high;
    own.first = (uint64_t)span.low;
    own.is_read = !looked_up;
    if (looked_up && rows->end > 0) {
        return;
    }
    if (!rows->is_read) {
        *rows = own;
        rows->is_irregular = !regular;
        return;
    }
    rows->is_irregular = rows->is_irregular || !regular || own.first != rows->first ||
                         own.run != rows->run || own.rows != rows->rows || own.pitch != rows->pitch;
    rows->first = own.first < rows->first ? own.first : rows->first;
    rows->end = own.end > rows->end ? own.end : rows->end;
}

exg_page_rows *exg_page_rows_find(const exg_plan *plan)
{
    exg_page_rows *rows = EXG_NEW_ARRAY(plan->arena, exg_page_rows, plan->buffer_count);

    for (uint32_t s = 0; rows != NULL && s < plan->step_count; s++) {
        const exg_step *step = &plan->steps[s];
        bool looks_up =
            step->host == &exg_kernel_embedding || step->host == &exg_kernel_index_select;

        for (uint32_t i = 0; i < exg_step_operands(step); i++) {
            if (step->inputs[i].buffer != EXG_NO_BUFFER) {
                add_view(&rows[step->inputs[i].buffer], &step->inputs[i], looks_up && i == 0);
            }
        }
    }
    return rows;
}

#define GAP_BYTES 8192 /* between runs: fewer are read too */

void exg_page_rows_expect(const exg_page_rows *rows, exg_weights *weights, uint32_t storage)
{
    bool apart = !rows->is_irregular && rows->rows > 1 && rows->pitch > rows->run + GAP_BYTES;

    if (rows->end == 0) {
        return;
    }
    exg_storage_read_apart(weights, storage);
    for (uint64_t r = 0; rows->is_read && r < (apart ? rows->rows : 1); r++) {
        uint64_t first = rows->first + r * rows->pitch;

        exg_storage_read_ahead(weights, storage, first, apart ? first + rows->run : rows->end);
    }
}
