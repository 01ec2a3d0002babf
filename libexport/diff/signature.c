/* signature.c - inputs and outputs by what tells them apart, and the rest of a
 * program that is text: dialects, ranges of sizes, calling convention, guards. */
#include "libexport/diff/report.h"
#include "libexport/diff/side.h"
#include "libexport/program/print.h"

#include <exg/signature.h>
#include <inttypes.h>
#include <string.h>

static void found(exg_differ *d, exg_diff_room room, const char *where_a, const char *where_b,
                  const char *what)
{
    exg_difference difference = {.room = room,
                                 .kind = where_a == NULL   ? EXG_DIFF_ADDED
                                         : where_b == NULL ? EXG_DIFF_REMOVED
                                                           : EXG_DIFF_CHANGED,
                                 .where_a = where_a,
                                 .where_b = where_b,
                                 .what = what};

    exg_differ_found(d, &difference);
}

static void changed(exg_differ *d, exg_diff_room room, const char *where_a, const char *where_b,
                    const char *part, const char *from, const char *to)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s: %s -> %s", part, from, to);
    found(d, room, where_a, where_b, exg_differ_keep(d, &out));
}

/* ---- inputs and outputs ------------------------------------------------------------------ */

static const char *place(exg_differ *d, const char *list, uint32_t index, const char *name)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s[%u]%s%s", list, index, name == NULL || name[0] == '\0' ? "" : " ",
                    name == NULL ? "" : name);
    return exg_differ_keep(d, &out);
}

static const char *input_name(const exg_side *side, uint32_t index)
{
    const exg_argument *arg = &side->graph->inputs[index];

    return arg->kind == EXG_ARGUMENT_TENSOR ? side->graph->values[arg->as_tensor].name
                                            : side->signature->inputs[index].arg.name;
}

/* "PARAMETER f32[2, 3]", "USER_INPUT 5", "BUFFER i64[] not persistent" */
static const char *describe_input(exg_differ *d, const exg_side *side, uint32_t index,
                                  bool numbered)
{
    const exg_input_spec *spec = &side->signature->inputs[index];
    const exg_argument *arg = &side->graph->inputs[index];
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s ", exg_input_kind_name(spec->kind));
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        exg_text_puts(&out, exg_side_annotation(d, side, arg->as_tensor, numbered));
    } else if (arg->kind == EXG_ARGUMENT_SYM_INT && arg->as_sym.value != EXG_NO_VALUE) {
        exg_text_puts(&out, exg_side_annotation(d, side, arg->as_sym.value, numbered));
    } else {
        exg_print_argument(&out, side->graph, arg);
    }
    exg_text_puts(&out, spec->kind == EXG_INPUT_BUFFER && spec->persistent == EXG_FALSE
                            ? " not persistent"
                            : "");
    return exg_differ_keep(d, &out);
}

static void compare_input(exg_differ *d, const exg_side *a, uint32_t i, const exg_side *b,
                          uint32_t j)
{
    exg_diff_counts *counts = &d->diff->counts[EXG_DIFF_SIGNATURE];
    bool same = strcmp(describe_input(d, a, i, true), describe_input(d, b, j, true)) == 0;

    if (!same) {
        changed(d, EXG_DIFF_SIGNATURE, place(d, "inputs", i, input_name(a, i)),
                place(d, "inputs", j, input_name(b, j)), a->keys[i], describe_input(d, a, i, false),
                describe_input(d, b, j, false));
    }
    counts->same += same;
    counts->changed += !same;
}

static void compare_inputs(exg_differ *d, const exg_side *a, const exg_side *b)
{
    exg_diff_counts *counts = &d->diff->counts[EXG_DIFF_SIGNATURE];
    uint32_t count_b = b->graph->input_count;
    bool *seen = EXG_NEW_ARRAY(d->scratch, bool, count_b);
    exg_map map;

    exg_map_init(&map, d->scratch);
    d->failed = d->failed || seen == NULL;
    for (uint32_t j = 0; j < count_b && !d->failed; j++) {
        d->failed = !exg_map_put(&map, b->keys[j], j);
    }
    for (uint32_t i = 0; i < a->graph->input_count && !d->failed; i++) {
        uint32_t j = exg_map_find(&map, a->keys[i]);

        if (j != EXG_MAP_NONE) {
            seen[j] = true;
            compare_input(d, a, i, b, j);
        } else {
            found(d, EXG_DIFF_SIGNATURE, place(d, "inputs", i, input_name(a, i)), NULL,
                  describe_input(d, a, i, false));
            counts->removed++;
        }
    }
    for (uint32_t j = 0; j < count_b && !d->failed; j++) {
        if (!seen[j]) {
            found(d, EXG_DIFF_SIGNATURE, NULL, place(d, "inputs", j, input_name(b, j)),
                  describe_input(d, b, j, false));
            counts->added++;
        }
    }
}

