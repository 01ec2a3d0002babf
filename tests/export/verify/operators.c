/* operators.c - one node of a program, with its arguments and what is recorded of its results:
 * what is said of it. The results are those that PyTorch gives. */
#include <exg/emit.h>
#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct row {
    const char *target;  /* behind torch.ops.aten. */
    const char *inputs;  /* "f32[3,4] i64[]": called a, b, ...; with ! constant, with * expanded */
    const char *args;    /* "a 1 [2,3]": in the order of the schema; '-' is not given */
    const char *results; /* as recorded; in braces they are one list */
    const char *found;   /* what is said of it */
} row;

static const row rows[] = {
#include "tests/export/verify/operators.def"
};

enum { ITEMS_MAX = 8, LISTS_MAX = 6, ARGUMENTS_MAX = 16 };

/* "f32[s0,3]": s0 is 3, s1 is 4. */
static exg_tensor_meta meta_of(exg_builder *b, const char *text, size_t length)
{
    int64_t sizes[ITEMS_MAX];
    const char *symbols[ITEMS_MAX] = {NULL};
    exg_tensor_meta meta;
    uint32_t rank = 0;
    const char *at = memchr(text, '[', length);
    exg_dtype dtype = EXG_DTYPE_F32;

    assert_non_null(at);
    for (int d = 0; d < EXG_DTYPE_COUNT; d++) {
        const char *name = exg_dtype_short_name((exg_dtype)d);

        if (strlen(name) == (size_t)(at - text) && memcmp(name, text, strlen(name)) == 0) {
            dtype = (exg_dtype)d;
        }
    }
    for (at++; *at != ']'; at += *at == ',') {
        symbols[rank] = *at == 's' ? (at[1] == '0' ? "s0" : "s1") : NULL;
        sizes[rank] = *at == 's' ? at[1] - '0' + 3 : strtoll(at, NULL, 10);
        at += strcspn(at, ",]");
        rank++;
    }
    meta = exg_builder_meta(b, dtype, sizes, rank);
    for (uint32_t d = 0; d < rank; d++) {
        if (symbols[d] != NULL) {
            meta.sizes[d] = (exg_sym_int){symbols[d], sizes[d], true};
        }
    }
    if (text[length - 1] == '*') { /* expanded: all elements are one */
        for (uint32_t d = 0; d < rank; d++) {
            meta.strides[d].value = 0;
        }
    }
    return meta;
}

typedef struct call {
    exg_value_id inputs[ITEMS_MAX];
    int64_t numbers[LISTS_MAX][ITEMS_MAX];
    exg_value_id lists[LISTS_MAX][ITEMS_MAX];
    int list_count;
} call;

static exg_argument argument_of(call *c, const char *text)
{
    exg_argument arg = {.kind = EXG_ARGUMENT_NONE};

    if (*text == '[') {
        int list = c->list_count++;

        assert_true(list < LISTS_MAX);
        arg.kind = text[1] >= 'a' && text[1] <= 'h' ? EXG_ARGUMENT_TENSORS : EXG_ARGUMENT_INTS;
        for (text++; *text != ']'; text += *text == ',') {
            c->lists[list][arg.count] = c->inputs[(*text - 'a') & 7];
            c->numbers[list][arg.count++] = strtoll(text, NULL, 10);
            text += strcspn(text, ",]");
        }
        if (arg.kind == EXG_ARGUMENT_TENSORS) {
            arg.as_tensors = c->lists[list];
        } else {
            arg.as_ints = c->numbers[list];
        }
        return arg;
    }
    if (*text >= 'a' && *text <= 'h') {
        return (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = c->inputs[*text - 'a']};
    }
    if (*text == 'T' || *text == 'F') {
        return exg_arg_bool(*text == 'T');
    }
    if (*text == 'N') {
        return arg;
    }
    if (strchr(text, 'j') != NULL) {
        return (exg_argument){.kind = EXG_ARGUMENT_COMPLEX};
    }
    return strchr(text, '.') != NULL ? exg_arg_float(strtod(text, NULL))
                                     : exg_arg_int(strtoll(text, NULL, 10));
}

/* The words of `text`, one after the other. */
static bool next_word(const char **text, const char **word, size_t *length)
{
    *word = *text + strspn(*text, " {}");
    *length = strcspn(*word, " {}");
    *text = *word + *length;
    return *length > 0;
}

