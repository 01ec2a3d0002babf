/* register.c - operators of libraries become rows of the table. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/operators/operator_set.h"
#include "libexport/operators/registered.h"

#include <exg/operator_id_new.h>
#include <string.h>

/* One operator on its way into the table. */
typedef struct addition {
    exg_operators *operators;
    exg_operator_definition definition;
    const exg_function_schema *schema;
    const char *target;
    exg_error *err;
} addition;

/* ---- what is refused ---------------------------------------------------------------------------
 */

static exg_status refuse(const addition *a, const char *what, const char *fix)
{
    return exg_error_fix(a->err, EXG_FAIL(a->err, USAGE, "LIB-005", "%s %s", a->target, what), "%s",
                         fix);
}

/* Views that nothing is known of but their schema. */
static bool aliases_unwritten(const exg_function_schema *schema)
{
    for (uint32_t r = 0; r < schema->return_count; r++) {
        for (uint32_t p = 0; schema->returns[r].alias != 0 && p < schema->argument_count; p++) {
            if (schema->arguments[p].alias == schema->returns[r].alias &&
                !schema->arguments[p].is_write) {
                return true;
            }
        }
    }
    return false;
}

/* Results of the form that gives what is written and what is kept too. */
static uint32_t count_results(const addition *a, bool *has_list)
{
    const exg_function_schema *schema = a->schema;
    uint32_t count = a->definition.effect;

    *has_list = false;
    for (uint32_t r = 0; r < schema->return_count; r++) {
        if (!exg_registered_returns_argument(schema, r)) {
            *has_list = *has_list || schema->returns[r].type.is_list;
            count++;
        }
    }
    for (uint32_t p = 0; p < schema->argument_count; p++) {
        *has_list =
            *has_list || (schema->arguments[p].is_write && schema->arguments[p].type.is_list);
        count += schema->arguments[p].is_write;
    }
    return count;
}

static exg_status check_kernel(const addition *a)
{
    const exg_function_schema *schema = a->schema;
    bool has_list;
    uint32_t count = count_results(a, &has_list);

    for (uint32_t r = 0; r < schema->return_count; r++) {
        if (schema->returns[r].type.base != EXG_TYPE_TENSOR) {
            return refuse(a, "returns what is no tensor",
                          "return a tensor of one element, in its schema in Python too");
        }
    }
    if (aliases_unwritten(schema)) {
        return refuse(a, "returns a view of an argument, of which a kernel says nothing",
                      "give a decomposition, into PyTorch's views");
    }
    if (has_list && count > 1) {
        return refuse(a, "gives a list of tensors beside other results",
                      "return the list alone, in its schema in Python too, or give a "
                      "decomposition");
    }
    if (a->definition.length != NULL && (schema->is_mutable || has_list || a->definition.effect)) {
        return refuse(a, "has a result whose size lies in the data, and writes, or gives a list",
                      "return tensors");
    }
    if (count == 0) {
        return refuse(a, "returns nothing and writes nothing, so that nothing would run it",
                      "set its effect, return a tensor, or mark what is written: Tensor(a!)");
    }
    return EXG_OK;
}

static bool returns_own(const exg_function_schema *schema)
{
    for (uint32_t r = 0; r < schema->return_count; r++) {
        if (!exg_registered_returns_argument(schema, r)) {
            return true;
        }
    }
    return false;
}

static exg_status check_device_text(const addition *a)
{
    const exg_operator_definition *d = &a->definition;
    int parts = (d->device_text != NULL) + (d->device_entry != NULL) + (d->device_launch != NULL);

    if (parts % 3 != 0) {
        return refuse(a, "has some of device_text, device_entry and device_launch",
                      "give all three, or none");
    }
    if (parts > 0 && (a->schema->is_mutable || d->effect || d->length != NULL)) {
        return refuse(a,
                      "has a device text, and writes, has an effect, or a size that lies in the "
                      "data",
                      "leave the text out: the host computes it, between copies");
    }
    return EXG_OK;
}

