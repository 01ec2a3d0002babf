/* print_argument.c - arguments and annotations as generated Python code. */
#include "libexport/base/prefix.h"
#include "libexport/program/expression.h"
#include "libexport/program/model.h"
#include "libexport/program/print.h"

#include <inttypes.h>
#include <string.h>

void exg_print_python_string(exg_text *out, const char *string)
{
    char quote = strchr(string, '\'') != NULL && strchr(string, '"') == NULL ? '"' : '\'';

    exg_text_putc(out, quote);
    for (const char *c = string; *c != '\0'; c++) {
        if (*c == quote || *c == '\\') {
            exg_text_putc(out, '\\');
            exg_text_putc(out, *c);
        } else if (*c == '\n' || *c == '\r' || *c == '\t') {
            exg_text_puts(out, *c == '\n' ? "\\n" : *c == '\r' ? "\\r" : "\\t");
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            exg_text_printf(out, "\\x%02x", (unsigned)(unsigned char)*c);
        } else {
            exg_text_putc(out, *c);
        }
    }
    exg_text_putc(out, quote);
}

/* Where an argument goes, and how: as Python code, or as FX shows nodes, where a value has its mark
 * and a string no quotes. */
typedef struct printed {
    exg_text *out;
    const exg_graph *graph;
    bool is_fx;
} printed;

static void print_node(const printed *p, const char *name)
{
    exg_text_puts(p->out, p->is_fx ? "%" : "");
    exg_text_puts(p->out, name);
}

static void print_id(const printed *p, exg_value_id id)
{
    if (id == EXG_NO_VALUE) {
        exg_text_puts(p->out, "None");
    } else {
        print_node(p, p->graph->values[id].name);
    }
}

static void print_string(const printed *p, const char *string)
{
    if (p->is_fx) {
        exg_text_puts(p->out, string);
    } else {
        exg_print_python_string(p->out, string);
    }
}

static void print_bool(exg_text *out, bool value)
{
    exg_text_puts(out, value ? "True" : "False");
}

static void print_sym(const printed *p, const exg_sym_argument *sym, exg_model_type type)
{
    if (sym->value != EXG_NO_VALUE) {
        print_id(p, sym->value);
    } else if (type == EXG_MODEL_SYM_INT_ARGUMENT) {
        exg_text_printf(p->out, "%" PRId64, sym->as_int);
    } else if (type == EXG_MODEL_SYM_FLOAT_ARGUMENT) {
        exg_text_double(p->out, sym->as_float);
    } else {
        print_bool(p->out, sym->as_bool);
    }
}

static void print_device(const printed *p, const exg_device *device)
{
    exg_text_printf(p->out, p->is_fx ? "%s" : "device(type='%s'", device->type);
    if (device->index >= 0) {
        exg_text_printf(p->out, p->is_fx ? ":%" PRId64 : ", index=%" PRId64, device->index);
    }
    exg_text_puts(p->out, p->is_fx ? "" : ")");
}

/* Python's complex: "(1+2j)", whole parts without point, "2j" without real part. */
static void print_complex_part(exg_text *out, double part)
{
    size_t start = out->length;

    exg_text_double(out, part);
    if (!out->failed && out->length - start > 2 && strcmp(out->data + out->length - 2, ".0") == 0) {
        out->length -= 2;
        out->data[out->length] = '\0';
    }
}

static void print_complex(exg_text *out, double real, double imag)
{
    bool both = real != 0 || __builtin_signbit(real);

    if (both) {
        exg_text_putc(out, '(');
        print_complex_part(out, real);
        exg_text_puts(out, __builtin_signbit(imag) ? "" : "+");
    }
    print_complex_part(out, imag);
    exg_text_puts(out, both ? "j)" : "j");
}

/* What str() of an operator has of its target: "aten.add.Tensor", "cond". */
static const char *operator_of(const char *target)
{
    const char *name = exg_behind(target, "torch.ops.");
    const char *higher = name == NULL ? NULL : exg_behind(name, "higher_order.");

    return higher != NULL ? higher : name != NULL ? name : target;
}

static void print_items(const printed *p, exg_model_items items);

#define AT(type) (*(const type *)at)

