/* made_inputs.c - inputs that nobody gives: sizes by --shape, --size and what the program was
 * exported with, elements by --fill. */
#include "cli/cli.h"
#include "cli/outputs.h"

#include <exg/inspection.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How elements are made. */
typedef struct recipe {
    enum { RECIPE_RANDOM, RECIPE_CONSTANT, RECIPE_RANGE, RECIPE_FILE } kind;
    double low, high; /* RANDOM and RANGE: low <= x < high; CONSTANT: low */
    const char *path; /* FILE */
} recipe;

bool cli_makes_inputs(const cli_call *call)
{
    return call->shapes.count > 0 || call->sizes.count > 0 || call->fill.count > 0;
}

/* ---- what the user inputs are ------------------------------------------------------------- */

/* Of input `i` the value, where it is one that a caller gives: a tensor or a number. */
static const exg_value *user_value(const exg_program *program, uint32_t i)
{
    const exg_argument *input = &program->graph->inputs[i];

    if (program->signature.inputs[i].kind != EXG_INPUT_USER) {
        return NULL;
    }
    return input->kind == EXG_ARGUMENT_TENSOR    ? &program->graph->values[input->as_tensor]
           : input->kind == EXG_ARGUMENT_SYM_INT ? &program->graph->values[input->as_sym.value]
                                                 : NULL;
}

/* Things by their names, sorted: a program may have very many inputs. */
typedef struct named {
    const char *name;
    const exg_value *value; /* of a user input of the program */
} named;

typedef struct names {
    named *items;
    uint32_t count;
} names;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static const named *find_name(const names *n, const char *name)
{
    const named wanted = {.name = name};

    return n->count == 0 ? NULL : bsearch(&wanted, n->items, n->count, sizeof(wanted), by_name);
}

static exg_status list_values(const exg_program *program, exg_arena *arena, names *n,
                              exg_error *err)
{
    *n = (names){EXG_NEW_ARRAY(arena, named, program->graph->input_count), 0};
    if (n->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_value *value = user_value(program, i);

        if (value != NULL) {
            n->items[n->count++] = (named){value->name, value};
        }
    }
    qsort(n->items, n->count, sizeof(*n->items), by_name);
    return EXG_OK;
}

/* Those that are given. */
static exg_status list_items(const cli_inputs *inputs, names *n, exg_error *err)
{
    *n = (names){EXG_NEW_ARRAY(inputs->arena, named, inputs->count), inputs->count};
    if (n->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t k = 0; k < inputs->count; k++) {
        n->items[k] = (named){inputs->items[k].name, NULL};
    }
    qsort(n->items, n->count, sizeof(*n->items), by_name);
    return EXG_OK;
}

/* ---- --shape -------------------------------------------------------------------------------- */

static exg_status read_shape(const char *word, exg_arena *arena, exg_session_input *input,
                             exg_error *err)
{
    const char *equals = strrchr(word, '=');
    const char *at = equals == NULL ? "" : equals + 1;

    *input = (exg_session_input){.tensor = {.dtype = EXG_DTYPE_UNKNOWN}};
    do {
        char *end;
        long long size = strtoll(at, &end, 10);

        if (*at < '0' || *at > '9' || (*end != '\0' && *end != 'x') || equals == word ||
            input->tensor.rank == EXG_RANK_MAX || size == INT64_MAX) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "--shape '%s'", word),
                                 "write an input, =, and its sizes: x=16x3x224x224");
        }
        input->tensor.sizes[input->tensor.rank++] = size;
        at = end + (*end == 'x');
    } while (at[-1] == 'x');
    input->name = exg_arena_strndup(arena, word, (size_t)(equals - word));
    return input->name == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status cli_take_shapes(const cli_call *call, cli_inputs *inputs, exg_error *err)
{
    for (uint32_t i = 0; i < call->shapes.count; i++) {
        EXG_TRY(exg_arena_reserve(inputs->arena, &inputs->items, inputs->count, &inputs->capacity,
                                  sizeof(*inputs->items))
                    ? EXG_OK
                    : EXG_OUT_OF_MEMORY(err));
        EXG_TRY(
            read_shape(call->shapes.items[i], inputs->arena, &inputs->items[inputs->count], err));
        inputs->count++;
    }
    return EXG_OK;
}