static exg_status check_functions(const addition *a)
{
    const exg_operator_definition *d = &a->definition;
    bool has_list;

    if (count_results(a, &has_list) > EXG_RESULTS_MAX ||
        a->schema->return_count > EXG_RESULTS_MAX ||
        a->schema->argument_count >= EXG_ARGUMENTS_MAX) {
        return refuse(a, "has more than 31 arguments, or 16 results",
                      "take or return a list of tensors");
    }

    if ((d->kernel == NULL) == (d->decomposition == NULL)) {
        return refuse(a,
                      d->kernel == NULL ? "has no kernel and no decomposition"
                                        : "has a kernel and a decomposition",
                      "give one of them");
    }
    if (d->decomposition != NULL) {
        return d->shape == NULL && d->length == NULL && d->sharding == NULL && !d->effect &&
                       d->device_text == NULL
                   ? EXG_OK
                   : refuse(a,
                            "has a decomposition, which says shape, length, sharding, effect, "
                            "device text too",
                            "leave them out");
    }
    if (d->shape == NULL && returns_own(a->schema)) {
        return refuse(a, "has a kernel, and no shape function for its results", "give one");
    }
    EXG_TRY(check_kernel(a));
    return check_device_text(a);
}

static uint32_t count_tensors(const exg_function_schema *schema, bool *has_list)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < schema->argument_count; p++) {
        if (schema->arguments[p].type.base == EXG_TYPE_TENSOR) {
            *has_list = *has_list || schema->arguments[p].type.is_list;
            count++;
        }
    }
    return count;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyz." /* the last: a dim that stays whole */

/* How many parts with letters, commas between them, the first `length` bytes are; 0: other text. */
static uint32_t count_parts(const char *text, size_t length)
{
    uint32_t count = 1;

    for (size_t i = 0; i < length; i++) {
        if (strchr(LETTERS ",", text[i]) == NULL) {
            return 0;
        }
        count += text[i] == ',';
    }
    return count;
}

/* Letters for each tensor argument, commas between them, "->", letters of each result. */
static exg_status check_sharding(const addition *a)
{
    const char *text = a->definition.sharding;
    const char *arrow = text == NULL ? NULL : strstr(text, "->");
    bool has_list = false;
    uint32_t tensors = count_tensors(a->schema, &has_list);
    uint32_t returns = a->schema->return_count;

    if (text == NULL) {
        return EXG_OK;
    }
    for (uint32_t r = 0; r < returns; r++) {
        has_list = has_list || a->schema->returns[r].type.is_list;
    }
    if (arrow == NULL || count_parts(text, (size_t)(arrow - text)) != tensors ||
        count_parts(arrow + 2, strlen(arrow + 2)) != returns || has_list || returns == 0 ||
        a->schema->is_mutable || a->definition.length != NULL) {
        return exg_error_fix(
            a->err,
            EXG_FAIL(a->err, USAGE, "LIB-006", "%s: '%.80s' is no sharding of it", a->target, text),
            "letters for the dims of each of its %u tensors and %u results, as \"mk,kn->mn\" or "
            "\"bd,d->bd,b\"; no list, nothing that is written",
            tensors, returns);
    }
    return EXG_OK;
}

/* ---- rows
 * ---------------------------------------------------------------------------------------- */

static exg_status add_row(const addition *a, exg_registered_form form, const char *target,
                          const exg_function_schema *schema, exg_operator_id functional,
                          exg_operator **row)
{
    exg_operators *o = a->operators;
    exg_operator *op = EXG_NEW(o->arena, exg_operator);
    exg_registered *registered = EXG_NEW(o->arena, exg_registered);
    uint32_t id = EXG_OPERATOR_COUNT + o->added_count;

    *row = op;
    if (op == NULL || registered == NULL || target == NULL ||
        !exg_arena_reserve(o->arena, &o->added, o->added_count, &o->added_capacity,
                           sizeof(exg_operator *)) ||
        !exg_map_put(&o->by_target, target, id)) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    *registered = (exg_registered){.definition = a->definition,
                                   .form = form,
                                   .target = a->target,
                                   .schema = a->schema,
                                   .functional = functional};
    *op = (exg_operator){.id = (exg_operator_id)id,
                         .target = target,
                         .schema = schema,
                         .shape = a->definition.kernel == NULL ? NULL : exg_shape_registered,
                         .lowering = a->definition.decomposition,
                         .functional = EXG_OP_NONE,
                         .stream = EXG_NOT_DRAWN,
                         .size = EXG_OP_NONE,
                         .sized = EXG_OP_NONE,
                         .registered = registered};
    o->added[o->added_count++] = op;
    return EXG_OK;
}