static void say(const exg_diagnostics *found, char *text, size_t room)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];
        size_t used = strlen(text);

        if (strncmp(d->code, "NOD-0", 5) == 0 || strcmp(d->code, "SYM-006") == 0) {
            snprintf(text + used, room - used, "%s%s %s", used > 0 ? "; " : "", d->code,
                     d->message);
        }
    }
}

/* The arguments of the node, with their names. */
static void give(call *c, const exg_operator *op, const char *words, exg_node *node,
                 exg_named_argument *arguments)
{
    const char *word;
    size_t length;

    node->inputs = arguments;
    node->input_count = 0;
    for (uint32_t a = 0; next_word(&words, &word, &length); a++) {
        char one[60];

        snprintf(one, sizeof(one), "%.*s", (int)length, word);
        if (*one != '-' || one[1] != '\0') {
            assert_true(node->input_count < ARGUMENTS_MAX);
            arguments[node->input_count++] = (exg_named_argument){
                .name = op->schema->arguments[a].name, .arg = argument_of(c, one)};
        }
    }
}

/* Makes the program of `r` and gives what is said of it. */
static void verify(const exg_operators *operators, const row *r, char *text, size_t room)
{
    char target[80];
    const exg_operator *op;
    exg_program *program;
    exg_builder *b;
    call c = {0};
    const char *words = r->inputs, *word;
    size_t length;
    const char *dialects[] = {"TRAINING"};
    exg_named_argument arguments[ARGUMENTS_MAX] = {0};
    exg_argument results[ITEMS_MAX] = {0};
    exg_value_id listed[ITEMS_MAX];
    exg_tensor_meta metas[3 * ITEMS_MAX];
    exg_verified verified;
    exg_diagnostics found;
    exg_ref first = EXG_NO_REF;
    exg_node *node;
    exg_error err;
    uint32_t count = 0, result_count = 0;

    snprintf(target, sizeof(target), "torch.ops.aten.%s", r->target);
    op = exg_operators_find(operators, target);
    assert_non_null(op);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    for (char name[] = "a"; next_word(&words, &word, &length); name[0]++) {
        exg_tensor_meta meta = meta_of(b, word, length);
        exg_ref ref = exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);

        c.inputs[count++] = ref.id;
        first = count == 1 ? ref : first;
    }
    results[0] = exg_arg_ref(EMIT(b, clone_default, first));
    exg_builder_output(b, &results[0], EXG_OUTPUT_USER, NULL);
    for (words = r->results; next_word(&words, &word, &length); result_count++) {
        char name[] = "r0";
        exg_tensor_meta meta = meta_of(b, word, length);

        name[1] = (char)('0' + result_count);
        results[result_count] = exg_arg_ref(exg_builder_value(b, name, &meta));
        listed[result_count] = results[result_count].as_tensor;
    }
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fail_msg("%s of %s: %s", r->target, r->inputs, err.message);
    }
    count = 0;
    for (words = r->inputs; next_word(&words, &word, &length); count++) {
        if (word[length - 1] == '!') {
            program->signature.inputs[count].kind = EXG_INPUT_CONSTANT_TENSOR;
        }
    }
    program->verifiers = dialects;
    program->verifier_count = 1;
    node = &program->graph->nodes[0];
    node->target = target;
    node->outputs = results;
    node->output_count = result_count;
    if (r->results[0] == '{') {
        results[0] = (exg_argument){
            .kind = EXG_ARGUMENT_TENSORS, .count = result_count, .as_tensors = listed};
        node->output_count = 1;
    }
    give(&c, op, r->args, node, arguments);
    for (uint32_t i = 0; i < program->graph->value_count; i++) {
        metas[i] = *program->graph->values[i].tensor;
    }
    exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
    for (uint32_t i = 0; i < program->graph->value_count; i++) { /* it changes nothing */
        assert_memory_equal(program->graph->values[i].tensor, &metas[i], sizeof(*metas));
    }
    say(&found, text, room);
    exg_diagnostics_free(&found);
    exg_program_destroy(program);
}

static void results_are_those_of_pytorch(void **state)
{
    exg_operators *operators;
    int faults = 0;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[2000];

        verify(operators, &rows[i], text, sizeof(text));
        if (strcmp(text, rows[i].found) != 0) {
            print_message("%s(%s) of %s as %s:\n  %s\n  not %s\n", rows[i].target, rows[i].args,
                          rows[i].inputs, rows[i].results, text, rows[i].found);
            faults++;
        }
    }
    exg_operators_destroy(operators);
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_pytorch)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
