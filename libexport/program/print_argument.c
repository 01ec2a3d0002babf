/* print_argument.c - arguments and annotations as generated Python code. */
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

static void print_argument(const printed *p, const exg_argument *arg);

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

static void print_sym(const printed *p, const exg_sym_argument *sym, exg_argument_kind kind)
{
    if (sym->value != EXG_NO_VALUE) {
        print_id(p, sym->value);
    } else if (kind == EXG_ARGUMENT_SYM_INT || kind == EXG_ARGUMENT_SYM_INTS) {
        exg_text_printf(p->out, "%" PRId64, sym->as_int);
    } else if (kind == EXG_ARGUMENT_SYM_FLOAT || kind == EXG_ARGUMENT_SYM_FLOATS) {
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

/* One item of a list kind. */
static void print_item(const printed *p, const exg_argument *arg, uint32_t i)
{
    exg_text *out = p->out;

    switch (arg->kind) {
    case EXG_ARGUMENT_INTS:
        exg_text_printf(out, "%" PRId64, arg->as_ints[i]);
        break;
    case EXG_ARGUMENT_FLOATS:
        exg_text_double(out, arg->as_floats[i]);
        break;
    case EXG_ARGUMENT_BOOLS:
        print_bool(out, arg->as_bools[i]);
        break;
    case EXG_ARGUMENT_STRINGS:
        print_string(p, arg->as_strings[i]);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        print_id(p, arg->as_tensors[i]);
        break;
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        print_sym(p, &arg->as_syms[i], arg->kind);
        break;
    case EXG_ARGUMENT_NESTED_TENSORS: {
        exg_argument inner = {.kind = EXG_ARGUMENT_TENSORS,
                              .count = arg->as_nested_tensors[i].count,
                              .as_tensors = arg->as_nested_tensors[i].items};

        print_argument(p, &inner);
        break;
    }
    case EXG_ARGUMENT_INT_LISTS: {
        exg_argument inner = {.kind = EXG_ARGUMENT_INTS,
                              .count = arg->as_int_lists[i].count,
                              .as_ints = arg->as_int_lists[i].items};

        print_argument(p, &inner);
        break;
    }
    case EXG_ARGUMENT_FLOAT_LISTS: {
        exg_argument inner = {.kind = EXG_ARGUMENT_FLOATS,
                              .count = arg->as_float_lists[i].count,
                              .as_floats = arg->as_float_lists[i].items};

        print_argument(p, &inner);
        break;
    }
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        print_string(p, arg->as_string_to_argument[i].key);
        exg_text_puts(out, ": ");
        print_argument(p, &arg->as_string_to_argument[i].argument);
        break;
    default: /* no list */
        break;
    }
}

static void print_list(const printed *p, const exg_argument *arg, const char *brackets)
{
    exg_text_putc(p->out, brackets[0]);
    for (uint32_t i = 0; i < arg->count; i++) {
        exg_text_puts(p->out, i == 0 ? "" : ", ");
        print_item(p, arg, i);
    }
    exg_text_putc(p->out, brackets[1]);
}

/* What str() of an operator leaves out of its target: "aten.add.Tensor", "cond". */
static size_t operator_prefix(const char *target)
{
    return strncmp(target, "torch.ops.higher_order.", 23) == 0 ? 23
           : strncmp(target, "torch.ops.", 10) == 0            ? 10
                                                               : 0;
}

static void print_argument(const printed *p, const exg_argument *arg)
{
    exg_text *out = p->out;

    switch (arg->kind) {
    case EXG_ARGUMENT_NONE:
        exg_text_puts(out, "None");
        return;
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        print_id(p, arg->as_tensor);
        return;
    case EXG_ARGUMENT_INT:
        exg_text_printf(out, "%" PRId64, arg->as_int);
        return;
    case EXG_ARGUMENT_FLOAT:
        exg_text_double(out, arg->as_float);
        return;
    case EXG_ARGUMENT_BOOL:
        print_bool(out, arg->as_bool);
        return;
    case EXG_ARGUMENT_STRING:
        print_string(p, arg->as_string);
        return;
    case EXG_ARGUMENT_OPERATOR:
        exg_text_puts(out, arg->as_string + (p->is_fx ? operator_prefix(arg->as_string) : 0));
        return;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        print_sym(p, &arg->as_sym, arg->kind);
        return;
    case EXG_ARGUMENT_SCALAR_TYPE:
        exg_text_printf(out, "torch.%s", exg_dtype_name(arg->as_scalar_type));
        return;
    case EXG_ARGUMENT_MEMORY_FORMAT:
        exg_text_printf(out, "torch.%s", exg_memory_format_name(arg->as_memory_format));
        return;
    case EXG_ARGUMENT_LAYOUT:
        exg_text_printf(out, "torch.%s", exg_layout_name(arg->as_layout));
        return;
    case EXG_ARGUMENT_DEVICE:
        print_device(p, &arg->as_device);
        return;
    case EXG_ARGUMENT_COMPLEX:
        print_complex(out, arg->as_complex.real, arg->as_complex.imag);
        return;
    case EXG_ARGUMENT_GRAPH:
        print_node(p, arg->as_graph->name);
        return;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        print_node(p, arg->as_custom_obj->name);
        return;
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        print_list(p, arg, "{}");
        return;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_STRINGS:
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_SYM_BOOLS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_NESTED_TENSORS:
    case EXG_ARGUMENT_INT_LISTS:
    case EXG_ARGUMENT_FLOAT_LISTS:
        print_list(p, arg, "[]");
        return;
    case EXG_ARGUMENT_KIND_COUNT:
        break;
    }
    exg_text_putc(out, '?');
}

void exg_print_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    print_argument(&(printed){out, graph, false}, arg);
}

void exg_print_fx_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    print_argument(&(printed){out, graph, true}, arg);
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
    const char *expr = value->sym_int != NULL     ? value->sym_int->expr
                       : value->sym_float != NULL ? value->sym_float->expr
                       : value->sym_bool != NULL  ? value->sym_bool->expr
                                                  : NULL;

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
