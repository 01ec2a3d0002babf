/* tensor.c - weights by name, value by value; what is left by content.
 *
 * Values stream in blocks where a weight lies dense in its storage; other views
 * are gathered whole.
 */
#include "libexport/base/element.h"
#include "libexport/diff/differ.h"
#include "libexport/diff/report.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BLOCK_BYTES (1u << 20)

/* A weight's packed bytes in host order, from the beginning, block by block. */
typedef struct stream {
    exg_weights *weights;
    const exg_weight *weight;
    uint8_t *block; /* BLOCK_BYTES, or all of a gathered weight */
    uint64_t bytes, at;
    uint64_t start; /* in the storage, when dense */
    bool dense;
} stream;

static uint64_t stored_bytes(const exg_weights *weights, const exg_weight *weight)
{
    uint64_t bytes = 0;
    exg_error err;

    if (weight->meta == NULL || weight->use_pickle) {
        return weights->storages[weight->storage].length;
    }
    return exg_tensor_meta_bytes(weight->meta, &bytes, &err) == EXG_OK ? bytes : 0;
}

/* Does the file hold the structure alone, as programs of fake tensors are saved? */
static bool has_no_data(const exg_weights *weights, const exg_weight *weight)
{
    return weight->meta != NULL && weights->storages[weight->storage].length == 0 &&
           stored_bytes(weights, weight) > 0;
}