/* ---- --size --------------------------------------------------------------------------------- */

/* The symbols of the inputs' sizes, with a dim where each is, for people; is `name` one? */
typedef struct size_list {
    const char *name;
    bool found;
    exg_symbols seen;
    exg_arena *arena;
    exg_text text;
} size_list;

static void see_symbol(void *user, const char *name, size_t length)
{
    size_list *list = user;

    list->found =
        list->found || (strlen(list->name) == length && memcmp(list->name, name, length) == 0);
    if (exg_symbols_find(&list->seen, name, length) == NULL &&
        exg_symbols_add(&list->seen, list->arena, name, length, 0, NULL) == EXG_OK) {
        exg_text_puts(&list->text, list->text.length > 0 ? ", " : "");
        exg_text_add(&list->text, name, length);
    }
}

static void see_size(size_list *list, const char *expression)
{
    if (expression != NULL) {
        exg_ignore(exg_symint_visit(expression, see_symbol, list, NULL));
    }
}

static exg_status check_symbol(const exg_program *program, const char *name, exg_arena *arena,
                               exg_error *err)
{
    size_list list = {.name = name, .arena = arena, .text = EXG_TEXT_EMPTY};
    exg_status status = EXG_OK;

    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_value *value = user_value(program, i);

        for (uint32_t d = 0; value != NULL && value->tensor != NULL && d < value->tensor->rank;
             d++) {
            see_size(&list, value->tensor->sizes[d].expr);
        }
        if (value != NULL && value->sym_int != NULL) {
            see_size(&list, value->sym_int->expr);
        }
    }
    if (!list.found) {
        status = EXG_FAIL(err, USAGE, "INP-013", "the inputs have no size called '%s'", name);
        status = list.text.length == 0
                     ? exg_error_fix(err, status, "all their sizes are fixed")
                     : exg_error_fix(err, status, "exg inspect shows where they are: %s",
                                     exg_text_string(&list.text));
    }
    exg_text_free(&list.text);
    return status;
}

static exg_status take_sizes(const cli_call *call, const exg_program *program, exg_arena *arena,
                             exg_symbols *symbols, exg_error *err)
{
    for (uint32_t i = 0; i < call->sizes.count; i++) {
        const char *word = call->sizes.items[i];
        const char *equals = strchr(word, '=');
        const char *at = equals == NULL ? "" : equals + 1;
        const char *name;
        char *end;
        long long size = strtoll(at, &end, 10);

        if (*at < '0' || *at > '9' || *end != '\0' || equals == word || size == INT64_MAX) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "--size '%s'", word),
                                 "write a size that exg inspect shows, =, and its number: s0=16");
        }
        name = exg_arena_strndup(arena, word, (size_t)(equals - word));
        EXG_TRY(name == NULL ? EXG_OUT_OF_MEMORY(err) : check_symbol(program, name, arena, err));
        if (exg_symbols_find(symbols, name, strlen(name)) != NULL) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--size is given twice for %s", name);
        }
        EXG_TRY(exg_symbols_add(symbols, arena, name, strlen(name), size, err));
    }
    return EXG_OK;
}

/* ---- --fill --------------------------------------------------------------------------------- */

static exg_status no_fill(const char *word, exg_error *err)
{
    static const char *const known[] = {"random", "zeros", "ones", "range:LO:HI"};
    const exg_status status = EXG_FAIL(err, USAGE, "CLI-001", "--fill '%s'", word);
    cli_nearest nearest;

    cli_nearest_begin(&nearest, word);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        cli_nearest_offer(&nearest, known[i]);
    }
    return exg_error_fix(
        err, status, "%s%s%s--fill takes random, zeros, ones, range:LO:HI, or a file",
        nearest.name == NULL ? "" : "did you mean ", nearest.name == NULL ? "" : nearest.name,
        nearest.name == NULL ? "" : "? ");
}

