/* normalize.c - a node's arguments by schema position, checked against types. */
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include <exg/operators.h>
#include <string.h>

static bool is_number(exg_argument_kind kind)
{
    return kind == EXG_ARGUMENT_INT || kind == EXG_ARGUMENT_FLOAT || kind == EXG_ARGUMENT_BOOL ||
           kind == EXG_ARGUMENT_COMPLEX || kind == EXG_ARGUMENT_SYM_INT ||
           kind == EXG_ARGUMENT_SYM_FLOAT || kind == EXG_ARGUMENT_SYM_BOOL;
}

static bool is_integer(exg_argument_kind kind)
{
    return kind == EXG_ARGUMENT_INT || kind == EXG_ARGUMENT_SYM_INT || kind == EXG_ARGUMENT_BOOL;
}

static bool fits_one(const exg_argument *arg, exg_type_base base)
{
    switch (base) {
    case EXG_TYPE_TENSOR: /* or a Python number, which torch wraps: mul_.Tensor(x, 2) */
        return is_number(arg->kind) || arg->kind == EXG_ARGUMENT_TENSOR ||
               (arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR && arg->as_tensor != EXG_NO_VALUE);
    case EXG_TYPE_SCALAR:
        return is_number(arg->kind);
    case EXG_TYPE_INT:
    case EXG_TYPE_SYM_INT:
        return is_integer(arg->kind);
    case EXG_TYPE_FLOAT:
        return is_number(arg->kind) && arg->kind != EXG_ARGUMENT_COMPLEX;
    case EXG_TYPE_BOOL:
    case EXG_TYPE_SYM_BOOL:
        return arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_SYM_BOOL ||
               arg->kind == EXG_ARGUMENT_INT;
    case EXG_TYPE_STRING:
        return arg->kind == EXG_ARGUMENT_STRING;
    case EXG_TYPE_SCALAR_TYPE:
        return arg->kind == EXG_ARGUMENT_SCALAR_TYPE;
    case EXG_TYPE_LAYOUT:
        return arg->kind == EXG_ARGUMENT_LAYOUT;
    case EXG_TYPE_DEVICE:
        return arg->kind == EXG_ARGUMENT_DEVICE;
    case EXG_TYPE_MEMORY_FORMAT:
        return arg->kind == EXG_ARGUMENT_MEMORY_FORMAT;
    case EXG_TYPE_OBJECT:
    case EXG_TYPE_GENERATOR:
        return false; /* only None may be saved */
    }
    return false;
}

static bool fits_list(const exg_argument *arg, const exg_schema_type *type)
{
    bool empty = arg->count == 0;

    switch (arg->kind) {
    case EXG_ARGUMENT_TENSORS: /* torch writes any empty list so, without a schema */
        return type->base == EXG_TYPE_TENSOR || empty;
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        return type->base == EXG_TYPE_TENSOR && (type->is_element_optional || empty);
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_SYM_INTS:
        return type->base == EXG_TYPE_INT || type->base == EXG_TYPE_SYM_INT ||
               type->base == EXG_TYPE_SCALAR || empty;
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_SYM_FLOATS:
        return type->base == EXG_TYPE_FLOAT || type->base == EXG_TYPE_SCALAR || empty;
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_SYM_BOOLS:
        return type->base == EXG_TYPE_BOOL || empty;
    case EXG_ARGUMENT_STRINGS:
        return type->base == EXG_TYPE_STRING || empty;
    default: /* one int or float where a list of fixed length is due */
        return type->list_length > 0 && fits_one(arg, type->base);
    }
}

bool exg_argument_fits(const exg_argument *arg, const exg_schema_type *type)
{
    if (arg->kind == EXG_ARGUMENT_NONE ||
        (arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR && arg->as_tensor == EXG_NO_VALUE)) {
        return type->is_optional || type->base == EXG_TYPE_GENERATOR;
    }
    return type->is_list ? fits_list(arg, type) : fits_one(arg, type->base);
}