static exg_status stream_open(stream *s, exg_weights *weights, const exg_weight *weight,
                              exg_error *err)
{
    bool raw = weight->meta == NULL || weight->use_pickle;

    *s = (stream){.weights = weights, .weight = weight, .bytes = stored_bytes(weights, weight)};
    s->dense = raw || exg_tensor_meta_is_packed(weight->meta);
    if (!raw) {
        s->start =
            (uint64_t)weight->meta->storage_offset.value * exg_dtype_bytes(weight->meta->dtype);
    }
    s->block = malloc(s->dense ? BLOCK_BYTES : s->bytes + 1);
    if (s->block == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return s->dense ? EXG_OK : exg_weight_read(weights, weight, s->block, s->bytes, err);
}

static void stream_close(stream *s)
{
    free(s->block);
    s->block = NULL;
}

/* The next bytes, at most BLOCK_BYTES; *length 0 at the end. */
static exg_status stream_next(stream *s, const uint8_t **data, uint64_t *length, exg_error *err)
{
    const exg_storage *storage = &s->weights->storages[s->weight->storage];
    uint64_t at = s->at;

    *length = s->bytes - at < BLOCK_BYTES ? s->bytes - at : BLOCK_BYTES;
    *data = s->dense ? s->block : s->block + at;
    s->at += *length;
    if (!s->dense || *length == 0) {
        return EXG_OK;
    }
    EXG_TRY_IN(
        err,
        exg_storage_read(s->weights, s->weight->storage, s->start + at, *length, s->block, err),
        "weights[\"%s\"]", s->weight->fqn);
    exg_storage_forget(s->weights, s->weight->storage,
                       (s->start + at) & ~(uint64_t)(BLOCK_BYTES - 1), s->start + at + *length);
    if (storage->byte_order == EXG_BIG_ENDIAN && s->weight->meta != NULL) {
        exg_bytes_swap(s->block, *length, s->weight->meta->dtype);
    }
    return EXG_OK;
}

/* ---- values ---------------------------------------------------------------------------- */

/* A float's place among the floats of its dtype. */
static int64_t ordinal(const uint8_t *at, uint32_t bytes)
{
    int64_t magnitude;
    uint64_t bits = 0;
    uint64_t sign = (uint64_t)1 << (bytes * 8 - 1);

    memcpy(&bits, at, bytes); /* little endian hosts alone */
    magnitude = (int64_t)(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

typedef struct scale {
    exg_dtype dtype; /* of a component: f32 for c64 */
    double rtol, atol;
} scale;

static exg_dtype component(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_C32    ? EXG_DTYPE_F16
           : dtype == EXG_DTYPE_C64  ? EXG_DTYPE_F32
           : dtype == EXG_DTYPE_C128 ? EXG_DTYPE_F64
                                     : dtype;
}

static void compare_element(const scale *s, const uint8_t *x, const uint8_t *y,
                            exg_value_difference *v)
{
    uint32_t bytes = exg_dtype_bytes(s->dtype);
    double a = exg_element_value(s->dtype, x);
    double b = exg_element_value(s->dtype, y);
    double difference = fabs(a - b);
    uint64_t steps;

    if (memcmp(x, y, bytes) == 0 || (isnan(a) && isnan(b)) ||
        (exg_dtype_is_float(s->dtype) && a == b) || difference <= s->atol + s->rtol * fabs(a)) {
        return;
    }
    v->differing++;
    v->max_abs = isnan(difference) || difference > v->max_abs ? difference : v->max_abs;
    difference = difference / fabs(a);
    v->max_rel = isnan(difference) || difference > v->max_rel ? difference : v->max_rel;
    if (exg_dtype_is_float(s->dtype) && bytes <= 8) {
        steps = (uint64_t)llabs(ordinal(x, bytes) - ordinal(y, bytes));
        v->max_ulp = steps > v->max_ulp ? steps : v->max_ulp;
    }
}

static void compare_block(const scale *s, const uint8_t *x, const uint8_t *y, uint64_t length,
                          exg_value_difference *v)
{
    uint32_t bytes = exg_dtype_bytes(s->dtype);

    v->total += length / bytes;
    if (memcmp(x, y, length) == 0) {
        return;
    }
    for (uint64_t i = 0; i + bytes <= length; i += bytes) {
        compare_element(s, x + i, y + i, v);
    }
}

/* Both of one dtype and number of elements. `same_bytes` says whether no bit differs. */
static exg_status compare_values(exg_differ *d, const exg_weight *a, const exg_weight *b,
                                 exg_value_difference *v, bool *same_bytes, exg_error *err)
{
    bool raw = a->meta == NULL || a->use_pickle;
    scale s = {raw ? EXG_DTYPE_U8 : component(a->meta->dtype), d->options->rtol, d->options->atol};
    stream x = {0};
    stream y = {0};
    exg_status status = stream_open(&x, d->a_weights, a, err);

    if (status == EXG_OK) {
        status = stream_open(&y, d->b_weights, b, err);
    }
    *same_bytes = true;
    while (status == EXG_OK) {
        const uint8_t *from;
        const uint8_t *to;
        uint64_t length;

        status = stream_next(&x, &from, &length, err);
        if (status == EXG_OK) {
            status = stream_next(&y, &to, &length, err);
        }
        if (status != EXG_OK || length == 0) {
            break;
        }
        *same_bytes = *same_bytes && memcmp(from, to, length) == 0;
        compare_block(&s, from, to, length, v);
        if (d->options->progress != NULL) {
            d->options->progress(d->options->user, x.at, x.bytes);
        }
    }
    stream_close(&x);
    stream_close(&y);
    return status;
}

/* ---- one name in both ------------------------------------------------------------------ */

static const char *shape_text(exg_differ *d, const exg_weight *weight)
{
    exg_text out = EXG_TEXT_EMPTY;

    if (weight->meta == NULL) {
        return "an object";
    }
    exg_text_printf(&out, "%s%s%s[", weight->encoding == NULL ? "" : weight->encoding,
                    weight->encoding == NULL ? "" : " in ",
                    exg_dtype_short_name(weight->meta->dtype));
    for (uint32_t i = 0; i < weight->meta->rank; i++) {
        exg_text_printf(&out, "%s%" PRId64, i > 0 ? ", " : "", weight->meta->sizes[i].value);
    }
    exg_text_putc(&out, ']');
    return exg_differ_keep(d, &out);
}

static void found_weight(exg_differ *d, exg_diff_kind kind, const exg_weight *a,
                         const exg_weight *b, const char *what, const exg_value_difference *v)
{
    exg_difference found = {.room = EXG_DIFF_TENSOR,
                            .kind = kind,
                            .where_a = a == NULL ? NULL : a->fqn,
                            .where_b = b == NULL ? NULL : b->fqn,
                            .what = what};
    exg_diff_counts *counts = &d->diff->counts[EXG_DIFF_TENSOR];

    if (v != NULL) {
        found.values = *v;
    }
    exg_differ_found(d, &found);
    *(kind == EXG_DIFF_REMOVED ? &counts->removed
      : kind == EXG_DIFF_ADDED ? &counts->added
                               : &counts->changed) += 1;
}

/* "f32[2, 3]" or "f32[2, 3] -> bf16[2, 3]", and how they differ. */
static const char *describe(exg_differ *d, const char *what, const exg_value_difference *v)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s, %" PRIu64 " of %" PRIu64 " values differ: ", what, v->differing,
                    v->total);
    exg_text_printf(&out, "max abs %.3g, max rel %.3g", v->max_abs, v->max_rel);
    if (v->max_ulp > 0) {
        exg_text_printf(&out, ", max %" PRIu64 " ULP", v->max_ulp);
    }
    if (!isnan(v->cosine)) {
        exg_text_printf(&out, ", cosine %.9g", v->cosine);
    }
    return exg_differ_keep(d, &out);
}

/* "a -> b" and what is said of them. */
static void found_pair(exg_differ *d, exg_diff_kind kind, const exg_weight *a, const exg_weight *b,
                       const char *what, const exg_value_difference *v)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s -> %s%s", shape_text(d, a), shape_text(d, b), what);
    if (v != NULL && v->differing > 0) {
        const char *pair = exg_differ_keep(d, &out);

        found_weight(d, kind, a, b, describe(d, pair, v), v);
        return;
    }
    found_weight(d, kind, a, b, exg_differ_keep(d, &out), v);
}

