/* print.c - a plan as text, a line a step. */
#include "libexec/plan/plan_internal.h"
#include "libexport/base/require.h"

#include <exg/text.h>
#include <inttypes.h>

static void print_shape(exg_text *text, const exg_tensor *t)
{
    if (exg_tensor_is_absent(t)) {
        exg_text_puts(text, "-");
        return;
    }
    exg_text_printf(text, "%s[", exg_dtype_short_name(t->dtype));
    for (uint32_t d = 0; d < t->rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", t->sizes[d]);
    }
    exg_text_puts(text, "]");
}

static void print_location(exg_text *text, const exg_plan *plan, const exg_location *location)
{
    print_shape(text, &location->view);
    if (location->buffer == EXG_NO_BUFFER) {
        return;
    }
    const exg_buffer *buffer = &plan->buffers[location->buffer];

    if (buffer->kind == EXG_BUFFER_CONSTANT) {
        exg_text_printf(text, "@constant %u", buffer->index);
    } else if (buffer->kind == EXG_BUFFER_ARENA) {
        exg_text_printf(text, "@%" PRIu64, buffer->offset);
    } else if (buffer->kind == EXG_BUFFER_OUTPUT) {
        exg_text_printf(text, "@output %u", buffer->index);
    } else {
        exg_text_puts(text, "@");
        exg_text_plain(text, plan->inputs[buffer->index].name, false);
    }
    if (location->offset != 0) {
        exg_text_printf(text, "+%" PRId64, location->offset);
    }
    if (!exg_tensor_is_contiguous(&location->view)) {
        exg_text_puts(text, "(");
        for (uint32_t d = 0; d < location->view.rank; d++) {
            exg_text_printf(text, "%s%" PRId64, d > 0 ? " " : "", location->view.strides[d]);
        }
        exg_text_puts(text, ")");
    }
}

static void print_step(exg_text *text, const exg_plan *plan, uint32_t index)
{
    const exg_step *step = &plan->steps[index];
    size_t start;

    exg_text_printf(text, "%4u  %-14s ", index, step->kernel->name);
    start = text->length;
    exg_text_plain(text, step->name, false);
    exg_text_printf(text, "%*s", (int)(text->length - start < 24 ? 24 - (text->length - start) : 0),
                    "");
    for (uint32_t i = 0; i < step->call.output_count; i++) {
        exg_text_puts(text, i > 0 ? ", " : " ");
        print_location(text, plan, &step->outputs[i]);
    }
    exg_text_puts(text, " <-");
    for (uint32_t i = 0; i < exg_step_operands(step); i++) {
        exg_text_puts(text, i > 0 ? ", " : " ");
        print_location(text, plan, &step->inputs[i]);
    }
    if (step->fused > 1) {
        exg_text_printf(text, "  (%u fused)", step->fused);
    }
    exg_text_puts(text, step->on_host ? "  (host)" : "");
    exg_text_puts(text, step->is_folded ? "  (once)\n" : "\n");
}

exg_status exg_plan_print(const exg_plan *plan, char **out, exg_error *err)
{
    EXG_REQUIRE(err, plan, out);
    exg_text text = EXG_TEXT_EMPTY;
    const exg_plan_summary *s = &plan->summary;

    exg_text_printf(&text,
                    "%u nodes: %u steps, %u views, %u fused, %u in place\n"
                    "arena %" PRIu64 " bytes (%" PRIu64 " without reuse), workspace %" PRIu64
                    ", weights %" PRIu64 ", made from them %" PRIu64 "\n",
                    s->node_count, s->step_count, s->view_count, s->fused_count, s->in_place_count,
                    s->arena_bytes, s->values_bytes, s->workspace_bytes, s->weight_bytes,
                    s->constant_bytes);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        print_step(&text, plan, i);
    }
    if (text.failed) {
        exg_text_free(&text);
        *out = NULL;
        return EXG_OUT_OF_MEMORY(err);
    }
    *out = text.data;
    return EXG_OK;
}
