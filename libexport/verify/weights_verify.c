/* weights_verify.c - weights without a program: whether they are what somebody needs of them. */
#include "libexport/base/options.h"
#include "libexport/base/pool.h"
#include "libexport/base/require.h"
#include "libexport/verify/verifier.h"
#include "libexport/weights/merkle.h"
#include "libexport/weights/storage.h"

#include <exg/formats.h>
#include <inttypes.h>
#include <string.h>

/* ---- what they are for --------------------------------------------------------------------- */

static exg_status check_fit(exg_verifier *v, exg_weights *weights, exg_weights *needed,
                            exg_error *err)
{
    exg_mismatches mismatches = {0};
    exg_weights *inner = NULL;
    exg_weights *made = NULL;
    exg_status status = EXG_OK;

    if (exg_weights_has_subclasses(needed)) {
        status = exg_weights_unwrap(needed, &inner, err);
    }
    if (status == EXG_OK) {
        status = exg_weights_fill(inner == NULL ? needed : inner, weights, false, &made,
                                  &mismatches, err);
    }
    for (uint32_t i = 0; i < mismatches.count; i++) {
        const exg_mismatch *m = &mismatches.items[i];

        exg_found(v, exg_mismatch_is_fault(m->kind) ? "WGT-017" : "WGT-018",
                  EXG_AT_KEY(NULL, "weights", m->name), "it %s%s%s", exg_mismatch_text(m->kind),
                  m->detail[0] == '\0' ? "" : ": ", m->detail);
    }
    exg_mismatches_free(&mismatches);
    exg_weights_release(made);
    exg_weights_release(inner);
    if (status == EXG_MISMATCH) {
        exg_error_clear(err);
        return EXG_OK;
    }
    return status;
}

/* ---- what they are ----------------------------------------------------------------------------
 */

static void check_skipped(exg_verifier *v, const exg_weights *weights)
{
    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        exg_found(v, "WGT-019", EXG_AT_KEY(NULL, "skipped", weights->skipped[i].name),
                  "it is %s, which is not read", weights->skipped[i].kind);
    }
}

/* How many tensors of each floating-point dtype; the first dtype is the most frequent. */
static void check_dtypes(exg_verifier *v, const exg_weights *weights)
{
    uint32_t counts[EXG_DTYPE_COUNT] = {0};
    exg_text text = EXG_TEXT_EMPTY;
    uint32_t kinds = 0;

    for (uint32_t i = 0; i < weights->count; i++) {
        if (exg_weight_is_of_floats(&weights->items[i])) {
            kinds += counts[weights->items[i].meta->dtype]++ == 0;
        }
    }
    for (int d = 0; kinds > 1 && d < EXG_DTYPE_COUNT; d++) {
        if (counts[d] > 0) {
            exg_text_printf(&text, "%s%" PRIu32 " %s %s", text.length == 0 ? "" : ", ", counts[d],
                            counts[d] == 1 ? "is" : "are", exg_dtype_name((exg_dtype)d));
        }
    }
    if (kinds > 1 && exg_text_string(&text) != NULL) {
        exg_found(v, "WGT-023", EXG_AT(NULL, "weights"), "of the tensors %s", text.data);
    }
    exg_text_free(&text);
}

static exg_status check_digest(exg_verifier *v, exg_weights *weights,
                               const exg_weights_verify_options *options, exg_error *err)
{
    char found[EXG_DIGEST_TEXT_MAX];
    exg_checksum_kind kind;
    exg_merkle_hash wanted;
    exg_merkle_hash got;

    if (!exg_merkle_parse(options->digest, &kind, &wanted)) {
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "WGT-DIGEST", "'%s' is no digest", options->digest),
            "exg digest FILE prints one");
    }
    EXG_TRY(exg_weights_digest(weights, kind, options->threads, found, err));
    if (!exg_merkle_get(kind, found, &got) || !exg_merkle_equal(&got, &wanted)) {
        exg_found(v, "WGT-024", EXG_AT(NULL, "weights"), "it is %s:%s", exg_merkle_kind_name(kind),
                  found);
    }
    return EXG_OK;
}

/* ---- elements ---------------------------------------------------------------------------------
 */

/* What is read of each tensor, on all cores; told afterwards, in order. */
typedef struct measured {
    exg_weights *weights;
    exg_weight_statistics *statistics;
    exg_status *statuses;
} measured;

