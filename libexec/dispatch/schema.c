/* schema.c - objects, specs, and calls by spec. */
#include "libexec/dispatch/cache_key.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

/* ---- objects --------------------------------- */

exg_object exg_object_none(void)
{
    return (exg_object){.kind = EXG_OBJECT_NONE};
}

exg_object exg_object_value(exg_argument value)
{
    if (value.kind == EXG_ARGUMENT_NONE) {
        return exg_object_none();
    }
    return (exg_object){.kind = EXG_OBJECT_VALUE, .value = value};
}

exg_object exg_object_scalar(exg_scalar number)
{
    switch (number.kind) {
    case EXG_SCALAR_BOOL:
        return exg_object_value(exg_arg_bool(number.as_bool));
    case EXG_SCALAR_INT:
        return exg_object_value(exg_arg_int(number.as_int));
    case EXG_SCALAR_UINT:
        return (exg_object){.kind = EXG_OBJECT_UINT, .as_uint = number.as_uint};
    case EXG_SCALAR_FLOAT:
        return exg_object_value(exg_arg_float(number.as_float));
    case EXG_SCALAR_COMPLEX:
        return exg_object_value(
            (exg_argument){.kind = EXG_ARGUMENT_COMPLEX, .as_complex = number.as_complex});
    default:
        return exg_object_none();
    }
}

exg_object exg_object_dtensor(exg_dtensor *t)
{
    return (exg_object){.kind = EXG_OBJECT_DTENSOR, .dtensor = t};
}

exg_object exg_object_tensor(const exg_tensor *t)
{
    return (exg_object){.kind = EXG_OBJECT_TENSOR, .tensor = t};
}

exg_object exg_object_spec(const exg_dtensor_spec *spec)
{
    return (exg_object){.kind = EXG_OBJECT_SPEC, .spec = spec};
}

exg_object exg_object_list(exg_object *items, uint32_t count)
{
    return (exg_object){.kind = EXG_OBJECT_LIST, .count = count, .items = items};
}

void exg_object_clear(exg_object *object, bool dtensors)
{
    if (object == NULL) {
        return;
    }
    if (object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE) {
        for (uint32_t i = 0; i < object->count; i++) {
            exg_object_clear(&object->items[i], dtensors);
        }
        free(object->items);
    } else if (object->kind == EXG_OBJECT_DTENSOR && dtensors) {
        exg_dtensor_destroy(object->dtensor);
    }
    *object = exg_object_none();
}

/* ---- schemas --------------------------------- */

void exg_op_schema_init(exg_op_schema *schema, const exg_function_schema *func_schema,
                        exg_object *args, uint32_t arg_count, exg_named_object *kwargs,
                        uint32_t kwarg_count)
{
    *schema = (exg_op_schema){.func_schema = func_schema,
                              .args = args,
                              .arg_count = arg_count,
                              .kwargs = kwargs,
                              .kwarg_count = kwarg_count,
                              .is_inplace = func_schema->is_inplace,
                              .is_out_variant = func_schema->is_out_variant};
}