static exg_status read_recipe(const char *word, recipe *made, exg_error *err)
{
    char *colon;
    char *end = NULL;

    *made = (recipe){.kind = RECIPE_RANDOM, .low = -1, .high = 1};
    if (strcmp(word, "random") == 0) {
        return EXG_OK;
    }
    if (strcmp(word, "zeros") == 0 || strcmp(word, "ones") == 0) {
        *made = (recipe){.kind = RECIPE_CONSTANT, .low = word[0] == 'o'};
        return EXG_OK;
    }
    if (strncmp(word, "range:", 6) != 0) {
        *made = (recipe){.kind = RECIPE_FILE, .path = word};
        return strpbrk(word, "./") != NULL || access(word, F_OK) == 0 ? EXG_OK : no_fill(word, err);
    }
    made->kind = RECIPE_RANGE;
    made->low = exg_text_to_double(word + 6, &colon);
    if (*colon == ':' && colon != word + 6) {
        made->high = exg_text_to_double(colon + 1, &end);
    }
    if (end == NULL || end == colon + 1 || *end != '\0' || !(made->low < made->high) ||
        !(made->high - made->low < 1e300)) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "--fill '%s'", word),
                             "write range:LO:HI, of numbers from LO on and below HI");
    }
    return EXG_OK;
}

/* "NAME=HOW" of this input; else the one that is for all, else at random. */
static exg_status choose_recipe(const cli_call *call, const char *name, recipe *chosen,
                                exg_error *err)
{
    const size_t length = strlen(name);
    const char *own = NULL;
    const char *general = NULL;

    for (uint32_t i = 0; i < call->fill.count; i++) {
        const char *word = call->fill.items[i];
        bool is_own = strncmp(word, name, length) == 0 && word[length] == '=';
        const char **slot = is_own ? &own : &general;

        if (!is_own && strchr(word, '=') != NULL) {
            continue;
        }
        if (*slot != NULL) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--fill is given twice for %s",
                            is_own ? name : "all inputs");
        }
        *slot = is_own ? word + length + 1 : word;
    }
    return read_recipe(own != NULL ? own : general != NULL ? general : "random", chosen, err);
}

/* Every NAME= is an input that is made up. */
static exg_status check_fills(const cli_call *call, const cli_inputs *inputs, exg_error *err)
{
    for (uint32_t i = 0; i < call->fill.count; i++) {
        const char *equals = strchr(call->fill.items[i], '=');
        const size_t length = equals == NULL ? 0 : (size_t)(equals - call->fill.items[i]);
        bool found = equals == NULL;

        for (uint32_t m = 0; !found && m < inputs->made_count; m++) {
            const char *name = inputs->items[inputs->made[m].item].name;

            found = strlen(name) == length && memcmp(name, call->fill.items[i], length) == 0;
        }
        if (!found) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "INP-001",
                                          "--fill '%s': no such input is made up",
                                          call->fill.items[i]),
                                 "write NAME=HOW for an input that --input does not give");
        }
    }
    return EXG_OK;
}

/* splitmix64 (Steele, Lea, Flood 2014): the same numbers everywhere. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* An input draws the same, whatever is before it. */
static uint64_t begin_draws(uint64_t seed, const char *name)
{
    uint64_t state = seed;

    for (; *name != '\0'; name++) {
        state = draw(&state) ^ (unsigned char)*name;
    }
    return state;
}

static void fill_drawn(exg_tensor *tensor, const recipe *made, uint64_t state)
{
    const exg_tensor parts = cli_parts_of(tensor);
    const bool whole = exg_dtype_is_integral(parts.dtype);
    const uint32_t bytes = exg_dtype_bytes(parts.dtype);
    const int64_t count = exg_tensor_numel(&parts);

    for (int64_t i = 0; i < count; i++) {
        double unit = (double)(draw(&state) >> 11) * 0x1p-53;
        double value = made->low + unit * (made->high - made->low);

        value = made->kind == RECIPE_CONSTANT ? made->low : value;
        value =
            whole && value < 0 && value != (double)(int64_t)value ? value - 1 : value; /* floor */
        exg_element_store(parts.dtype, (char *)parts.data + i * bytes, value);
    }
}