static void compare_outputs(exg_differ *d, const exg_side *a, const exg_side *b)
{
    const exg_side *sides[2] = {a, b};
    exg_diff_counts *counts = &d->diff->counts[EXG_DIFF_SIGNATURE];
    exg_map maps[2];

    for (int s = 0; s < 2; s++) {
        exg_map_init(&maps[s], d->scratch);
        for (uint32_t i = 0; i < sides[s]->graph->output_count && !d->failed; i++) {
            const char *key = sides[s]->output_keys[i];

            d->failed = d->failed || !exg_map_put(&maps[s], key, i);
        }
    }
    for (int s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < sides[s]->graph->output_count && !d->failed; i++) {
            const char *key = sides[s]->output_keys[i];
            const char *at = place(d, "outputs", i, NULL);

            if (exg_map_find(&maps[1 - s], key) != EXG_MAP_NONE) {
                counts->same += s == 0;
                continue;
            }
            found(d, EXG_DIFF_SIGNATURE, s == 0 ? at : NULL, s == 0 ? NULL : at, key);
            *(s == 0 ? &counts->removed : &counts->added) += 1;
        }
    }
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void compare_text(exg_differ *d, const char *what, const char *a, const char *b)
{
    a = a == NULL ? "(none)" : a;
    b = b == NULL ? "(none)" : b;
    if (strcmp(a, b) != 0) {
        changed(d, EXG_DIFF_PROGRAM, "program", "program", what, a, b);
    }
}

static const char *joined(exg_differ *d, const char *const *items, uint32_t count)
{
    exg_text out = EXG_TEXT_EMPTY;

    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(&out, "%s%s", i > 0 ? ", " : "", items[i]);
    }
    return exg_differ_keep(d, &out);
}

static const exg_module_call *root_call(const exg_program *program)
{
    for (uint32_t i = 0; i < program->module_call_count; i++) {
        if (program->module_calls[i].fqn[0] == '\0' && program->module_calls[i].has_signature) {
            return &program->module_calls[i];
        }
    }
    return NULL;
}

static const char *range(exg_differ *d, const exg_range_constraint *r)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_puts(&out, "[");
    if (r->has_min) {
        exg_text_printf(&out, "%" PRId64, r->min_val);
    }
    exg_text_puts(&out, ", ");
    if (r->has_max) {
        exg_text_printf(&out, "%" PRId64, r->max_val);
    }
    exg_text_puts(&out, "]");
    return exg_differ_keep(d, &out);
}

/* Ranges of symbols that both graphs use at the same places. */
static void compare_ranges(exg_differ *d, const exg_side *a, const exg_side *b)
{
    exg_map map;

    exg_map_init(&map, d->scratch);
    for (uint32_t i = 0; i < d->a->range_constraint_count && !d->failed; i++) {
        const char *key = exg_symbols_numbered(d, a->symbols, d->a->range_constraints[i].symbol);

        d->failed = d->failed || !exg_map_put(&map, key, i);
    }
    for (uint32_t j = 0; j < d->b->range_constraint_count && !d->failed; j++) {
        const exg_range_constraint *y = &d->b->range_constraints[j];
        const char *key = exg_symbols_numbered(d, b->symbols, y->symbol);
        uint32_t i = exg_map_find(&map, key);
        const exg_range_constraint *x = i == EXG_MAP_NONE ? NULL : &d->a->range_constraints[i];

        if (x != NULL && strcmp(range(d, x), range(d, y)) != 0) {
            exg_text out = EXG_TEXT_EMPTY;

            exg_text_printf(&out, "range of %s", x->symbol);
            changed(d, EXG_DIFF_PROGRAM, x->symbol, y->symbol, exg_differ_keep(d, &out),
                    range(d, x), range(d, y));
        }
    }
}

/* "output 1: token", or NULL. */
static const char *token(exg_differ *d, const exg_signature *signature)
{
    exg_text out = EXG_TEXT_EMPTY;
    const char *name;
    uint32_t index;

    if (!exg_signature_assertion_dep_token(signature, &index, &name)) {
        return NULL;
    }
    exg_text_printf(&out, "output %" PRIu32 ": %s", index, name);
    return exg_differ_keep(d, &out);
}

void exg_diff_signatures(exg_differ *d, exg_side *a, exg_side *b)
{
    const exg_module_call *x = root_call(d->a);
    const exg_module_call *y = root_call(d->b);

    compare_text(d, "dialect", joined(d, d->a->verifiers, d->a->verifier_count),
                 joined(d, d->b->verifiers, d->b->verifier_count));
    if (x != NULL && y != NULL) {
        compare_text(d, "structure of the inputs", x->in_spec, y->in_spec);
        compare_text(d, "structure of the outputs", x->out_spec, y->out_spec);
    }
    compare_ranges(d, a, b);
    compare_text(d, "guards", joined(d, d->a->guards_code, d->a->guard_count),
                 joined(d, d->b->guards_code, d->b->guard_count));
    compare_text(d, "assertion_dep_token", token(d, a->signature), token(d, b->signature));
    compare_inputs(d, a, b);
    compare_outputs(d, a, b);
}