static exg_status unwrap(const exg_object *from, exg_object *to, exg_arena *arena, exg_error *err)
{
    exg_dtensor_spec *spec;

    *to = *from;
    switch (from->kind) {
    case EXG_OBJECT_VALUE:
        return exg_argument_copy(arena, &to->value, err);
    case EXG_OBJECT_DTENSOR:
        spec = EXG_NEW(arena, exg_dtensor_spec);
        if (spec == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        exg_dtensor_get_spec(from->dtensor, spec);
        *to = exg_object_spec(spec);
        return EXG_OK;
    case EXG_OBJECT_LIST:
    case EXG_OBJECT_TUPLE:
        to->items = EXG_NEW_ARRAY(arena, exg_object, from->count);
        if (to->items == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        for (uint32_t i = 0; i < from->count; i++) {
            EXG_TRY(unwrap(&from->items[i], &to->items[i], arena, err));
        }
        return EXG_OK;
    default:
        return EXG_OK;
    }
}

exg_status exg_op_schema_from_call(exg_op_schema *schema, const exg_function_schema *func_schema,
                                   const exg_object *args, uint32_t arg_count,
                                   const exg_named_object *kwargs, uint32_t kwarg_count,
                                   exg_arena *arena, exg_error *err)
{
    EXG_REQUIRE(err, schema, func_schema, EXG_IF_ANY(arg_count, args),
                EXG_IF_ANY(kwarg_count, kwargs), arena);
    exg_object *own_args = EXG_NEW_ARRAY(arena, exg_object, arg_count);
    exg_named_object *own_kwargs = EXG_NEW_ARRAY(arena, exg_named_object, kwarg_count);

    if (own_args == NULL || own_kwargs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < arg_count; i++) {
        EXG_TRY(unwrap(&args[i], &own_args[i], arena, err));
    }
    for (uint32_t i = 0; i < kwarg_count; i++) {
        own_kwargs[i].name = exg_arena_strdup(arena, kwargs[i].name);
        if (own_kwargs[i].name == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY(unwrap(&kwargs[i].object, &own_kwargs[i].object, arena, err));
    }
    exg_op_schema_init(schema, func_schema, own_args, arg_count, own_kwargs, kwarg_count);
    return EXG_OK;
}

const exg_dtensor_spec *exg_op_schema_args_spec(const exg_op_schema *schema, uint32_t i)
{
    for (uint32_t a = 0; a < schema->arg_count; a++) {
        if (schema->args[a].kind == EXG_OBJECT_SPEC && i-- == 0) {
            return schema->args[a].spec;
        }
    }
    return NULL;
}

uint32_t exg_op_schema_args_spec_count(const exg_op_schema *schema)
{
    uint32_t count = 0;

    while (exg_op_schema_args_spec(schema, count) != NULL) {
        count++;
    }
    return count;
}

static void collect(const exg_object *object, const exg_dtensor_spec **specs, uint32_t max,
                    uint32_t *count)
{
    if (object->kind == EXG_OBJECT_SPEC) {
        if (*count < max) {
            specs[*count] = object->spec;
        }
        ++*count;
    }
    for (uint32_t i = 0;
         (object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE) && i < object->count;
         i++) {
        collect(&object->items[i], specs, max, count);
    }
}

uint32_t exg_op_schema_all_specs(const exg_op_schema *schema, const exg_dtensor_spec **specs,
                                 uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < schema->arg_count; i++) {
        collect(&schema->args[i], specs, max, &count);
    }
    for (uint32_t i = 0; i < schema->kwarg_count; i++) {
        collect(&schema->kwargs[i].object, specs, max, &count);
    }
    return count;
}

exg_status exg_op_schema_set_value(exg_op_schema *schema, uint32_t i, const exg_argument *value,
                                   exg_error *err)
{
    EXG_REQUIRE(err, schema, value);
    if (i >= schema->arg_count ||
        (schema->args[i].kind != EXG_OBJECT_VALUE && schema->args[i].kind != EXG_OBJECT_NONE)) {
        return EXG_FAIL(err, USAGE, "DSP-001", "argument %u of %s cannot be set", i,
                        schema->func_schema->name);
    }
    schema->args[i] = exg_object_value(*value);
    return EXG_OK;
}

/* ---- equality --------------------------------- */

static int by_name(const void *a, const void *b)
{
    const exg_named_object *const *x = a;
    const exg_named_object *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static void key_of(const exg_op_schema *schema, exg_cache_key *w)
{
    const exg_named_object **sorted = calloc(schema->kwarg_count + 1u, sizeof(*sorted));
    exg_argument text = exg_arg_string(schema->func_schema->text);

    w->failed = sorted == NULL;
    exg_cache_key_put_value(w, &text);
    exg_cache_key_put(w, schema->arg_count);
    for (uint32_t i = 0; i < schema->arg_count; i++) {
        exg_cache_key_put_object(w, &schema->args[i]);
    }
    for (uint32_t i = 0; sorted != NULL && i < schema->kwarg_count; i++) {
        sorted[i] = &schema->kwargs[i];
    }
    if (sorted != NULL) {
        qsort(sorted, schema->kwarg_count, sizeof(*sorted), by_name);
    }
    for (uint32_t i = 0; sorted != NULL && i < schema->kwarg_count; i++) {
        exg_argument name = exg_arg_string(sorted[i]->name);

        exg_cache_key_put_value(w, &name);
        exg_cache_key_put_object(w, &sorted[i]->object);
    }
    free(sorted);
}

bool exg_op_schema_equal(const exg_op_schema *a, const exg_op_schema *b)
{
    exg_cache_key x = {0};
    exg_cache_key y = {0};
    bool equal;

    key_of(a, &x);
    key_of(b, &y);
    equal = !x.failed && !y.failed && x.count == y.count &&
            memcmp(x.items, y.items, x.count * sizeof(x.items[0])) == 0;
    exg_cache_key_free(&x);
    exg_cache_key_free(&y);
    return equal;
}

uint64_t exg_op_schema_hash(const exg_op_schema *schema)
{
    exg_cache_key w = {0};
    uint64_t hash;

    key_of(schema, &w);
    hash = w.failed ? 0 : exg_cache_key_hash(&w);
    exg_cache_key_free(&w);
    return hash;
}
