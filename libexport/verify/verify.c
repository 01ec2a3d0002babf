/* verify.c - runs the rules, all of them. */
#include "libexport/base/require.h"
#include "libexport/verify/verifier.h"

#include <assert.h>
#include <exg/transform.h>
#include <string.h>

/* Dialects are an open set: extensions register theirs. */
static void check_dialects(exg_verifier *v)
{
    static const char *const known[] = {"TRAINING", "ATEN", "EDGE", ""};

    for (uint32_t i = 0; i < v->program->verifier_count; i++) {
        size_t k = 0;

        while (k < sizeof(known) / sizeof(known[0]) &&
               strcmp(known[k], v->program->verifiers[i]) != 0) {
            k++;
        }
        if (k == sizeof(known) / sizeof(known[0])) {
            exg_found(v, "DIA-001", EXG_AT_INDEX(NULL, "verifiers", i),
                      "the dialect '%s' is not known", v->program->verifiers[i]);
        }
    }
}

/* Does the program run with what is inside of its tensor subclasses? */
static void take_apart(exg_verifier *v)
{
    exg_program *unwrapped = NULL;
    exg_verified verified;
    exg_status status;

    exg_error_clear(&v->whole);
    if (!v->graphs_sound || !exg_program_has_subclasses(v->program)) {
        return;
    }
    status = exg_program_unwrap(v->program, &unwrapped, &v->whole);
    if (status == EXG_OK) {
        status = exg_verify(unwrapped, v->operators, &verified, NULL, &v->whole);
    }
    exg_program_destroy(unwrapped);
    v->comes_apart = status == EXG_OK;
    v->failed = v->failed || status == EXG_NO_MEMORY;
}

/* Every room runs, whatever the earlier ones found: a fault hides no other. A rule passes over
 * what it cannot trust, so that what follows from one fault alone is not told as another. */
static void run_rules(exg_verifier *v)
{
    const exg_model_path *graph = EXG_AT(NULL, "graph");

    check_dialects(v);
    exg_verify_symbols(v);
    exg_verify_graph(v, v->program->graph, NULL, graph);
    v->graphs_sound = v->found->error_count == 0;
    take_apart(v);
    exg_verify_weights(v);
    exg_verify_signature(v);
    if (v->failed) {
        return;
    }
    exg_verify_calls(v);
    exg_verify_bindings(v);
    exg_verify_nodes(v, v->program->graph, graph);
    if (v->tells_all && !v->failed) {
        exg_verify_archive(v);
        exg_verify_metadata(v, v->program->graph, graph);
        exg_verify_uses(v, v->program->graph, graph);
    }
}

static exg_status first_error(const exg_diagnostics *found, exg_error *err)
{
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        if (d->severity == EXG_SEVERITY_ERROR) {
            exg_status status =
                EXG_FAIL(err, MALFORMED, d->code, "%s%s", d->message,
                         found->error_count > 1 ? " (the first of several faults)" : "");

            (void)exg_error_fix(err, status, "%s", d->fix);
            if (d->source_line > 0) {
                (void)exg_error_source(err, status, "%s:%u: %s", d->source_file, d->source_line,
                                       d->source_text);
            }
            return exg_error_within(err, status, "%s", d->where);
        }
    }
    return EXG_FAIL(err, MALFORMED, "VAL-001", "%u faults", found->error_count);
}

exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                      exg_verified *verified, exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_REQUIRE(err, program, operators, verified);
    exg_diagnostics own = {0};
    exg_diagnostics *found = diagnostics == NULL ? &own : diagnostics;
    exg_verifier v = {.program = program,
                      .operators = operators,
                      .found = found,
                      .functional_dialect = !exg_program_has_dialect(program, "TRAINING"),
                      .edge_dialect = exg_program_has_dialect(program, "EDGE"),
                      .tells_all = diagnostics != NULL};
    exg_status status = EXG_OK;

    memset(found, 0, sizeof(*found));
    *verified = (exg_verified){0};
    found->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    v.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    v.scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (found->arena == NULL || v.arena == NULL || v.scratch == NULL) {
        exg_arena_destroy(v.arena);
        exg_arena_destroy(v.scratch);
        exg_diagnostics_free(found);
        return EXG_OUT_OF_MEMORY(err);
    }
    run_rules(&v);
    exg_arena_destroy(v.arena);
    exg_arena_destroy(v.scratch);
    if (v.failed) {
        status = EXG_OUT_OF_MEMORY(err);
    } else if (found->error_count > 0) {
        status = first_error(found, err);
    } else {
        *verified = (exg_verified){program, operators};
    }
    if (diagnostics == NULL) {
        exg_diagnostics_free(&own);
    }
    return status;
}