static void print_thing(const printed *p, exg_model_type type, const void *at)
{
    exg_text *out = p->out;

    switch (type) {
    case EXG_MODEL_NOTHING:
        exg_text_puts(out, "None");
        break;
    case EXG_MODEL_VALUE:
    case EXG_MODEL_OPTIONAL_VALUE:
        print_id(p, AT(exg_value_id));
        break;
    case EXG_MODEL_INT:
        exg_text_printf(out, "%" PRId64, AT(int64_t));
        break;
    case EXG_MODEL_FLOAT:
        exg_text_double(out, AT(double));
        break;
    case EXG_MODEL_BOOL:
        print_bool(out, AT(bool));
        break;
    case EXG_MODEL_TEXT:
        print_string(p, AT(char *const));
        break;
    case EXG_MODEL_TARGET:
        exg_text_puts(out, p->is_fx ? operator_of(AT(char *const)) : AT(char *const));
        break;
    case EXG_MODEL_SYM_INT_ARGUMENT:
    case EXG_MODEL_SYM_FLOAT_ARGUMENT:
    case EXG_MODEL_SYM_BOOL_ARGUMENT:
        print_sym(p, at, type);
        break;
    case EXG_MODEL_DTYPE:
        exg_text_printf(out, "torch.%s", exg_dtype_name(AT(exg_dtype)));
        break;
    case EXG_MODEL_MEMORY_FORMAT:
        exg_text_printf(out, "torch.%s", exg_memory_format_name(AT(exg_memory_format)));
        break;
    case EXG_MODEL_LAYOUT:
        exg_text_printf(out, "torch.%s", exg_layout_name(AT(exg_layout)));
        break;
    case EXG_MODEL_DEVICE:
        print_device(p, at);
        break;
    case EXG_MODEL_COMPLEX:
        print_complex(out, AT(exg_complex_number).real, AT(exg_complex_number).imag);
        break;
    case EXG_MODEL_GRAPH_ARGUMENT:
        print_node(p, AT(exg_graph_argument).name);
        break;
    case EXG_MODEL_CUSTOM_OBJ:
        print_node(p, AT(exg_custom_obj).name);
        break;
    case EXG_MODEL_ARGUMENT:
        print_items(p, exg_argument_items(at));
        break;
    default: /* a list in a list, a pair in a map */
        if (exg_model_bare(type) != NULL) {
            print_items(p, exg_model_items_of(exg_model_bare(type), at));
        } else {
            exg_text_putc(out, '?');
        }
        break;
    }
}

static void print_items(const printed *p, exg_model_items items)
{
    bool is_map = items.form == EXG_MODEL_MAP;

    if (items.form == EXG_MODEL_ONE || items.form == EXG_MODEL_POINTER) {
        print_thing(p, items.type, items.at);
        return;
    }
    exg_text_putc(p->out, is_map ? '{' : '[');
    for (uint32_t i = 0; i < items.count; i++) {
        exg_text_puts(p->out, i == 0 ? "" : ", ");
        if (is_map) {
            print_string(p, exg_model_key(items, i));
            exg_text_puts(p->out, ": ");
        }
        print_thing(p, items.type, exg_model_item(items, i));
    }
    exg_text_putc(p->out, is_map ? '}' : ']');
}

void exg_print_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    print_items(&(printed){out, graph, false}, exg_argument_items(arg));
}

void exg_print_fx_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    print_items(&(printed){out, graph, true}, exg_argument_items(arg));
}

static void print_size(exg_text *out, const exg_sym_int *size, exg_put_symbol *put, void *user)
{
    if (size->expr == NULL) {
        exg_text_printf(out, "%" PRId64, size->value);
    } else {
        exg_print_renamed(out, size->expr, put, user);
    }
}

void exg_print_annotation(exg_text *out, const exg_value *value, exg_put_symbol *put, void *user)
{
    const char *expr = exg_value_expression(value);

    if (value->tensor != NULL) {
        const exg_tensor_meta *meta = value->tensor;

        if (meta->layout == EXG_LAYOUT_SPARSE_CSR || meta->layout == EXG_LAYOUT_SPARSE_CSC) {
            return;
        }
        exg_text_printf(out, ": \"%s[", exg_dtype_short_name(meta->dtype));
        for (uint32_t d = 0; d < meta->rank; d++) {
            exg_text_puts(out, d == 0 ? "" : ", ");
            print_size(out, &meta->sizes[d], put, user);
        }
        exg_text_puts(out, "]\"");
    } else if (expr != NULL) {
        exg_text_puts(out, ": \"Sym(");
        exg_print_renamed(out, expr, put, user);
        exg_text_puts(out, ")\"");
    }
}