/* The elements of a file one after the other, and again from the first. */
static exg_status fill_from(exg_tensor *tensor, const char *name, const char *path, exg_error *err)
{
    const int64_t count = exg_tensor_numel(tensor);
    const exg_named_tensor *from;
    exg_tensor_file *file;
    exg_status status = EXG_OK;

    EXG_TRY_IN(err, cli_open_tensors(path, &file, err), "%s:", path);
    from = exg_tensor_file_find(file, name);
    from = from == NULL && file->count == 1 ? &file->items[0] : from;
    if (from == NULL || (from->bytes == 0 && count > 0) || exg_dtype_bytes(from->dtype) == 0) {
        status = EXG_FAIL(err, USAGE, "INP-008", "%s holds no elements for '%s'", path, name);
    } else {
        const uint32_t bytes = exg_dtype_bytes(tensor->dtype);
        const uint32_t from_bytes = exg_dtype_bytes(from->dtype);
        const int64_t from_count = (int64_t)(from->bytes / from_bytes);

        for (int64_t i = 0; i < count; i++) {
            const char *at = (const char *)from->data + (i % from_count) * from_bytes;
            char *to = (char *)tensor->data + i * bytes;

            if (from->dtype == tensor->dtype) {
                memcpy(to, at, bytes);
            } else {
                exg_element_store(tensor->dtype, to, exg_element_value(from->dtype, at));
            }
        }
    }
    exg_tensor_file_close(file);
    return status;
}

/* ---- an input ------------------------------------------------------------------------------- */

/* Of integers drawn at random: indices where the program takes them as such, else 0 and 1. */
static exg_status bound_integers(const cli_program *p, const exg_session_input *input,
                                 const exg_value *value, const exg_symbols *symbols, recipe *made,
                                 exg_error *err)
{
    int64_t limit = 0;

    if (made->kind != RECIPE_RANDOM || !exg_dtype_is_integral(input->tensor.dtype)) {
        return EXG_OK;
    }
    if (value != NULL && input->tensor.dtype != EXG_DTYPE_B8) {
        EXG_TRY(exg_index_limit(p->program, (exg_value_id)(value - p->program->graph->values),
                                symbols, &limit, err));
    }
    made->low = 0;
    made->high = limit > 0 ? (double)limit : 2;
    return EXG_OK;
}

static const char *describe(const recipe *made, exg_arena *arena)
{
    switch (made->kind) {
    case RECIPE_CONSTANT:
        return made->low > 0 ? "ones" : "zeros";
    case RECIPE_FILE:
        return exg_arena_printf(arena, "from %s", made->path);
    default:
        return exg_arena_printf(arena, "random, %.10g <= x < %.10g", made->low, made->high);
    }
}

/* Memory for it that this machine has, of zeros. */
static exg_status allocate(cli_inputs *inputs, exg_session_input *input, exg_error *err)
{
    uint64_t bytes = exg_dtype_bytes(input->tensor.dtype);
    uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    bool overflows = false;

    for (uint32_t d = 0; d < input->tensor.rank; d++) {
        overflows =
            __builtin_mul_overflow(bytes, (uint64_t)input->tensor.sizes[d], &bytes) || overflows;
    }
    if (overflows || bytes > most) {
        return exg_error_fix(err,
                             EXG_FAIL(err, LIMIT, "MEM-002",
                                      "input '%s' would take more memory than this machine has",
                                      input->name),
                             "ask for smaller sizes");
    }
    input->tensor.data = calloc(1, bytes + 1);
    if (input->tensor.data == NULL ||
        !exg_arena_reserve(inputs->arena, &inputs->blocks, inputs->block_count,
                           &inputs->block_capacity, sizeof(void *))) {
        free(input->tensor.data);
        return EXG_OUT_OF_MEMORY(err);
    }
    inputs->blocks[inputs->block_count++] = input->tensor.data;
    return EXG_OK;
}