static bool same_encoding(const exg_weight *a, const exg_weight *b)
{
    return (a->encoding == NULL) == (b->encoding == NULL) &&
           (a->encoding == NULL || strcmp(a->encoding, b->encoding) == 0);
}

/* Floats of two dtypes in one shape. */
static bool may_be_cast(const exg_weight *a, const exg_weight *b)
{
    bool may = exg_weight_is_of_floats(a) && exg_weight_is_of_floats(b) &&
               a->meta->dtype != b->meta->dtype && a->meta->rank == b->meta->rank;

    for (uint32_t i = 0; may && i < a->meta->rank; i++) {
        may = a->meta->sizes[i].value == b->meta->sizes[i].value;
    }
    return may;
}

static exg_status compare_cast(exg_differ *d, const exg_weight *a, const exg_weight *b,
                               exg_error *err)
{
    exg_value_difference v = {0};

    EXG_TRY(exg_diff_cast(d, a, b, &v, err));
    if (v.differing == 0) {
        found_pair(d, EXG_DIFF_CAST, a, b, ", the values as a cast gives them", NULL);
        return EXG_OK;
    }
    EXG_TRY(exg_diff_cosine(d, a, b, &v, err));
    found_pair(d, EXG_DIFF_CHANGED, a, b, "", &v);
    return EXG_OK;
}

static exg_status compare_weight(exg_differ *d, const exg_weight *a, const exg_weight *b,
                                 exg_error *err)
{
    const char *shape_a = shape_text(d, a);
    const char *shape_b = shape_text(d, b);
    exg_value_difference v = {0};
    bool same_shape = strcmp(shape_a, shape_b) == 0;
    bool same_bytes;

    if (has_no_data(d->a_weights, a) || has_no_data(d->b_weights, b)) {
        const bool both = has_no_data(d->a_weights, a) && has_no_data(d->b_weights, b);

        if (both && same_shape) {
            d->diff->counts[EXG_DIFF_TENSOR].same++;
        } else {
            found_pair(d, EXG_DIFF_CHANGED, a, b, both ? "" : ", one of them without data", NULL);
        }
        return EXG_OK;
    }
    if (may_be_cast(a, b)) {
        return compare_cast(d, a, b, err);
    }
    if ((a->meta == NULL) != (b->meta == NULL) || a->use_pickle != b->use_pickle ||
        stored_bytes(d->a_weights, a) != stored_bytes(d->b_weights, b) ||
        (a->meta != NULL && a->meta->dtype != b->meta->dtype) || !same_encoding(a, b)) {
        found_pair(d, EXG_DIFF_CHANGED, a, b, "", NULL);
        return EXG_OK;
    }
    EXG_TRY(compare_values(d, a, b, &v, &same_bytes, err));
    if (v.differing > 0) {
        EXG_TRY(exg_diff_cosine(d, a, b, &v, err));
        found_weight(d, EXG_DIFF_CHANGED, a, b, describe(d, shape_a, &v), &v);
    } else if (!same_shape) {
        found_pair(d, EXG_DIFF_RESHAPED, a, b, ", the same values", NULL);
    } else if (!same_bytes && d->options->rtol == 0 && d->options->atol == 0) {
        found_weight(d, EXG_DIFF_CHANGED, a, b, "signs of zeros or bits of NaN alone", NULL);
    } else {
        d->diff->counts[EXG_DIFF_TENSOR].same++;
    }
    return EXG_OK;
}

/* ---- by content ------------------------------------------------------------------------- */

static exg_status hash_content(exg_differ *d, exg_weights *weights, const exg_weight *weight,
                               uint64_t *hash, exg_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    const char *shape = shape_text(d, weight);
    stream s = {0};
    exg_status status = state == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (status == EXG_OK) {
        XXH3_64bits_reset(state);
        XXH3_64bits_update(state, shape, strlen(shape));
        status = has_no_data(weights, weight) ? EXG_OK : stream_open(&s, weights, weight, err);
    }
    while (status == EXG_OK && s.weights != NULL) {
        const uint8_t *data;
        uint64_t length;

        status = stream_next(&s, &data, &length, err);
        if (status != EXG_OK || length == 0) {
            break;
        }
        XXH3_64bits_update(state, data, length);
    }
    *hash = state == NULL ? 0 : XXH3_64bits_digest(state);
    stream_close(&s);
    XXH3_freeState(state);
    return status;
}

