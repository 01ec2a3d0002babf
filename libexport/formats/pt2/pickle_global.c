/* pickle_global.c - the names a pickle may use and what a call of them stands for.
 * Shapes of arguments are checked exactly; nothing is called.
 */
#include "libexport/formats/pt2/pickle.h"

#include <string.h>

#define UNTYPED EXG_DTYPE_COUNT

static const exg_pickle_global globals[] = {
    {"collections", "OrderedDict", EXG_TAG_ORDERED_DICT, UNTYPED},
    {"torch._utils", "_rebuild_tensor", EXG_TAG_REBUILD_TENSOR, UNTYPED},
    {"torch._utils", "_rebuild_tensor_v2", EXG_TAG_REBUILD_TENSOR_V2, UNTYPED},
    {"torch._utils", "_rebuild_tensor_v3", EXG_TAG_REBUILD_TENSOR_V3, UNTYPED},
    {"torch._utils", "_rebuild_parameter", EXG_TAG_REBUILD_PARAMETER, UNTYPED},
    {"torch._tensor", "_rebuild_from_type_v2", EXG_TAG_REBUILD_FROM_TYPE, UNTYPED},
    {"torch", "Tensor", EXG_TAG_TYPE, UNTYPED},
    {"torch.nn.parameter", "Parameter", EXG_TAG_TYPE, UNTYPED},
    {"torch", "Size", EXG_TAG_SIZE, UNTYPED},
    {"torch", "device", EXG_TAG_DEVICE, UNTYPED},
    {"__builtin__", "complex", EXG_TAG_COMPLEX, UNTYPED},
    {"builtins", "complex", EXG_TAG_COMPLEX, UNTYPED},
    {"torch.storage", "UntypedStorage", EXG_TAG_STORAGE, UNTYPED},
    {"torch", "DoubleStorage", EXG_TAG_STORAGE, EXG_DTYPE_F64},
    {"torch", "FloatStorage", EXG_TAG_STORAGE, EXG_DTYPE_F32},
    {"torch", "HalfStorage", EXG_TAG_STORAGE, EXG_DTYPE_F16},
    {"torch", "BFloat16Storage", EXG_TAG_STORAGE, EXG_DTYPE_BF16},
    {"torch", "LongStorage", EXG_TAG_STORAGE, EXG_DTYPE_I64},
    {"torch", "IntStorage", EXG_TAG_STORAGE, EXG_DTYPE_I32},
    {"torch", "ShortStorage", EXG_TAG_STORAGE, EXG_DTYPE_I16},
    {"torch", "CharStorage", EXG_TAG_STORAGE, EXG_DTYPE_I8},
    {"torch", "ByteStorage", EXG_TAG_STORAGE, EXG_DTYPE_U8},
    {"torch", "BoolStorage", EXG_TAG_STORAGE, EXG_DTYPE_B8},
    {"torch", "ComplexDoubleStorage", EXG_TAG_STORAGE, EXG_DTYPE_C128},
    {"torch", "ComplexFloatStorage", EXG_TAG_STORAGE, EXG_DTYPE_C64},
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind)                       \
    {"torch", torch, EXG_TAG_DTYPE, EXG_DTYPE_##id},
#include <exg/dtype.def>
#undef EXG_DTYPE
    {"torch._utils", "_rebuild_meta_tensor_no_storage", EXG_TAG_KNOWN_UNSUPPORTED, UNTYPED},
    {"torch._utils", "_rebuild_sparse_tensor", EXG_TAG_KNOWN_UNSUPPORTED, UNTYPED},
    {"torch._utils", "_rebuild_sparse_csr_tensor", EXG_TAG_KNOWN_UNSUPPORTED, UNTYPED},
    {"torch._utils", "_rebuild_parameter_with_state", EXG_TAG_KNOWN_UNSUPPORTED, UNTYPED},
    {"torch.serialization", "_get_layout", EXG_TAG_KNOWN_UNSUPPORTED, UNTYPED},
    {"torch._export.serde.serialize", "_reconstruct_fake_tensor", EXG_TAG_KNOWN_UNSUPPORTED,
     UNTYPED},
};

exg_status exg_pickle_find_global(const char *module, const char *name,
                                  const exg_pickle_global **global, exg_error *err)
{
    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
        if (strcmp(globals[i].name, name) == 0 && strcmp(globals[i].module, module) == 0) {
            if (globals[i].tag == EXG_TAG_KNOWN_UNSUPPORTED) {
                return EXG_FAIL(err, UNSUPPORTED, "PKL-GLOBAL", "the pickle needs %s.%s", module,
                                name);
            }
            *global = &globals[i];
            return EXG_OK;
        }
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "PKL-GLOBAL",
                                  "the pickle names %s.%s, which loading it would run; nothing "
                                  "was run",
                                  module, name),
                         "do not load the file in Python unless you trust who made it");
}