static void measure_one(void *context, uint32_t block)
{
    measured *m = context;

    if (exg_weight_is_of_floats(&m->weights->items[block])) {
        m->statuses[block] =
            exg_weight_measure(m->weights, &m->weights->items[block], &m->statistics[block], NULL);
    }
}

static void tell(exg_verifier *v, const exg_weight *weight, const exg_weight_statistics *s)
{
    const exg_model_path *path = EXG_AT_KEY(NULL, "weights", weight->fqn);

    if (s->nan + s->infinite > 0) {
        exg_found(v, "WGT-020", path,
                  "of %" PRIu64 " elements %" PRIu64 " are NaN and %" PRIu64 " infinite", s->count,
                  s->nan, s->infinite);
    }
    if (s->count > 0 && s->zero == s->count) {
        exg_found(v, "WGT-021", path, "all %" PRIu64 " elements are 0", s->count);
    }
    if (s->denormal > s->count / 100) {
        exg_found(v, "WGT-022", path, "of %" PRIu64 " elements %" PRIu64 " are denormal", s->count,
                  s->denormal);
    }
}

static exg_status check_values(exg_verifier *v, exg_weights *weights, uint32_t threads,
                               exg_error *err)
{
    exg_arena *arena = v->found->arena;
    measured m = {weights, EXG_NEW_ARRAY(arena, exg_weight_statistics, weights->count),
                  EXG_NEW_ARRAY(arena, exg_status, weights->count)};
    exg_pool *pool = NULL;
    exg_status status = m.statistics == NULL || m.statuses == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : exg_pool_create(threads, &pool, err);

    if (status == EXG_OK) {
        exg_pool_run(pool, measure_one, &m, weights->count);
    }
    exg_pool_destroy(pool);
    for (uint32_t i = 0; status == EXG_OK && i < weights->count; i++) {
        if (m.statuses[i] != EXG_OK) { /* once more, for what it says */
            status = exg_weight_measure(weights, &weights->items[i], &m.statistics[i], err);
        }
        if (status == EXG_OK && exg_weight_is_of_floats(&weights->items[i])) {
            tell(v, &weights->items[i], &m.statistics[i]);
        }
    }
    return status;
}

exg_status exg_verify_values(const exg_program *program, exg_diagnostics *diagnostics,
                             uint32_t threads, exg_error *err)
{
    EXG_REQUIRE(err, program, diagnostics);
    exg_verifier v = {.program = program,
                      .found = diagnostics,
                      .capacity = diagnostics->count,
                      .tells_all = true};

    EXG_TRY(check_values(&v, program->weights, threads, err));
    return v.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* ---- all --------------------------------------------------------------------------------------
 */

static exg_status check(exg_verifier *v, exg_weights *weights,
                        const exg_weights_verify_options *options, exg_error *err)
{
    exg_status there;

    check_skipped(v, weights);
    check_dtypes(v, weights);
    there = exg_verify_besides(v, weights, err);
    if (there == EXG_MALFORMED) { /* they are told among all faults; nothing can be read */
        exg_error_clear(err);
        return EXG_OK;
    }
    EXG_TRY(there);
    if (options->needed != NULL) {
        EXG_TRY(check_fit(v, weights, options->needed, err));
    }
    if (options->digest != NULL) {
        EXG_TRY(check_digest(v, weights, options, err));
    }
    return options->values ? check_values(v, weights, options->threads, err) : EXG_OK;
}

exg_status exg_weights_verify(exg_weights *weights, const exg_weights_verify_options *given,
                              exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_REQUIRE(err, weights, diagnostics);
    exg_weights_verify_options options = {0};
    exg_verifier v = {.found = diagnostics, .tells_all = true};
    exg_status status;

    *diagnostics = (exg_diagnostics){0};
    EXG_TRY(EXG_READ_OPTIONS(exg_weights_verify_options, &options, given, err));
    diagnostics->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status =
        diagnostics->arena == NULL ? EXG_OUT_OF_MEMORY(err) : check(&v, weights, &options, err);
    if (status == EXG_OK && v.failed) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < diagnostics->count; i++) {
        const exg_diagnostic *d = &diagnostics->items[i];

        if (d->severity == EXG_SEVERITY_ERROR) {
            status = EXG_FAIL(err, MALFORMED, d->code, "%s", d->message);
            status =
                exg_error_within(err, exg_error_fix(err, status, "%s", d->fix), "%s", d->where);
        }
    }
    return status;
}
