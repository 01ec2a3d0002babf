/* log.c - what was called, decided and moved, as text. */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/text.h"
#include "libexport/base/arena.h"

#include <stdarg.h>
#include <stdio.h>

static void say(const exg_dispatcher *d, exg_dispatch_event event, exg_text *text)
{
    if (!text->failed) {
        d->options.log(d->options.log_user, event, exg_text_string(text));
    }
    exg_text_free(text);
}

void exg_log_note(exg_dispatcher *d, const char *format, ...)
{
    char line[400];
    va_list args;

    if (d->options.log != NULL) {
        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        d->options.log(d->options.log_user, EXG_EVENT_NOTE, line);
    }
}

/* Of the positional arguments, and after them by name. */
static void print_shapes(exg_text *text, const exg_call *call)
{
    const exg_function_schema *f = call->op->schema;
    const char *between = "";
    uint32_t given = 0;

    for (uint32_t i = 0; i < f->argument_count; i++) {
        given = call->at[i] != NULL && !f->arguments[i].keyword_only ? i + 1 : given;
    }
    exg_text_putc(text, '(');
    for (uint32_t i = 0; i < f->argument_count; i++) {
        if (i < given || call->at[i] != NULL) {
            exg_text_puts(text, between);
            between = ", ";
            exg_text_printf(text, "%s%s", i < given ? "" : f->arguments[i].name,
                            i < given ? "" : "=");
            if (call->at[i] == NULL) {
                exg_text_puts(text, "None");
            } else {
                exg_print_local_shapes(text, call->at[i]);
            }
        }
    }
    exg_text_putc(text, ')');
}

void exg_log_call(const exg_call *call)
{
    exg_arena *arena;
    exg_op_schema schema;
    exg_text text = EXG_TEXT_EMPTY;

    if (call->d->options.log == NULL) {
        return;
    }
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (arena != NULL && exg_call_schema(call, &schema, arena) == EXG_OK) {
        exg_text_printf(&text, "%s(", call->op_entry->key);
        exg_print_op_schema(&text, &schema);
        exg_text_putc(&text, ')');
        say(call->d, EXG_EVENT_CALL, &text);
        text = EXG_TEXT_EMPTY;
        exg_text_puts(&text, "    local shapes: ");
        print_shapes(&text, call);
        say(call->d, EXG_EVENT_LOCAL_SHAPES, &text);
    }
    exg_arena_destroy(arena);
}

static void log_moves(const exg_call *call, const exg_entry *entry)
{
    for (uint32_t i = 0; i < entry->operand_count; i++) {
        const exg_entry_operand *o = &entry->operands[i];
        exg_text text = EXG_TEXT_EMPTY;

        if (o->is_tensor && o->moves) {
            exg_text_printf(&text, "    move operand %u: ", i);
            exg_print_placements(&text, o->from, exg_device_mesh_ndim(call->mesh));
            exg_text_puts(&text, " -> ");
            exg_print_placements(&text, o->to, exg_device_mesh_ndim(call->mesh));
            exg_text_printf(&text, ", %.0f bytes", o->bytes);
            say(call->d, EXG_EVENT_MOVE, &text);
        }
    }
}

void exg_log_decision(const exg_call *call, const exg_entry *entry, bool found)
{
    exg_text text = EXG_TEXT_EMPTY;
    uint32_t ndim = exg_device_mesh_ndim(call->mesh);
    const char *between = "";

    if (call->d->options.log == NULL) {
        return;
    }
    exg_text_printf(&text, "    %s: ", found ? "found" : "decided");
    if (entry->kind == EXG_ENTRY_GRAPH) {
        exg_text_printf(&text, "made of %u operators", entry->program->graph->node_count);
        say(call->d, EXG_EVENT_DECISION, &text);
        return;
    }
    for (uint32_t i = 0; i < entry->operand_count; i++) {
        if (entry->operands[i].is_tensor) {
            exg_text_puts(&text, between);
            exg_print_placements(&text, entry->operands[i].to, ndim);
            between = ", ";
        }
    }
    exg_text_puts(&text, " -> ");
    for (uint32_t r = 0; r < entry->result_count; r++) {
        exg_text_puts(&text, r > 0 ? ", " : "");
        if (entry->results[r].absent) {
            exg_text_puts(&text, "None");
        } else {
            exg_print_placements(&text, entry->results[r].spec.placements, ndim);
        }
    }
    if (entry->in_place) {
        exg_text_puts(&text, "in place");
    }
    say(call->d, EXG_EVENT_DECISION, &text);
    log_moves(call, entry);
}