/* The schema with these returns; a new one. */
static exg_function_schema *other_schema(const addition *a, uint32_t arguments, uint32_t returns,
                                         const char *target)
{
    exg_arena *arena = a->operators->arena;
    exg_function_schema *schema = EXG_NEW(arena, exg_function_schema);

    if (schema == NULL || target == NULL) {
        return NULL;
    }
    *schema = *a->schema;
    schema->text = target;
    schema->is_inplace = schema->is_out_variant = schema->is_mutable = false;
    schema->argument_count = arguments;
    schema->return_count = returns;
    schema->arguments = EXG_NEW_ARRAY(arena, exg_schema_argument, arguments + 1);
    schema->returns = EXG_NEW_ARRAY(arena, exg_schema_argument, returns + 1);
    if (schema->arguments == NULL || schema->returns == NULL) {
        return NULL;
    }
    for (uint32_t p = 0; p < a->schema->argument_count; p++) {
        schema->arguments[p] = a->schema->arguments[p];
        schema->arguments[p].alias = 0;
        schema->arguments[p].is_write = schema->arguments[p].is_out = false;
    }
    return schema;
}

static const char *other_target(const addition *a, const char *form)
{
    return exg_arena_printf(a->operators->arena, "%s.%s", a->target, form);
}

/* What the operator returns itself, and then what it writes. */
static exg_status add_functional(const addition *a, exg_operator_id *id)
{
    const exg_function_schema *of = a->schema;
    const char *target = other_target(a, "functional");
    bool has_list;
    exg_function_schema *schema =
        other_schema(a, of->argument_count, count_results(a, &has_list), target);
    exg_operator *row;
    uint32_t at = 0;

    if (schema == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    for (uint32_t r = 0; r < of->return_count; r++) {
        if (!exg_registered_returns_argument(of, r)) {
            schema->returns[at++] = of->returns[r];
        }
    }
    for (uint32_t p = 0; p < of->argument_count; p++) {
        if (of->arguments[p].is_write) {
            schema->returns[at] = schema->arguments[p];
            schema->returns[at++].name = "";
        }
    }
    if (a->definition.effect) {
        schema->returns[at] = (exg_schema_argument){.name = "", .type = {.base = EXG_TYPE_TENSOR}};
    }
    EXG_TRY(add_row(a, EXG_REGISTERED_FUNCTIONAL, target, schema, EXG_OP_NONE, &row));
    *id = row->id;
    return EXG_OK;
}

static exg_status add_sized(const addition *a, exg_operator *whole)
{
    const char *targets[2] = {other_target(a, "length"), other_target(a, "sized")};
    uint32_t arguments = a->schema->argument_count;
    exg_function_schema *length = other_schema(a, arguments, 1, targets[0]);
    exg_function_schema *sized =
        other_schema(a, arguments + 1, a->schema->return_count, targets[1]);
    exg_operator *rows[2];

    if (length == NULL || sized == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    length->returns[0] = (exg_schema_argument){.name = "", .type = {.base = EXG_TYPE_TENSOR}};
    memcpy(sized->returns, a->schema->returns, a->schema->return_count * sizeof(sized->returns[0]));
    sized->arguments[arguments] = (exg_schema_argument){
        .name = "length", .type = {.base = EXG_TYPE_SYM_INT}, .keyword_only = true};
    EXG_TRY(add_row(a, EXG_REGISTERED_LENGTH, targets[0], length, EXG_OP_NONE, &rows[0]));
    EXG_TRY(add_row(a, EXG_REGISTERED_SIZED, targets[1], sized, EXG_OP_NONE, &rows[1]));
    whole->size = rows[0]->id;
    whole->sized = rows[1]->id;
    whole->shape = NULL;
    return EXG_OK;
}

static exg_status add_operator(const addition *a)
{
    exg_operator_id functional = EXG_OP_NONE;
    exg_operator *whole;

    if ((a->schema->is_mutable || a->definition.effect) && a->definition.kernel != NULL) {
        EXG_TRY(add_functional(a, &functional));
    }
    EXG_TRY(add_row(a, EXG_REGISTERED_WHOLE, a->target, a->schema, functional, &whole));
    if (functional != EXG_OP_NONE) {
        whole->shape = NULL;
        whole->lowering = exg_lower_written;
    }
    return a->definition.length == NULL ? EXG_OK : add_sized(a, whole);
}

/* ---- entry
 * ----------------------------------------------------------------------------------------- */

/* Has each parameter a name of its own, and a default of its type? */
static exg_status check_parameters(const exg_function_schema *schema, exg_error *err)
{
    for (uint32_t p = 0; p < schema->argument_count; p++) {
        const exg_schema_argument *parameter = &schema->arguments[p];
        bool is_twice = false;

        for (uint32_t before = 0; before < p; before++) {
            is_twice = is_twice || strcmp(schema->arguments[before].name, parameter->name) == 0;
        }
        if (is_twice || (parameter->has_default &&
                         !exg_argument_fits(&parameter->default_value, &parameter->type))) {
            return exg_error_fix(
                err,
                EXG_FAIL(err, MALFORMED, "LIB-003", "schema '%.200s': %s '%s'", schema->text,
                         is_twice ? "two parameters are called" : "the default does not fit",
                         parameter->name),
                "write it as PyTorch does: \"mylib::scale(Tensor x, float factor=2.0) -> Tensor\"");
        }
    }
    return EXG_OK;
}

static bool keep_text(exg_arena *arena, const char **text)
{
    bool is_there = *text != NULL;

    *text = exg_arena_strdup(arena, *text);
    return !is_there || *text != NULL;
}

static exg_status read_definition(addition *a, const void *item)
{
    exg_arena *arena = a->operators->arena;
    exg_function_schema *schema = EXG_NEW(arena, exg_function_schema);
    size_t size;

    memcpy(&size, item, sizeof(size));
    a->definition = (exg_operator_definition){0};
    memcpy(&a->definition, item, size < sizeof(a->definition) ? size : sizeof(a->definition));
    if (a->definition.schema == NULL) {
        return EXG_FAIL(a->err, MALFORMED, "LIB-003", "an operator without a schema");
    }
    if (schema == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    if (exg_function_schema_parse(arena, a->definition.schema, schema, a->err) != EXG_OK) {
        char message[sizeof(a->err->message)];

        if (a->err != NULL && a->err->status == EXG_NO_MEMORY) {
            return EXG_NO_MEMORY;
        }
        memcpy(message, a->err == NULL ? "" : a->err->message,
               a->err == NULL ? 1 : sizeof(message));
        return EXG_FAIL(a->err, MALFORMED, "LIB-003", "%s", message);
    }
    EXG_TRY(check_parameters(schema, a->err));
    a->schema = schema;
    a->target = exg_arena_printf(arena, "torch.ops.%s.%s.%s", schema->name_space, schema->name,
                                 schema->overload[0] == '\0' ? "default" : schema->overload);
    if (a->target == NULL || !keep_text(arena, &a->definition.sharding) ||
        !keep_text(arena, &a->definition.device_text) ||
        !keep_text(arena, &a->definition.device_entry)) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    a->definition.schema = schema->text;
    return EXG_OK;
}

static exg_status check_new(const addition *all, uint32_t index)
{
    const addition *a = &all[index];
    bool known = exg_operators_find(a->operators, a->target) != NULL;

    for (uint32_t i = 0; i < index; i++) {
        known = known || strcmp(all[i].target, a->target) == 0;
    }
    if (known) {
        return exg_error_fix(
            a->err, EXG_FAIL(a->err, USAGE, "LIB-004", "%s is there already", a->target),
            "an operator is registered once; those of PyTorch that exg has are not "
            "replaced");
    }
    return EXG_OK;
}

static exg_status check_library(const exg_operator_library *library, exg_error *err)
{
    size_t least = offsetof(exg_operator_library, name);
    size_t smallest = offsetof(exg_operator_definition, length);
    size_t each;

    if (library->version != EXG_OPERATOR_LIBRARY_VERSION) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "LIB-002", "a library of version %u; this is %d",
                                      library->version, EXG_OPERATOR_LIBRARY_VERSION),
                             "compile it with the headers of this exg");
    }
    each = library->count > 0 && library->items != NULL ? library->items[0].size : smallest;
    if (library->size < least || each < smallest || each > 4096) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "LIB-002", "a library whose sizes are not set"),
                             "set size to sizeof(exg_operator_library), that of each operator to "
                             "sizeof(exg_operator_definition)");
    }
    return EXG_OK;
}

exg_status exg_operators_register(exg_operators *operators, const exg_operator_library *library,
                                  exg_error *err)
{
    EXG_REQUIRE(err, operators, library);
    addition *all;

    EXG_TRY(check_library(library, err));
    EXG_REQUIRE(err, EXG_IF_ANY(library->count, library->items));
    all = EXG_NEW_ARRAY(operators->arena, addition, library->count + 1);
    if (all == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < library->count; i++) {
        const char *item = (const char *)library->items + i * library->items[0].size;

        all[i] = (addition){.operators = operators, .err = err};
        EXG_TRY(read_definition(&all[i], item));
        EXG_TRY(check_new(all, i));
        EXG_TRY(check_functions(&all[i]));
        EXG_TRY(check_sharding(&all[i]));
    }
    for (uint32_t i = 0; i < library->count; i++) {
        EXG_TRY(add_operator(&all[i]));
    }
    return EXG_OK;
}
