/* size_fit.c - the expression that has the right number in every sample. */
#include "libexport/transform/size_fit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Expressions that pairs are made of: the shortest, or there are too many. */
#define PAIRED_MAX  64
#define DIVISOR_MAX 64

void exg_size_fit_begin(exg_size_fit *fit, exg_arena *arena, const exg_symbols *samples,
                        uint32_t count)
{
    *fit = (exg_size_fit){.arena = arena, .samples = samples, .sample_count = count};
    exg_expressions_init(&fit->expressions, arena);
    exg_map_init(&fit->texts, arena);
}

exg_status exg_size_fit_add(void *user, const char *text, exg_error *err)
{
    exg_size_fit *fit = user;
    exg_known_size size = {.length = strlen(text)};
    const exg_expression *expression;
    exg_status status = EXG_OK;
    exg_error unread;
    uint32_t at;

    if (exg_map_find(&fit->texts, text) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    text = exg_arena_strndup(fit->arena, text, size.length); /* it may outlive the program's */
    if (text == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    size.text = text;
    status = exg_expressions_find(&fit->expressions, text, &expression, &unread);
    for (uint32_t k = 0; status == EXG_OK && k < fit->sample_count; k++) {
        status =
            exg_expression_evaluate_int(expression, &fit->samples[k], &size.values[k], &unread);
    }
    if (!exg_map_put(&fit->texts, text, fit->known_count) || status == EXG_NO_MEMORY ||
        !exg_arena_reserve(fit->arena, &fit->known, fit->known_count, &fit->known_capacity,
                           sizeof(*fit->known))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (status != EXG_OK) {
        return EXG_OK;
    }
    for (at = fit->known_count++; at > 0 && fit->known[at - 1].length > size.length; at--) {
        fit->known[at] = fit->known[at - 1];
    }
    fit->known[at] = size;
    return EXG_OK;
}

exg_status exg_graph_visit_sizes(const exg_graph *graph,
                                 exg_status (*visit)(void *user, const char *text, exg_error *err),
                                 void *user, exg_error *err)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const exg_tensor_meta *meta = graph->values[v].tensor;

        if (graph->values[v].sym_int != NULL && graph->values[v].sym_int->expr != NULL) {
            EXG_TRY(visit(user, graph->values[v].sym_int->expr, err));
        }
        if (meta != NULL && meta->storage_offset.expr != NULL) {
            EXG_TRY(visit(user, meta->storage_offset.expr, err));
        }
        for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
            EXG_TRY(meta->sizes[d].expr == NULL ? EXG_OK : visit(user, meta->sizes[d].expr, err));
            EXG_TRY(meta->strides[d].expr == NULL ? EXG_OK
                                                  : visit(user, meta->strides[d].expr, err));
        }
    }
    return EXG_OK;
}

exg_status exg_graph_visit_reals(const exg_graph *graph,
                                 exg_status (*visit)(void *user, const char *text, exg_error *err),
                                 void *user, exg_error *err)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const exg_sym_float *real = graph->values[v].sym_float;

        EXG_TRY(real == NULL || real->expr == NULL ? EXG_OK : visit(user, real->expr, err));
    }
    return EXG_OK;
}

/* ---- one expression and a number ------------------------------------------------------------ */

/* What is wanted, and what is tried for it. */
typedef struct search {
    const exg_size_fit *fit;
    const int64_t *wanted;
} search;

static bool equals(const search *s, const int64_t *values)
{
    return memcmp(s->wanted, values, s->fit->sample_count * sizeof(*values)) == 0;
}

/* wanted = *factor * values? */
static bool is_multiple(const search *s, const int64_t *values, int64_t *factor)
{
    bool same = values[0] != 0 && s->wanted[0] % values[0] == 0;

    *factor = same ? s->wanted[0] / values[0] : 0;
    for (uint32_t k = 0; same && k < s->fit->sample_count; k++) {
        int64_t product;

        same = !__builtin_mul_overflow(*factor, values[k], &product) && product == s->wanted[k];
    }
    return same && *factor != 0;
}

