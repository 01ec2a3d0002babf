/* overloads.c - every overload of data/overloads.txt is an operator of the table, is one that
 * runs graphs, or says why it is not there. */
#include "libexport/transform/inline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* "aten.add.Tensor" is "torch.ops.aten.add.Tensor"; Python's own functions are as they are. */
static bool is_known(const exg_operators *operators, const char *name)
{
    char target[200];

    snprintf(target, sizeof(target), "torch.ops.%s", name);
    return exg_operators_find(operators, name) != NULL ||
           exg_operators_find(operators, target) != NULL ||
           exg_higher_order_of(target) != EXG_HIGHER_ORDER_NOT;
}

static void every_overload_is_there_or_says_why(void **state)
{
    FILE *list = fopen("tests/export/data/overloads.txt", "rb");
    exg_operators *operators;
    char line[300];
    int named = 0;
    int wrong = 0;

    (void)state;
    assert_non_null(list);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    while (fgets(line, sizeof(line), list) != NULL) {
        char *reason = strpbrk(line, " \n");
        bool has_reason = reason != NULL && *reason == ' ';

        if (line[0] == '#') {
            continue;
        }
        assert_non_null(reason);
        *reason = '\0';
        named++;
        if (is_known(operators, line) == has_reason) {
            print_error("%s is %s\n", line, has_reason ? "there after all" : "not there");
            wrong++;
        }
    }
    fclose(list);
    exg_operators_destroy(operators);
    assert_true(named > 700);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_overload_is_there_or_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