static exg_status fill_input(const cli_call *call, const cli_program *p, cli_inputs *inputs,
                             cli_made *made, const exg_symbols *symbols, exg_error *err)
{
    exg_session_input *input = &inputs->items[made->item];
    recipe chosen = {0};

    exg_tensor_set_contiguous(&input->tensor);
    EXG_TRY(choose_recipe(call, input->name, &chosen, err));
    EXG_TRY(bound_integers(p, input, made->value, symbols, &chosen, err));
    made->how = describe(&chosen, inputs->arena);
    EXG_TRY(made->how == NULL ? EXG_OUT_OF_MEMORY(err) : allocate(inputs, input, err));
    if (chosen.kind == RECIPE_FILE) {
        return fill_from(&input->tensor, input->name, chosen.path, err);
    }
    made->is_drawn = chosen.kind != RECIPE_CONSTANT;
    fill_drawn(&input->tensor, &chosen,
               begin_draws(call->has_seed ? (uint64_t)call->seed : 0, input->name));
    return EXG_OK;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static exg_status bind(const exg_program *program, const cli_inputs *inputs, exg_symbols *symbols,
                       exg_error *err)
{
    exg_input_binding *bindings = EXG_NEW_ARRAY(inputs->arena, exg_input_binding, inputs->count);

    if (bindings == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t k = 0; k < inputs->count; k++) {
        const exg_session_input *input = &inputs->items[k];

        bindings[k] =
            (exg_input_binding){.name = input->name,
                                .kind = input->is_number ? EXG_ARGUMENT_INT : EXG_ARGUMENT_TENSOR,
                                .dtype = input->tensor.dtype,
                                .rank = input->tensor.rank,
                                .sizes = input->tensor.sizes,
                                .as_int = input->number};
        if (input->tensor.data != NULL && input->tensor.rank == 0 &&
            input->tensor.dtype == EXG_DTYPE_I64) {
            memcpy(&bindings[k].as_int, input->tensor.data, sizeof(int64_t));
        }
    }
    return exg_bind_asked(program, bindings, inputs->count, inputs->arena, symbols, err);
}

static exg_status evaluate(const char *name, const char *expression, const exg_symbols *symbols,
                           int64_t *size, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;

    if (exg_symint_evaluate(expression, symbols, size, NULL) == EXG_OK && *size >= 0) {
        return EXG_OK;
    }
    exg_print_expression(&text, expression);
    status = exg_error_fix(err,
                           EXG_FAIL(err, USAGE, "INP-014",
                                    "nothing says the size %.60s of input '%.60s'",
                                    exg_text_string(&text), name),
                           "--size or --shape says it");
    exg_text_free(&text);
    return status;
}

static exg_status add_missing(const exg_program *program, uint32_t i, const names *given,
                              cli_inputs *inputs, const exg_symbols *symbols, exg_error *err)
{
    const exg_value *value = user_value(program, i);
    exg_session_input *input;

    if (value == NULL || find_name(given, value->name) != NULL) {
        return EXG_OK;
    }
    if (value->tensor != NULL && value->tensor->rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "input '%s' of rank %u", value->name,
                        value->tensor->rank);
    }
    if (!exg_arena_reserve(inputs->arena, &inputs->items, inputs->count, &inputs->capacity,
                           sizeof(*inputs->items))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    input = &inputs->items[inputs->count];
    *input = (exg_session_input){.name = value->name, .is_number = value->tensor == NULL};
    if (value->tensor == NULL && value->sym_int != NULL) {
        input->number = value->sym_int->value;
        EXG_TRY(value->sym_int->expr == NULL
                    ? EXG_OK
                    : evaluate(value->name, value->sym_int->expr, symbols, &input->number, err));
    }
    for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
        const exg_sym_int *size = &value->tensor->sizes[d];

        input->tensor.sizes[d] = size->value;
        EXG_TRY(size->expr == NULL
                    ? EXG_OK
                    : evaluate(value->name, size->expr, symbols, &input->tensor.sizes[d], err));
    }
    input->tensor.dtype = value->tensor == NULL ? EXG_DTYPE_UNKNOWN : value->tensor->dtype;
    input->tensor.rank = value->tensor == NULL ? 0 : value->tensor->rank;
    inputs->count++;
    return EXG_OK;
}