/* wanted = values + *addend? */
static bool is_moved(const search *s, const int64_t *values, int64_t *addend)
{
    bool same = !__builtin_sub_overflow(s->wanted[0], values[0], addend);

    for (uint32_t k = 0; same && k < s->fit->sample_count; k++) {
        int64_t sum;

        same = !__builtin_add_overflow(*addend, values[k], &sum) && sum == s->wanted[k];
    }
    return same;
}

/* wanted = values // *divisor? */
static bool is_part(const search *s, const int64_t *values, int64_t *divisor)
{
    for (*divisor = 2; *divisor <= DIVISOR_MAX; (*divisor)++) {
        bool same = true;

        for (uint32_t k = 0; same && k < s->fit->sample_count; k++) {
            same = values[k] >= 0 && values[k] / *divisor == s->wanted[k];
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static const char *from_one(const search *s, const exg_known_size *size)
{
    exg_arena *arena = s->fit->arena;
    int64_t number;

    if (is_multiple(s, size->values, &number)) {
        return exg_arena_printf(arena, "Mul(Integer(%" PRId64 "), %s)", number, size->text);
    }
    if (is_moved(s, size->values, &number)) {
        return exg_arena_printf(arena, "Add(Integer(%" PRId64 "), %s)", number, size->text);
    }
    if (is_part(s, size->values, &number)) {
        return exg_arena_printf(arena, "FloorDiv(%s, Integer(%" PRId64 "))", size->text, number);
    }
    return NULL;
}

/* ---- two expressions and numbers ------------------------------------------------------------- */

#define TERMS_MAX 4

/* What a number is a sum of: 1, a, b and a * b of two expressions, or 1, a and a * a of one. */
typedef struct terms {
    const exg_known_size *a, *b;
    uint32_t count;
} terms;

/* Is the term a product? */
static bool is_product(const terms *t, uint32_t term)
{
    return term == 3 || (term == 2 && t->a == t->b);
}

/* The term's value in a sample; false: it leaves 64 bits. */
static bool term_of(const terms *t, uint32_t term, uint32_t sample, int64_t *value)
{
    int64_t a = t->a->values[sample];
    int64_t b = t->b->values[sample];

    *value = term == 0 ? 1 : term == 1 ? a : b;
    return !is_product(t, term) || !__builtin_mul_overflow(a, b, value);
}

/* Takes from the other rows what makes the term's column nothing in them; false: the terms before
 * say as much as it does. */
static bool eliminate(double rows[EXG_DRAWN_MAX][TERMS_MAX + 1], uint32_t row_count, uint32_t done,
                      uint32_t term)
{
    uint32_t best = done;

    for (uint32_t k = done; k < row_count; k++) {
        best = fabs(rows[k][term]) > fabs(rows[best][term]) ? k : best;
    }
    if (done == row_count || fabs(rows[best][term]) < 1e-6) {
        return false;
    }
    for (uint32_t c = 0; c <= TERMS_MAX; c++) {
        double held = rows[done][c];

        rows[done][c] = rows[best][c];
        rows[best][c] = held;
    }
    for (uint32_t k = 0; k < row_count; k++) {
        double factor = k == done ? 0 : rows[k][term] / rows[done][term];

        for (uint32_t c = 0; c <= TERMS_MAX; c++) {
            rows[k][c] -= factor * rows[done][c];
        }
    }
    return true;
}

/* The coefficients of the samples that were drawn, rounded; of a term that others say, nothing. */
static bool solve(const search *s, const terms *t, int64_t *coefficients)
{
    double rows[EXG_DRAWN_MAX][TERMS_MAX + 1] = {{0}};
    uint32_t row_of[TERMS_MAX];
    uint32_t done = 0;
    uint32_t row_count =
        s->fit->sample_count < EXG_DRAWN_MAX ? s->fit->sample_count : EXG_DRAWN_MAX;

    for (uint32_t k = 0; k < row_count; k++) {
        for (uint32_t term = 0; term < t->count; term++) {
            int64_t value;

            if (!term_of(t, term, k, &value)) {
                return false;
            }
            rows[k][term] = (double)value;
        }
        rows[k][TERMS_MAX] = (double)s->wanted[k];
    }
    for (uint32_t term = 0; term < t->count; term++) {
        row_of[term] = eliminate(rows, row_count, done, term) ? done++ : UINT32_MAX;
    }
    for (uint32_t term = 0; term < t->count; term++) {
        const double *row = row_of[term] == UINT32_MAX ? NULL : rows[row_of[term]];
        double value = row == NULL ? 0 : row[TERMS_MAX] / row[term];

        if (!(fabs(value) < 0x1p53)) {
            return false;
        }
        coefficients[term] = llround(value);
    }
    return true;
}

/* Is it the wanted number in every sample, in whole numbers? */
static bool holds(const search *s, const terms *t, const int64_t *coefficients)
{
    for (uint32_t k = 0; k < s->fit->sample_count; k++) {
        int64_t sum = 0;

        for (uint32_t term = 0; term < t->count; term++) {
            int64_t value;

            if (!term_of(t, term, k, &value) ||
                __builtin_mul_overflow(value, coefficients[term], &value) ||
                __builtin_add_overflow(sum, value, &sum)) {
                return false;
            }
        }
        if (sum != s->wanted[k]) {
            return false;
        }
    }
    return true;
}

/* The terms with whatever whole numbers make them right. */
static const char *from_two(const search *s, const exg_known_size *a, const exg_known_size *b)
{
    terms t = {a, b, a == b ? 3 : 4};
    int64_t coefficients[TERMS_MAX];
    exg_text text = EXG_TEXT_EMPTY;
    const char *written;

    if (s->fit->sample_count <= t.count || !solve(s, &t, coefficients) ||
        !holds(s, &t, coefficients)) {
        return NULL;
    }
    exg_text_printf(&text, "Add(Integer(%" PRId64 ")", coefficients[0]);
    for (uint32_t term = 1; term < t.count; term++) {
        bool both = is_product(&t, term);

        if (coefficients[term] != 0) {
            exg_text_printf(&text, ", Mul(Integer(%" PRId64 "), %s%s%s)", coefficients[term],
                            both || term == 1 ? a->text : b->text, both ? ", " : "",
                            both ? b->text : "");
        }
    }
    exg_text_putc(&text, ')');
    written = exg_arena_strdup(s->fit->arena, exg_text_string(&text));
    exg_text_free(&text);
    return written;
}

static const char *search_all(const search *s)
{
    const exg_size_fit *fit = s->fit;
    uint32_t paired = fit->known_count < PAIRED_MAX ? fit->known_count : PAIRED_MAX;
    const char *text = NULL;

    for (uint32_t i = 0; i < fit->known_count; i++) {
        if (equals(s, fit->known[i].values)) {
            return fit->known[i].text;
        }
    }
    for (uint32_t i = 0; text == NULL && i < fit->known_count; i++) {
        text = from_one(s, &fit->known[i]);
    }
    for (uint32_t i = 0; i < paired; i++) {
        for (uint32_t j = 0; text == NULL && j <= i; j++) {
            text = from_two(s, &fit->known[i], &fit->known[j]);
        }
    }
    return text;
}

exg_status exg_size_fit_find(exg_size_fit *fit, const int64_t *values, const char **text,
                             exg_error *err)
{
    search s = {fit, values};

    for (uint32_t i = 0; i < fit->found_count; i++) {
        if (equals(&s, fit->found[i].values)) {
            *text = fit->found[i].text;
            return EXG_OK;
        }
    }
    *text = search_all(&s);
    return exg_size_fit_note(fit, values, *text, err);
}

exg_status exg_size_fit_note(exg_size_fit *fit, const int64_t *values, const char *text,
                             exg_error *err)
{
    search s = {fit, values};

    for (uint32_t i = 0; i < fit->found_count; i++) {
        if (equals(&s, fit->found[i].values)) {
            fit->found[i].text = text;
            return EXG_OK;
        }
    }
    if (!exg_arena_reserve(fit->arena, &fit->found, fit->found_count, &fit->found_capacity,
                           sizeof(*fit->found))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    fit->found[fit->found_count].text = text;
    memcpy(fit->found[fit->found_count++].values, values, fit->sample_count * sizeof(*values));
    return EXG_OK;
}

/* ---- numbers with a point ------------------------------------------------------------------- */

exg_status exg_size_fit_add_real(void *user, const char *text, exg_error *err)
{
    exg_size_fit *fit = user;
    exg_known_real real = {.text = exg_arena_strdup(fit->arena, text)};
    exg_status status = EXG_OK;
    exg_error unread;

    for (uint32_t k = 0; status == EXG_OK && k < fit->sample_count; k++) {
        status = exg_symfloat_evaluate(text, &fit->samples[k], &real.values[k], &unread);
    }
    if (real.text == NULL || status == EXG_NO_MEMORY ||
        !exg_arena_reserve(fit->arena, &fit->reals, fit->real_count, &fit->real_capacity,
                           sizeof(*fit->reals))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (status == EXG_OK) {
        fit->reals[fit->real_count++] = real;
    }
    return EXG_OK;
}

/* What numbers with a point are of a size n, and n from what they give. */
typedef enum real_form { PART, OVER_SIZE, UNBIASED, REAL_FORMS } real_form;

#define DENOMINATOR_MAX 64

static double of_size(real_form form, double n, double m)
{
    return form == PART ? n / m : form == OVER_SIZE ? m / n : n / (n - 1);
}

static double to_size(real_form form, double value, double m)
{
    return form == PART ? value * m : form == OVER_SIZE ? m / value : value / (value - 1);
}

static const char *write_real(exg_arena *arena, real_form form, const char *n, uint32_t m)
{
    return form == PART && m == 1 ? exg_arena_printf(arena, "ToFloat(%s)", n)
           : form == PART         ? exg_arena_printf(arena, "IntTrueDiv(%s, Integer(%u))", n, m)
           : form == OVER_SIZE
               ? exg_arena_printf(arena, "IntTrueDiv(Integer(%u), %s)", m, n)
               : exg_arena_printf(arena, "IntTrueDiv(%s, Add(Integer(-1), %s))", n, n);
}

/* The size that the numbers are of; NULL: none was found. */
static exg_status find_size(exg_size_fit *fit, const double *values, real_form form, uint32_t m,
                            const char **text, exg_error *err)
{
    int64_t sizes[EXG_SAMPLES_MAX];
    bool fits = true;

    for (uint32_t k = 0; fits && k < fit->sample_count; k++) {
        double n = to_size(form, values[k], m);

        fits = isfinite(n) && fabs(n) < 0x1p53;
        sizes[k] = fits ? llround(n) : 0;
        fits = fits && of_size(form, (double)sizes[k], m) == values[k];
    }
    *text = NULL;
    return fits ? exg_size_fit_find(fit, sizes, text, err) : EXG_OK;
}

/* -0.0 is 0 to an expression. */
static bool are_equal(const double *a, const double *b, uint32_t count)
{
    bool equal = true;

    for (uint32_t k = 0; equal && k < count; k++) {
        equal = a[k] == b[k] || (isnan(a[k]) && isnan(b[k]));
    }
    return equal;
}

exg_status exg_size_fit_find_real(exg_size_fit *fit, const double *values, const char **text,
                                  exg_error *err)
{
    *text = NULL;
    for (uint32_t i = 0; i < fit->real_count; i++) {
        if (are_equal(values, fit->reals[i].values, fit->sample_count)) {
            *text = fit->reals[i].text;
            return EXG_OK;
        }
    }
    for (uint32_t m = 1; m <= DENOMINATOR_MAX; m++) {
        for (real_form form = PART; form < (m == 1 ? REAL_FORMS : UNBIASED); form++) {
            EXG_TRY(find_size(fit, values, form, m, text, err));
            if (*text != NULL) {
                *text = write_real(fit->arena, form, *text, m);
                return *text == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
            }
        }
    }
    return EXG_OK;
}