bool exg_operator_wraps_numbers(const exg_operator *op)
{
    static const char *const names[] = {
#define EXG_WRAPPED(name) #name,
#include "libexport/operators/wrapped.def"
#undef EXG_WRAPPED
    };
    size_t length = strlen(op->schema->name) - op->schema->is_inplace;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], op->schema->name, length) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t position_of(const exg_function_schema *schema, const char *name)
{
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (strcmp(schema->arguments[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

void exg_operator_functional_args(const exg_operator *op, const exg_operator *functional,
                                  const exg_argument *args, exg_argument *functional_args)
{
    for (uint32_t i = 0; i < functional->schema->argument_count; i++) {
        functional_args[i] = i < op->schema->argument_count
                                 ? args[i]
                                 : functional->schema->arguments[i].default_value;
    }
}

exg_status exg_operator_normalize(const exg_operator *op, const exg_node *node, exg_argument *args,
                                  exg_error *err)
{
    EXG_REQUIRE(err, op, node, args);
    const exg_function_schema *schema = op->schema;
    bool given[64] = {false};

    if (schema->argument_count > 64) {
        return EXG_FAIL(err, LIMIT, "NOD-004", "%s has more than 64 parameters", op->target);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_named_argument *input = &node->inputs[i];
        uint32_t at = input->name[0] == '\0' || (i < schema->argument_count &&
                                                 input->name == schema->arguments[i].name)
                          ? i
                          : position_of(schema, input->name);

        if (at < schema->argument_count && input->name[0] == '\0' &&
            schema->arguments[at].keyword_only) {
            at = UINT32_MAX; /* it may only be given by its name */
        }
        if (at >= schema->argument_count) {
            exg_status status = EXG_FAIL(err, MALFORMED, "NOD-003", "%s has no parameter '%s'",
                                         op->target, input->name);

            exg_error_fix(err, status, "arguments are named as in the operator's schema");
            return exg_error_within(err, status, "inputs[%u]", i);
        }
        if (given[at]) {
            return exg_error_within(err,
                                    EXG_FAIL(err, MALFORMED, "NOD-003",
                                             "parameter '%s' of %s is given twice",
                                             schema->arguments[at].name, op->target),
                                    "inputs[%u]", i);
        }
        if (!exg_argument_fits(&input->arg, &schema->arguments[at].type)) {
            return exg_error_within(
                err,
                EXG_FAIL(err, MALFORMED, "NOD-006", "%s does not fit parameter '%s' of %s",
                         exg_argument_tag(input->arg.kind), schema->arguments[at].name, op->target),
                "inputs[%u].arg", i);
        }
        given[at] = true;
        args[at] = input->arg;
    }
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (given[i]) {
            continue;
        }
        if (!schema->arguments[i].has_default) {
            return EXG_FAIL(err, MALFORMED, "NOD-004", "%s lacks its parameter '%s'", op->target,
                            schema->arguments[i].name);
        }
        args[i] = schema->arguments[i].default_value;
    }
    return EXG_OK;
}

/* ---- of a builder's caller ------------------------------------------------------------------ */

static bool has_tensor(const exg_argument *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR) {
            return true;
        }
    }
    return false;
}

/* May argument `at` stand there? A number in a tensor's place where PyTorch would wrap it, beside a
 * tensor whose dtype it takes, and where nothing is written. */
static bool may_stand(const exg_operator *op, const exg_argument *args, uint32_t count, uint32_t at)
{
    const exg_schema_argument *parameter = &op->schema->arguments[at];
    const exg_argument *arg = &args[at];

    if (parameter->type.base != EXG_TYPE_TENSOR || parameter->type.is_list || exg_is_none(arg) ||
        arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return exg_argument_fits(arg, &parameter->type);
    }
    return exg_argument_fits(arg, &parameter->type) && !parameter->is_write &&
           exg_operator_wraps_numbers(op) && has_tensor(args, count);
}

exg_status exg_operator_complete(const exg_operator *op, const exg_argument *args, uint32_t count,
                                 exg_argument *all, exg_error *err)
{
    const exg_function_schema *schema = op->schema;

    if (count > schema->argument_count) {
        return EXG_FAIL(err, USAGE, "BLD-001", "%s takes %u arguments, %u given", op->target,
                        schema->argument_count, count);
    }
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        const exg_schema_argument *parameter = &schema->arguments[i];

        if (i < count &&
            !(exg_is_none(&args[i]) && !parameter->type.is_optional && parameter->has_default)) {
            if (!may_stand(op, args, count, i)) {
                return EXG_FAIL(err, USAGE, "BLD-001", "%s does not fit parameter '%s' of %s",
                                exg_argument_tag(args[i].kind), parameter->name, op->target);
            }
            all[i] = args[i];
        } else if (parameter->has_default) {
            all[i] = parameter->default_value;
        } else {
            return EXG_FAIL(err, USAGE, "BLD-001", "%s lacks its parameter '%s'", op->target,
                            parameter->name);
        }
    }
    return EXG_OK;
}