/* Those without data. */
static exg_status list_made(const names *values, cli_inputs *inputs, exg_error *err)
{
    inputs->made = EXG_NEW_ARRAY(inputs->arena, cli_made, inputs->count);
    if (inputs->made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t k = 0; k < inputs->count; k++) {
        exg_session_input *input = &inputs->items[k];
        const named *found = find_name(values, input->name);
        const exg_value *value = found == NULL ? NULL : found->value;

        if (input->tensor.data != NULL || input->is_number) {
            continue;
        }
        if (input->tensor.dtype == EXG_DTYPE_UNKNOWN && value != NULL && value->tensor != NULL) {
            input->tensor.dtype = value->tensor->dtype;
        }
        exg_tensor_set_contiguous(&input->tensor);
        inputs->made[inputs->made_count++] = (cli_made){.item = k, .value = value};
    }
    return EXG_OK;
}

exg_status cli_make_inputs(const cli_call *call, const cli_program *p, bool fills,
                           cli_inputs *inputs, exg_error *err)
{
    const uint32_t given = inputs->count - call->shapes.count;
    exg_symbols symbols = {0};
    names named_items;
    names values;

    EXG_TRY(take_sizes(call, p->program, inputs->arena, &symbols, err));
    EXG_TRY(bind(p->program, inputs, &symbols, err));
    EXG_TRY(list_items(inputs, &named_items, err));
    for (uint32_t i = 0; i < p->program->graph->input_count; i++) {
        EXG_TRY(add_missing(p->program, i, &named_items, inputs, &symbols, err));
    }
    if (inputs->count == given && cli_makes_inputs(call)) {
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "INP-010", "all inputs are given: none is made up"),
            "leave %s out",
            call->shapes.count > 0  ? "--shape"
            : call->sizes.count > 0 ? "--size"
                                    : "--fill");
    }
    EXG_TRY(list_values(p->program, inputs->arena, &values, err));
    EXG_TRY(list_made(&values, inputs, err));
    EXG_TRY(check_fills(call, inputs, err));
    for (uint32_t m = 0; fills && m < inputs->made_count; m++) {
        EXG_TRY(fill_input(call, p, inputs, &inputs->made[m], &symbols, err));
    }
    return EXG_OK;
}

/* ---- told -------------------------------------------------------------------------------------
 */

static void put_sizes(exg_text *text, const exg_tensor *tensor)
{
    exg_text_printf(text, "%s[", exg_dtype_short_name(tensor->dtype));
    for (uint32_t d = 0; d < tensor->rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", tensor->sizes[d]);
    }
    exg_text_putc(text, ']');
}

void cli_put_made(exg_text *text, const cli_call *call, const cli_inputs *inputs)
{
    for (uint32_t m = 0; m < inputs->made_count; m++) {
        const cli_made *made = &inputs->made[m];

        exg_text_puts(text, "made up ");
        exg_text_plain(text, inputs->items[made->item].name, false);
        exg_text_puts(text, ": ");
        put_sizes(text, &inputs->items[made->item].tensor);
        exg_text_puts(text, " ");
        exg_text_plain(text, made->how, false);
        if (made->is_drawn) {
            exg_text_printf(text, ", seed %.0f", call->has_seed ? call->seed : 0);
        }
        exg_text_putc(text, '\n');
    }
}

void cli_put_made_json(exg_text *text, const cli_call *call, const cli_inputs *inputs)
{
    if (inputs->made_count == 0) {
        return;
    }
    exg_json_member_fixed(text, "seed", call->has_seed ? call->seed : 0, 0);
    exg_json_member_open(text, "made", '[');
    for (uint32_t m = 0; m < inputs->made_count; m++) {
        const exg_session_input *input = &inputs->items[inputs->made[m].item];

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", input->name);
        exg_json_member_text(text, "dtype", exg_dtype_name(input->tensor.dtype));
        exg_json_member_open(text, "shape", '[');
        for (uint32_t d = 0; d < input->tensor.rank; d++) {
            exg_json_put_int(text, input->tensor.sizes[d]);
        }
        exg_json_put_close(text, ']');
        exg_json_member_text(text, "elements", inputs->made[m].how);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}
