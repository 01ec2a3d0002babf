/* text.c - objects, specs and schemas as text. */
#include "libexec/dispatch/text.h"
#include "libexport/base/require.h"

#include <ctype.h>
#include <inttypes.h>

void exg_print_placements(exg_text *text, const exg_placement *placements, uint32_t count)
{
    char one[EXG_PLACEMENT_TEXT];

    for (uint32_t m = 0; m < count; m++) {
        exg_text_puts(text, exg_placement_print(placements[m], one));
    }
}

/* f32, bf16: PyTorch's short names */
static void print_dtype(exg_text *text, exg_dtype dtype)
{
    static const char *const ids[EXG_DTYPE_COUNT] = {
        [EXG_DTYPE_UNKNOWN] = "?",
#define EXG_DTYPE(id, number, early, torch, safetensors, descr, bytes, class)                      \
    [EXG_DTYPE_##id] = #id,
#include <exg/dtype.def>
#undef EXG_DTYPE
    };

    for (const char *c = dtype < EXG_DTYPE_COUNT ? ids[dtype] : "?"; *c != '\0'; c++) {
        exg_text_putc(text, (char)tolower((unsigned char)*c));
    }
}

static void print_sizes(exg_text *text, const int64_t *sizes, uint32_t rank)
{
    exg_text_putc(text, '[');
    for (uint32_t d = 0; d < rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", sizes[d]);
    }
    exg_text_putc(text, ']');
}

void exg_print_spec(exg_text *text, const exg_dtensor_spec *spec)
{
    exg_text_puts(text, "Spec(");
    print_dtype(text, spec->dtype);
    print_sizes(text, spec->sizes, spec->rank);
    exg_text_putc(text, '(');
    exg_print_placements(text, spec->placements, exg_device_mesh_ndim(spec->mesh));
    exg_text_puts(text, "))");
}

static void print_number(exg_text *text, const exg_argument *value, uint32_t i)
{
    switch (value->kind) {
    case EXG_ARGUMENT_INTS:
        exg_text_printf(text, "%" PRId64, value->as_ints[i]);
        break;
    case EXG_ARGUMENT_FLOATS:
        exg_text_double(text, value->as_floats[i]);
        break;
    case EXG_ARGUMENT_BOOLS:
        exg_text_puts(text, value->as_bools[i] ? "True" : "False");
        break;
    default:
        exg_text_printf(text, "'%s'", value->as_strings[i]);
        break;
    }
}

static void print_value(exg_text *text, const exg_argument *value)
{
    switch (value->kind) {
    case EXG_ARGUMENT_INT:
        exg_text_printf(text, "%" PRId64, value->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_text_double(text, value->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_text_puts(text, value->as_bool ? "True" : "False");
        break;
    case EXG_ARGUMENT_STRING:
        exg_text_printf(text, "'%s'", value->as_string);
        break;
    case EXG_ARGUMENT_SCALAR_TYPE:
        exg_text_printf(text, "torch.%s", exg_dtype_name(value->as_scalar_type));
        break;
    case EXG_ARGUMENT_MEMORY_FORMAT:
        exg_text_printf(text, "torch.%s", exg_memory_format_name(value->as_memory_format));
        break;
    case EXG_ARGUMENT_LAYOUT:
        exg_text_printf(text, "torch.%s", exg_layout_name(value->as_layout));
        break;
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_STRINGS:
        exg_text_putc(text, '[');
        for (uint32_t i = 0; i < value->count; i++) {
            exg_text_puts(text, i > 0 ? ", " : "");
            print_number(text, value, i);
        }
        exg_text_putc(text, ']');
        break;
    default:
        exg_text_puts(text, exg_argument_tag(value->kind));
        break;
    }
}

static void print_items(exg_text *text, const exg_object *items, uint32_t count, bool tuple,
                        void (*print)(exg_text *text, const exg_object *object))
{
    exg_text_putc(text, tuple ? '(' : '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_text_puts(text, i > 0 ? ", " : "");
        print(text, &items[i]);
    }
    exg_text_puts(text, tuple && count == 1 ? ",)" : tuple ? ")" : "]");
}

void exg_print_object(exg_text *text, const exg_object *object)
{
    exg_dtensor_spec spec;

    switch (object->kind) {
    case EXG_OBJECT_NONE:
        exg_text_puts(text, "None");
        break;
    case EXG_OBJECT_VALUE:
        print_value(text, &object->value);
        break;
    case EXG_OBJECT_UINT:
        exg_text_printf(text, "%" PRIu64, object->as_uint);
        break;
    case EXG_OBJECT_DTENSOR:
        exg_dtensor_get_spec(object->dtensor, &spec);
        exg_print_spec(text, &spec);
        break;
    case EXG_OBJECT_TENSOR:
        exg_text_puts(text, "Tensor(");
        print_dtype(text, object->tensor->dtype);
        print_sizes(text, object->tensor->sizes, object->tensor->rank);
        exg_text_putc(text, ')');
        break;
    case EXG_OBJECT_SPEC:
        exg_print_spec(text, object->spec);
        break;
    case EXG_OBJECT_LIST:
    case EXG_OBJECT_TUPLE:
        print_items(text, object->items, object->count, object->kind == EXG_OBJECT_TUPLE,
                    exg_print_object);
        break;
    }
}

void exg_print_local_shapes(exg_text *text, const exg_object *object)
{
    const exg_tensor *local;

    switch (object->kind) {
    case EXG_OBJECT_DTENSOR:
        local = exg_dtensor_to_local(object->dtensor);
        print_sizes(text, local->sizes, local->rank);
        break;
    case EXG_OBJECT_LIST:
    case EXG_OBJECT_TUPLE:
        print_items(text, object->items, object->count, object->kind == EXG_OBJECT_TUPLE,
                    exg_print_local_shapes);
        break;
    default:
        exg_text_puts(text, "None");
        break;
    }
}

void exg_print_op_schema(exg_text *text, const exg_op_schema *schema)
{
    exg_text_printf(text, "OpSchema(func_schema=%s, args_schema=", schema->func_schema->text);
    print_items(text, schema->args, schema->arg_count, true, exg_print_object);
    exg_text_puts(text, ", kwargs_schema={");
    for (uint32_t i = 0; i < schema->kwarg_count; i++) {
        exg_text_printf(text, "%s'%s': ", i > 0 ? ", " : "", schema->kwargs[i].name);
        exg_print_object(text, &schema->kwargs[i].object);
    }
    exg_text_puts(text, "})");
}

exg_status exg_op_schema_print(const exg_op_schema *schema, char **text, exg_error *err)
{
    EXG_REQUIRE(err, schema, text);
    exg_text t = EXG_TEXT_EMPTY;

    exg_print_op_schema(&t, schema);
    *text = t.data;
    if (t.failed) {
        exg_text_free(&t);
        *text = NULL;
        return EXG_OUT_OF_MEMORY(err);
    }
    return EXG_OK;
}
