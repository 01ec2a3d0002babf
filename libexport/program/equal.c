/* equal.c - are two programs the same, and if not, where do they part?
 *
 * A difference is a MISMATCH that collects its path while unwinding, as faults do.
 * Values are compared by name: their ids may differ.
 */
#include "libexport/program/equal.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/program/model.h"

#include <exg/weights.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENCE_BYTES 256
#define BLOCK_BYTES      (1u << 20)

#define DIFFER(err, ...) EXG_FAIL(err, MISMATCH, "EQL", __VA_ARGS__)

/* What is compared, and where. */
typedef struct scope {
    const exg_program *program_a, *program_b; /* NULL: graphs alone */
    const exg_graph *a, *b;                   /* whose values names stand for */
    bool compare_bytes;
    exg_error *err;
} scope;

/* ---- scalars -------------------------------------------------------------------------------- */

static exg_status texts(const char *a, const char *b, const char *what, exg_error *err)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0)) {
        return EXG_OK;
    }
    return DIFFER(err, "%s is %s%s%s and %s%s%s", what, a == NULL ? "" : "'",
                  a == NULL ? "absent" : a, a == NULL ? "" : "'", b == NULL ? "" : "'",
                  b == NULL ? "absent" : b, b == NULL ? "" : "'");
}

static exg_status numbers(int64_t a, int64_t b, const char *what, exg_error *err)
{
    return a == b ? EXG_OK : DIFFER(err, "%s is %" PRId64 " and %" PRId64, what, a, b);
}

/* Bit for bit, so that NaN equals itself and -0.0 is not 0.0. */
static exg_status doubles(double a, double b, const char *what, exg_error *err)
{
    return memcmp(&a, &b, sizeof(a)) == 0 ? EXG_OK
                                          : DIFFER(err, "%s is %.17g and %.17g", what, a, b);
}

static exg_status ids(const scope *s, exg_value_id a, exg_value_id b)
{
    return texts(a == EXG_NO_VALUE ? NULL : s->a->values[a].name,
                 b == EXG_NO_VALUE ? NULL : s->b->values[b].name, "the value", s->err);
}

static exg_status metas(const exg_tensor_meta *a, const exg_tensor_meta *b, exg_error *err)
{
    return exg_tensor_meta_equal(a, b) ? EXG_OK : DIFFER(err, "the tensor metas differ");
}

static exg_status bounds(const exg_range_constraint *a, const exg_range_constraint *b,
                         exg_error *err)
{
    return a->has_min == b->has_min && a->has_max == b->has_max && a->min_val == b->min_val &&
                   a->max_val == b->max_val
               ? EXG_OK
               : DIFFER(err, "the range differs");
}