const exg_pickle_global *exg_pickle_storage_class(exg_dtype dtype)
{
    const exg_pickle_global *untyped = NULL;

    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
        if (globals[i].tag == EXG_TAG_STORAGE) {
            untyped = globals[i].dtype == UNTYPED ? &globals[i] : untyped;
            if (globals[i].dtype == dtype) {
                return &globals[i];
            }
        }
    }
    return untyped;
}

/* ---- calls --------------------------------------------------------------------------- */

static exg_status bad_call(const char *name, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "PKL-CALL", "the arguments of %s are not what PyTorch writes",
                    name);
}

static bool all_ints(const exg_pickle_value *value)
{
    if (value->kind != EXG_PICKLE_TUPLE) {
        return false;
    }
    for (uint32_t i = 0; i < value->as_items.count; i++) {
        if (value->as_items.items[i]->kind != EXG_PICKLE_INT) {
            return false;
        }
    }
    return true;
}

static bool is_empty_dict(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_DICT && value->as_items.count == 0;
}

/* Arguments of the three tensor builders, by position; -1: it has none. */
typedef struct tensor_form {
    uint32_t count_min;
    uint32_t count_max; /* one more may follow: metadata, only None */
    int requires_grad;
    int hooks;
    int dtype;
} tensor_form;

static exg_status build_tensor(const exg_pickle_global *global, const exg_pickle_items *args,
                               const tensor_form *form, exg_pickle_value *result, exg_error *err)
{
    exg_pickle_value **a = args->items;
    exg_pickle_tensor *t = &result->as_tensor;

    if (args->count < form->count_min || args->count > form->count_max ||
        a[0]->kind != EXG_PICKLE_STORAGE || a[1]->kind != EXG_PICKLE_INT || !all_ints(a[2]) ||
        !all_ints(a[3]) || a[2]->as_items.count != a[3]->as_items.count ||
        (form->requires_grad >= 0 && a[form->requires_grad]->kind != EXG_PICKLE_BOOL) ||
        (form->hooks >= 0 && !is_empty_dict(a[form->hooks])) ||
        (form->dtype >= 0 && (a[form->dtype]->kind != EXG_PICKLE_GLOBAL ||
                              a[form->dtype]->as_global->tag != EXG_TAG_DTYPE)) ||
        (form->hooks >= 0 && args->count > form->count_min &&
         a[form->count_min]->kind != EXG_PICKLE_NONE)) {
        return bad_call(global->name, err);
    }
    result->kind = EXG_PICKLE_TENSOR;
    *t = (exg_pickle_tensor){.storage = &a[0]->as_storage,
                             .dtype = a[0]->as_storage.dtype,
                             .offset = a[1]->as_int,
                             .sizes = &a[2]->as_items,
                             .strides = &a[3]->as_items};
    if (form->requires_grad >= 0) {
        t->requires_grad = a[form->requires_grad]->as_bool;
    }
    if (form->dtype >= 0) {
        t->dtype = a[form->dtype]->as_global->dtype;
    }
    return t->dtype == EXG_DTYPE_COUNT ? bad_call(global->name, err) : EXG_OK;
}

static exg_status build_parameter(const exg_pickle_items *args, exg_pickle_value *result,
                                  exg_error *err)
{
    if (args->count != 3 || args->items[0]->kind != EXG_PICKLE_TENSOR ||
        args->items[1]->kind != EXG_PICKLE_BOOL || !is_empty_dict(args->items[2])) {
        return bad_call("_rebuild_parameter", err);
    }
    *result = *args->items[0];
    result->as_tensor.is_param = true;
    result->as_tensor.requires_grad = args->items[1]->as_bool;
    return EXG_OK;
}

/* A tensor that carries attributes (of torch.export.Dim's making, say), which say nothing of its
 * elements: (what builds it, its type, the arguments, the attributes). */