/* Weights of `side` that are left, and their hashes. */
static exg_status hash_left(exg_differ *d, exg_weights *side, const bool *seen, uint32_t *index,
                            uint64_t *hashes, uint32_t *count, exg_error *err)
{
    *count = 0;
    for (uint32_t i = 0; i < side->count; i++) {
        if (!seen[i]) {
            index[*count] = i;
            EXG_TRY(hash_content(d, side, &side->items[i], &hashes[(*count)++], err));
        }
    }
    return EXG_OK;
}

static exg_status pair_left(exg_differ *d, const bool *seen_a, const bool *seen_b, exg_error *err)
{
    uint32_t total[2] = {d->a_weights->count, d->b_weights->count};
    uint32_t *index_a = EXG_NEW_ARRAY(d->scratch, uint32_t, total[0]);
    uint32_t *index_b = EXG_NEW_ARRAY(d->scratch, uint32_t, total[1]);
    uint32_t *partner = EXG_NEW_ARRAY(d->scratch, uint32_t, total[0]);
    uint64_t *hashes_a = EXG_NEW_ARRAY(d->scratch, uint64_t, total[0]);
    uint64_t *hashes_b = EXG_NEW_ARRAY(d->scratch, uint64_t, total[1]);
    bool *taken = EXG_NEW_ARRAY(d->scratch, bool, total[1]);
    uint32_t count_a;
    uint32_t count_b;

    if (index_a == NULL || index_b == NULL || partner == NULL || hashes_a == NULL ||
        hashes_b == NULL || taken == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(hash_left(d, d->a_weights, seen_a, index_a, hashes_a, &count_a, err));
    EXG_TRY(hash_left(d, d->b_weights, seen_b, index_b, hashes_b, &count_b, err));
    memset(partner, 0xff, total[0] * sizeof(*partner));
    exg_pair_equal(d, hashes_a, count_a, hashes_b, count_b, partner);
    for (uint32_t i = 0; i < count_a && !d->failed; i++) {
        const exg_weight *a = &d->a_weights->items[index_a[i]];
        uint32_t j = partner[i];

        if (j == EXG_NO_PARTNER) {
            found_weight(d, EXG_DIFF_REMOVED, a, NULL, shape_text(d, a), NULL);
            continue;
        }
        taken[j] = true;
        found_weight(d, EXG_DIFF_RENAMED, a, &d->b_weights->items[index_b[j]], shape_text(d, a),
                     NULL);
        d->failed = d->failed || !exg_map_put(&d->renamed, a->fqn, index_b[j]);
    }
    for (uint32_t j = 0; j < count_b && !d->failed; j++) {
        const exg_weight *b = &d->b_weights->items[index_b[j]];

        if (!taken[j]) {
            found_weight(d, EXG_DIFF_ADDED, NULL, b, shape_text(d, b), NULL);
        }
    }
    return EXG_OK;
}

static exg_weight_table table_of(const exg_differ *d, const exg_weight *weight)
{
    return d->by_name_alone ? EXG_TABLE_STATE : weight->table;
}

exg_status exg_diff_tensors(exg_differ *d, exg_error *err)
{
    const exg_weights *a = d->a_weights;
    const exg_weights *b = d->b_weights;
    bool *seen_a = EXG_NEW_ARRAY(d->scratch, bool, a->count);
    bool *seen_b = EXG_NEW_ARRAY(d->scratch, bool, b->count);
    exg_map names[2]; /* by table */

    exg_map_init(&names[EXG_TABLE_STATE], d->scratch);
    exg_map_init(&names[EXG_TABLE_CONSTANTS], d->scratch);
    if (seen_a == NULL || seen_b == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t j = 0; j < b->count; j++) {
        if (!exg_map_put(&names[table_of(d, &b->items[j])], b->items[j].fqn, j)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t j = exg_map_find(&names[table_of(d, &a->items[i])], a->items[i].fqn);

        if (j != EXG_MAP_NONE) {
            seen_a[i] = seen_b[j] = true;
            EXG_TRY(compare_weight(d, &a->items[i], &b->items[j], err));
        }
    }
    return pair_left(d, seen_a, seen_b, err);
}