static exg_status bytes(exg_weights *a, uint32_t storage_a, exg_weights *b, uint32_t storage_b,
                        exg_error *err)
{
    uint64_t length = a->storages[storage_a].length;
    uint8_t *x;
    exg_status status = EXG_OK;

    EXG_TRY(numbers((int64_t)length, (int64_t)b->storages[storage_b].length, "the storage length",
                    err));
    EXG_TRY(numbers(a->storages[storage_a].byte_order, b->storages[storage_b].byte_order,
                    "the byte order", err));
    x = malloc(2 * (size_t)BLOCK_BYTES);
    if (x == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t at = 0; at < length && status == EXG_OK; at += BLOCK_BYTES) {
        uint64_t part = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;

        status = exg_storage_read(a, storage_a, at, part, x, err);
        if (status == EXG_OK) {
            status = exg_storage_read(b, storage_b, at, part, x + BLOCK_BYTES, err);
        }
        if (status == EXG_OK && memcmp(x, x + BLOCK_BYTES, (size_t)part) != 0) {
            status =
                DIFFER(err, "the bytes differ in the MiB from offset %llu", (unsigned long long)at);
        }
    }
    free(x);
    return status;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static exg_status items(const scope *s, exg_model_items a, exg_model_items b, const char *said);
static exg_status graphs(const scope *outer, const exg_graph *a, const exg_graph *b);

static exg_status syms(const scope *s, const exg_sym_argument *a, const exg_sym_argument *b,
                       exg_model_type type)
{
    const char *said = exg_models[type].said;

    EXG_TRY(ids(s, a->value, b->value));
    if (a->value != EXG_NO_VALUE) {
        return EXG_OK;
    }
    return type == EXG_MODEL_SYM_INT_ARGUMENT     ? numbers(a->as_int, b->as_int, said, s->err)
           : type == EXG_MODEL_SYM_FLOAT_ARGUMENT ? doubles(a->as_float, b->as_float, said, s->err)
                                                  : numbers(a->as_bool, b->as_bool, said, s->err);
}

static exg_status arguments(const scope *s, const exg_argument *a, const exg_argument *b)
{
    EXG_TRY(texts(exg_argument_tag(a->kind), exg_argument_tag(b->kind), "the kind", s->err));
    return items(s, exg_argument_items(a), exg_argument_items(b), NULL);
}

static exg_status samples(const scope *s, const exg_sample_input *a, const exg_sample_input *b)
{
    return a->kind == EXG_ARGUMENT_TENSOR
               ? items(s,
                       (exg_model_items){EXG_MODEL_STORAGE, EXG_MODEL_ONE, 1, (void *)&a->storage},
                       (exg_model_items){EXG_MODEL_STORAGE, EXG_MODEL_ONE, 1, (void *)&b->storage},
                       NULL)
               : items(s, exg_sample_constant(a), exg_sample_constant(b), NULL);
}

static exg_status storages(const scope *s, uint32_t a, uint32_t b)
{
    return s->compare_bytes ? bytes(s->program_a->weights, a, s->program_b->weights, b, s->err)
                            : EXG_OK;
}

static exg_status structs(const scope *s, exg_model_type type, const void *a, const void *b)
{
    const exg_model *model = &exg_models[type];

    for (uint32_t m = 0; m < model->member_count; m++) {
        const exg_model_member *member = &model->members[m];

        if (member->flag != EXG_MODEL_KEY && member->flag != EXG_MODEL_COPIED) {
            EXG_TRY(items(s, exg_model_items_of(member, a), exg_model_items_of(member, b),
                          member->said));
        }
    }
    return EXG_OK;
}

#define AT(type, side) (*(const type *)(side))

/* Two things of one type, called `said`. */
static exg_status things(const scope *s, exg_model_type type, const void *a, const void *b,
                         const char *said)
{
    exg_error *err = s->err;

    said = said == NULL ? exg_models[type].said : said;
    switch (type) {
    case EXG_MODEL_INT:
    case EXG_MODEL_DEVICE_INDEX:
        return numbers(AT(int64_t, a), AT(int64_t, b), said, err);
    case EXG_MODEL_UINT:
        return numbers(AT(uint32_t, a), AT(uint32_t, b), said, err);
    case EXG_MODEL_ENUM:
        return numbers(AT(int, a), AT(int, b), said, err);
    case EXG_MODEL_TRISTATE:
        return numbers(AT(exg_tristate, a), AT(exg_tristate, b), said, err);
    case EXG_MODEL_PASSING:
        return numbers(AT(exg_kind, a), AT(exg_kind, b), said, err);
    case EXG_MODEL_FLOAT:
        return doubles(AT(double, a), AT(double, b), said, err);
    case EXG_MODEL_BOOL:
        return numbers(AT(bool, a), AT(bool, b), said, err);
    case EXG_MODEL_TEXT:
    case EXG_MODEL_TARGET:
        return texts(AT(char *const, a), AT(char *const, b), said, err);
    case EXG_MODEL_VALUE:
    case EXG_MODEL_OPTIONAL_VALUE:
        return ids(s, AT(exg_value_id, a), AT(exg_value_id, b));
    case EXG_MODEL_SYM_INT_ARGUMENT:
    case EXG_MODEL_SYM_FLOAT_ARGUMENT:
    case EXG_MODEL_SYM_BOOL_ARGUMENT:
        return syms(s, a, b, type);
    case EXG_MODEL_DTYPE:
        return texts(exg_dtype_name(AT(exg_dtype, a)), exg_dtype_name(AT(exg_dtype, b)), said, err);
    case EXG_MODEL_LAYOUT:
        return texts(exg_layout_name(AT(exg_layout, a)), exg_layout_name(AT(exg_layout, b)), said,
                     err);
    case EXG_MODEL_MEMORY_FORMAT:
        return texts(exg_memory_format_name(AT(exg_memory_format, a)),
                     exg_memory_format_name(AT(exg_memory_format, b)), said, err);
    case EXG_MODEL_ARGUMENT_KIND:
        return texts(exg_argument_tag(AT(exg_argument_kind, a)),
                     exg_argument_tag(AT(exg_argument_kind, b)), said, err);
    case EXG_MODEL_INPUT_KIND:
        return texts(exg_input_kind_name(AT(exg_input_kind, a)),
                     exg_input_kind_name(AT(exg_input_kind, b)), said, err);
    case EXG_MODEL_OUTPUT_KIND:
        return texts(exg_output_kind_name(AT(exg_output_kind, a)),
                     exg_output_kind_name(AT(exg_output_kind, b)), said, err);
    case EXG_MODEL_ARGUMENT:
        return arguments(s, a, b);
    case EXG_MODEL_SIGNATURE_VALUE:
        return items(s, exg_signature_constant(a), exg_signature_constant(b), NULL);
    case EXG_MODEL_SAMPLE_VALUE:
        return samples(s, a, b);
    case EXG_MODEL_STORAGE:
        return storages(s, AT(uint32_t, a), AT(uint32_t, b));
    case EXG_MODEL_TENSOR_META:
        return metas(a, b, err);
    case EXG_MODEL_BOUNDS:
        return bounds(a, b, err);
    case EXG_MODEL_GRAPH:
        return graphs(s, a, b);
    default:
        return structs(s, type, a, b);
    }
}

/* Item `i` of two lists or maps. */
static exg_status item(const scope *s, exg_model_items a, exg_model_items b, uint32_t i)
{
    if (a.form == EXG_MODEL_MAP) {
        const char *key = exg_model_key(a, i);

        EXG_TRY_IN(s->err,
                   texts(key, exg_model_key(b, i), exg_model_key_member(a.type)->said, s->err),
                   "[%u]", i);
        EXG_TRY_IN(s->err, things(s, a.type, exg_model_item(a, i), exg_model_item(b, i), NULL),
                   "['%s']", key);
    } else {
        EXG_TRY_IN(s->err, things(s, a.type, exg_model_item(a, i), exg_model_item(b, i), NULL),
                   "[%u]", i);
    }
    return EXG_OK;
}

static exg_status all_items(const scope *s, exg_model_items a, exg_model_items b, const char *said)
{
    if (a.form == EXG_MODEL_ONE) {
        return things(s, a.type, a.at, b.at, said);
    }
    if (a.form == EXG_MODEL_POINTER) {
        if (a.count != b.count) {
            return DIFFER(s->err, "only one has %s", said);
        }
        return a.count == 0 ? EXG_OK : things(s, a.type, a.at, b.at, said);
    }
    EXG_TRY(numbers(a.count, b.count, "the count", s->err));
    for (uint32_t i = 0; i < a.count; i++) {
        EXG_TRY(item(s, a, b, i));
    }
    return EXG_OK;
}

/* Is it a place on the way to what differs? A scalar is not, nor what is told in several words. */
static bool is_place(exg_model_items of, const char *said)
{
    return said != NULL && strchr(said, ' ') == NULL &&
           (of.form != EXG_MODEL_ONE || exg_models[of.type].member_count > 0 ||
            of.type == EXG_MODEL_ARGUMENT);
}

static exg_status items(const scope *s, exg_model_items a, exg_model_items b, const char *said)
{
    exg_status status = all_items(s, a, b, said);

    return status == EXG_OK || !is_place(a, said) ? status
                                                  : exg_error_within(s->err, status, "%s", said);
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* By name: in another order they are the same. */
static exg_status values(const scope *s)
{
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_map names;
    exg_status status = scratch == NULL ? EXG_OUT_OF_MEMORY(s->err)
                                        : numbers(s->a->value_count, s->b->value_count,
                                                  "the count of values", s->err);

    exg_map_init(&names, scratch);
    for (uint32_t i = 0; status == EXG_OK && i < s->b->value_count; i++) {
        status = exg_map_put(&names, s->b->values[i].name, i) ? EXG_OK : EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < s->a->value_count; i++) {
        uint32_t other = exg_map_find(&names, s->a->values[i].name);

        status = other == EXG_MAP_NONE
                     ? DIFFER(s->err, "only one has a value %s", s->a->values[i].name)
                     : structs(s, EXG_MODEL_NAMED_VALUE, &s->a->values[i], &s->b->values[other]);
        if (status != EXG_OK) {
            exg_error_within(s->err, status, "values['%s']", s->a->values[i].name);
        }
    }
    exg_arena_destroy(scratch);
    return status;
}

static exg_status graphs(const scope *outer, const exg_graph *a, const exg_graph *b)
{
    const exg_model *model = &exg_models[EXG_MODEL_GRAPH];
    scope s = *outer;

    s.a = a;
    s.b = b;
    for (uint32_t m = 0; m < model->member_count; m++) {
        const exg_model_member *member = &model->members[m];

        if (member->type != EXG_MODEL_NAMED_VALUE) {
            EXG_TRY(items(&s, exg_model_items_of(member, a), exg_model_items_of(member, b),
                          member->said));
        }
    }
    return values(&s);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Storages stand for each other: shared here means shared there. */
static exg_status pair_storages(uint32_t *partners, uint32_t a, uint32_t b, exg_error *err)
{
    if (partners[a] == UINT32_MAX) {
        partners[a] = b;
        return EXG_OK;
    }
    return partners[a] == b ? EXG_OK : DIFFER(err, "storages are shared differently");
}

static exg_status weight(const exg_weights *wa, const exg_weights *wb, uint32_t i,
                         uint32_t *partners_a, uint32_t *partners_b, exg_error *err)
{
    const exg_weight *a = &wa->items[i];
    const exg_weight *b = &wb->items[i];

    EXG_TRY(texts(a->fqn, b->fqn, "fqn", err));
    EXG_TRY(numbers(a->table, b->table, "the table", err));
    EXG_TRY(numbers(a->is_param, b->is_param, "is_param", err));
    EXG_TRY(numbers(a->use_pickle, b->use_pickle, "use_pickle", err));
    if ((a->meta == NULL) != (b->meta == NULL)) {
        return DIFFER(err, "only one has a tensor meta");
    }
    EXG_TRY(a->meta == NULL ? EXG_OK : metas(a->meta, b->meta, err));
    EXG_TRY(pair_storages(partners_a, a->storage, b->storage, err));
    return pair_storages(partners_b, b->storage, a->storage, err);
}

static exg_status weights(exg_weights *a, exg_weights *b, bool compare_bytes, exg_error *err)
{
    uint32_t total = a->storage_count + b->storage_count;
    uint32_t *partners = malloc((total + 1) * sizeof(uint32_t));
    exg_status status = partners == NULL ? EXG_OUT_OF_MEMORY(err)
                                         : numbers(a->count, b->count, "the count of weights", err);

    for (uint32_t i = 0; status == EXG_OK && i < total; i++) {
        partners[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; status == EXG_OK && i < a->count; i++) {
        bool fresh = partners[a->items[i].storage] == UINT32_MAX;

        status = weight(a, b, i, partners, partners + a->storage_count, err);
        if (status == EXG_OK && compare_bytes && fresh) {
            status = bytes(a, a->items[i].storage, b, b->items[i].storage, err);
        }
        if (status != EXG_OK) {
            exg_error_within(err, status, "weights['%s']", a->items[i].fqn);
        }
    }
    free(partners);
    return status;
}

/* ---- interface ------------------------------------------------------------------------------ */

exg_status exg_program_compare(const exg_program *a, const exg_program *b, bool compare_bytes,
                               exg_error *err)
{
    scope s = {a, b, a->graph, b->graph, compare_bytes, err};

    EXG_TRY(structs(&s, EXG_MODEL_PROGRAM, a, b));
    return weights(a->weights, b->weights, compare_bytes, err);
}

bool exg_graph_equal(const exg_graph *a, const exg_graph *b)
{
    return graphs(&(scope){.err = NULL}, a, b) == EXG_OK;
}

bool exg_program_equal(const exg_program *a, const exg_program *b, bool compare_bytes,
                       char *difference)
{
    exg_error err;
    exg_status status;

    exg_error_clear(&err);
    status = exg_program_compare(a, b, compare_bytes, &err);
    if (difference != NULL) {
        snprintf(difference, DIFFERENCE_BYTES, "%s%s%s", err.where,
                 err.where[0] == '\0' ? "" : ": ", err.message);
    }
    return status == EXG_OK;
}