static exg_status build_from_type(const exg_pickle_items *args, exg_arena *arena,
                                  exg_pickle_value *result, exg_error *err)
{
    exg_pickle_value **a = args->items;
    bool is_whole = args->count == 4 && a[0]->kind == EXG_PICKLE_GLOBAL &&
                    a[1]->kind == EXG_PICKLE_GLOBAL && a[1]->as_global->tag == EXG_TAG_TYPE &&
                    a[3]->kind == EXG_PICKLE_DICT;

    if (!is_whole || (a[0]->as_global->tag != EXG_TAG_REBUILD_TENSOR &&
                      a[0]->as_global->tag != EXG_TAG_REBUILD_TENSOR_V2 &&
                      a[0]->as_global->tag != EXG_TAG_REBUILD_TENSOR_V3 &&
                      a[0]->as_global->tag != EXG_TAG_REBUILD_PARAMETER)) {
        return bad_call("_rebuild_from_type_v2", err);
    }
    return exg_pickle_call(a[0]->as_global, a[2], arena, result, err);
}

static exg_status build_complex(const exg_pickle_items *args, exg_pickle_value *result,
                                exg_error *err)
{
    if (args->count != 2 || args->items[0]->kind != EXG_PICKLE_FLOAT ||
        args->items[1]->kind != EXG_PICKLE_FLOAT) {
        return bad_call("complex", err);
    }
    result->kind = EXG_PICKLE_COMPLEX;
    result->as_complex.real = args->items[0]->as_float;
    result->as_complex.imag = args->items[1]->as_float;
    return EXG_OK;
}

exg_status exg_pickle_call(const exg_pickle_global *global, exg_pickle_value *arguments,
                           exg_arena *arena, exg_pickle_value *result, exg_error *err)
{
    static const tensor_form v1 = {4, 4, -1, -1, -1};
    static const tensor_form v2 = {6, 7, 4, 5, -1};
    static const tensor_form v3 = {7, 8, 4, 5, 6};
    const exg_pickle_items *args = &arguments->as_items;

    if (arguments->kind != EXG_PICKLE_TUPLE) {
        return bad_call(global->name, err);
    }
    switch (global->tag) {
    case EXG_TAG_ORDERED_DICT:
        if (args->count != 0) {
            return bad_call(global->name, err);
        }
        result->kind = EXG_PICKLE_DICT;
        result->as_items = (exg_pickle_items){.ordered = true};
        return EXG_OK;
    case EXG_TAG_REBUILD_TENSOR:
        return build_tensor(global, args, &v1, result, err);
    case EXG_TAG_REBUILD_TENSOR_V2:
        return build_tensor(global, args, &v2, result, err);
    case EXG_TAG_REBUILD_TENSOR_V3:
        return build_tensor(global, args, &v3, result, err);
    case EXG_TAG_REBUILD_PARAMETER:
        return build_parameter(args, result, err);
    case EXG_TAG_REBUILD_FROM_TYPE:
        return build_from_type(args, arena, result, err);
    case EXG_TAG_SIZE:
        if (args->count != 1 || !all_ints(args->items[0])) {
            return bad_call(global->name, err);
        }
        *result = *args->items[0];
        return EXG_OK;
    case EXG_TAG_COMPLEX:
        return build_complex(args, result, err);
    case EXG_TAG_DEVICE:
        result->kind = EXG_PICKLE_DEVICE;
        return EXG_OK;
    case EXG_TAG_STORAGE:
    case EXG_TAG_DTYPE:
    case EXG_TAG_TYPE:
    case EXG_TAG_KNOWN_UNSUPPORTED:
        break;
    }
    return bad_call(global->name, err);
}

/* ---- persistent ids ------------------------------------------------------------------- */

static bool is_plain_text(const exg_pickle_value *value)
{
    return value->kind == EXG_PICKLE_STRING &&
           memchr(value->as_text.data, '\0', value->as_text.length) == NULL;
}

exg_status exg_pickle_persistent(const exg_pickle_value *id, exg_pickle_value *result,
                                 exg_error *err)
{
    exg_pickle_value **a = id->as_items.items;

    if (id->kind != EXG_PICKLE_TUPLE || id->as_items.count != 5 || !is_plain_text(a[0]) ||
        strcmp(a[0]->as_text.data, "storage") != 0 || a[1]->kind != EXG_PICKLE_GLOBAL ||
        a[1]->as_global->tag != EXG_TAG_STORAGE || !is_plain_text(a[2]) || !is_plain_text(a[3]) ||
        a[4]->kind != EXG_PICKLE_INT || a[4]->as_int < 0) {
        return EXG_FAIL(err, UNSUPPORTED, "PKL-CALL", "a persistent id is not what PyTorch writes");
    }
    result->kind = EXG_PICKLE_STORAGE;
    result->as_storage = (exg_pickle_storage){a[2]->as_text.data, a[3]->as_text.data,
                                              a[1]->as_global->dtype, (uint64_t)a[4]->as_int};
    return EXG_OK;
}
