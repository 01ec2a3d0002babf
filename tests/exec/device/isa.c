/* isa.c - the level of instructions that a process chooses, once. */
#include <exg/device.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_level_that_there_is_not_is_refused_with_those_there_are(void **state)
{
    exg_error err;

    (void)state;
    assert_int_equal(exg_isa_choose("v99", &err), EXG_USAGE);
    assert_string_equal(err.code, "DEV-013");
    for (uint32_t i = 0; exg_isa_level(i) != NULL; i++) {
        assert_non_null(strstr(err.fix, exg_isa_level(i)));
    }
    assert_string_equal(exg_isa_level(0), "generic");
    assert_null(exg_isa_level(100));
}

static void a_level_is_chosen_before_one_is_in_force(void **state)
{
    exg_device_info *info;
    exg_error err;

    (void)state;
    assert_int_equal(exg_isa_choose("generic", &err), EXG_OK);
    assert_int_equal(exg_device_describe("cpu", 0, &info, &err), EXG_OK);
    assert_string_equal(info->architecture, "generic");
    free(info);
    assert_int_equal(exg_isa_choose("generic", &err), EXG_OK);
    for (uint32_t i = 1; exg_isa_level(i) != NULL; i++) {
        assert_int_equal(exg_isa_choose(exg_isa_level(i), &err), EXG_USAGE);
        assert_string_equal(err.code, "DEV-014");
    }
    assert_int_equal(exg_device_describe("cpu", 0, &info, &err), EXG_OK);
    assert_string_equal(info->architecture, "generic");
    free(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_that_there_is_not_is_refused_with_those_there_are),
        cmocka_unit_test(a_level_is_chosen_before_one_is_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
