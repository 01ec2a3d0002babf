/* held.c - numbers that become elements are taken and refused as PyTorch does, which has told in
 * fixtures/operators/held.txt: target, parameter, dtype, the numbers taken, "refused", the others.
 * One without a point, an exponent or letters is an integer. */
#include "libexport/operators/shape.h"

#include <exg/emit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARGUMENTS_MAX 16

static exg_dtype dtype_named(const char *name)
{
    for (exg_dtype d = 0; d < EXG_DTYPE_COUNT; d++) {
        if (strcmp(exg_dtype_name(d), name) == 0) {
            return d;
        }
    }
    fail_msg("no dtype %s", name);
    return EXG_DTYPE_F32;
}

static exg_argument number_of(const char *text)
{
    return strpbrk(text, ".einfa") == NULL ? exg_arg_int(strtoll(text, NULL, 10))
                                           : exg_arg_float(strtod(text, NULL));
}

static uint32_t position_of(const exg_operator *op, const char *parameter)
{
    uint32_t i = 0;

    while (i < op->schema->argument_count &&
           strcmp(op->schema->arguments[i].name, parameter) != 0) {
        i++;
    }
    assert_true(i < op->schema->argument_count && i < ARGUMENTS_MAX);
    return i;
}

/* The rest of a line; how many numbers are judged otherwise. */
static int judge(const exg_operator *op, uint32_t at, exg_dtype dtype, char *rest)
{
    exg_argument args[ARGUMENTS_MAX];
    bool is_taken = true;
    int wrong = 0;
    exg_error err;

    for (uint32_t i = 0; i < ARGUMENTS_MAX; i++) {
        args[i] = exg_arg_none();
    }
    for (char *word = strtok(rest, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        if (strcmp(word, "refused") == 0) {
            is_taken = false;
            continue;
        }
        args[at] = number_of(word);
        if ((exg_check_held(op, args, dtype, &err) == EXG_OK) != is_taken) {
            print_error("%s of %s: PyTorch %s %s\n", op->target, exg_dtype_name(dtype),
                        is_taken ? "takes" : "refuses", word);
            wrong++;
        }
    }
    return wrong;
}

static void numbers_are_taken_as_pytorch_takes_them(void **state)
{
    FILE *list = fopen("fixtures/operators/held.txt", "rb");
    exg_operators *operators;
    char line[1000];
    int lines = 0;
    int wrong = 0;

    (void)state;
    assert_non_null(list);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    while (fgets(line, sizeof(line), list) != NULL) {
        char target[80], parameter[40], dtype[20], full[100];
        const exg_operator *op;
        int used = 0;

        assert_int_equal(sscanf(line, "%79s %39s %19s %n", target, parameter, dtype, &used), 3);
        snprintf(full, sizeof(full), "torch.ops.%s", target);
        op = exg_operators_find(operators, full);
        assert_non_null(op);
        wrong += judge(op, position_of(op, parameter), dtype_named(dtype), line + used);
        lines++;
    }
    fclose(list);
    exg_operators_destroy(operators);
    assert_true(lines > 100);
    assert_int_equal(wrong, 0);
}

/* The check stands where operators are emitted: those with a shape, and those written out. */
static void a_number_that_is_no_element_is_refused_where_it_is_emitted(void **state)
{
    static const struct {
        exg_operator_id id;
        int64_t number;
        bool is_taken;
    } rows[] = {
        {EXG_OP_full_like_default, 300, false},
        {EXG_OP_full_like_default, 255, true},
        {EXG_OP_fill_Scalar, 300, false},
        {EXG_OP_fill_Scalar, -255, true},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const int64_t sizes[] = {3};
        exg_operators *operators;
        exg_program *program;
        exg_tensor_meta meta;
        exg_builder *b;
        exg_argument args[2];

        assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
        assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        meta = exg_builder_meta(b, EXG_DTYPE_U8, sizes, 1);
        args[0] = exg_arg_ref(exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
        args[1] = exg_arg_int(rows[r].number);
        (void)exg_emit(b, rows[r].id, args, 2);
        assert_int_equal(exg_builder_status(b) == EXG_OK, rows[r].is_taken);
        exg_builder_destroy(b);
        exg_program_destroy(program);
        exg_operators_destroy(operators);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_taken_as_pytorch_takes_them),
        cmocka_unit_test(a_number_that_is_no_element_is_refused_where_it_is_emitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
