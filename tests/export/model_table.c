/* model_table.c - model.def speaks of every member of the structs that a program is made of. */
#include "libexport/program/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The rows of one C type; several structs may share it. */
static const struct {
    const char *c_type;
    exg_model_type type;
} structs[] = {
#define EXG_STRUCT(id, type, said) {#type, EXG_MODEL_##id},
#include "libexport/program/model.def"
};

#define STRUCTS (sizeof(structs) / sizeof(structs[0]))

/* What a scalar of the table stands for together, and what is no part of what a program says. */
static const char *const others[] = {
    "exg_program.arena",
    "exg_program.weights", /* shared by copies, compared by themselves */
    "exg_signature_argument.as_int",
    "exg_signature_argument.as_float",
    "exg_signature_argument.as_bool",
    "exg_signature_argument.as_string",
    "exg_sample_input.storage",
    "exg_sample_input.as_int",
    "exg_sample_input.as_float",
    "exg_sample_input.as_bool",
    "exg_sample_input.as_string",
    "exg_range_constraint.min_val",
    "exg_range_constraint.max_val",
    "exg_range_constraint.has_min",
    "exg_range_constraint.has_max",
};

static bool is_other(const char *member)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(others[i], member) == 0) {
            return true;
        }
    }
    return false;
}

/* Has the C type rows, and is the offset that of a member or a count in one? */
static bool has_offset(const char *c_type, unsigned offset, bool *known)
{
    bool found = false;

    *known = false;
    for (size_t s = 0; s < STRUCTS; s++) {
        const exg_model *model = &exg_models[structs[s].type];

        if (strcmp(structs[s].c_type, c_type) != 0) {
            continue;
        }
        *known = true;
        for (uint32_t m = 0; m < model->member_count; m++) {
            const exg_model_member *member = &model->members[m];
            bool is_list = member->form == EXG_MODEL_LIST || member->form == EXG_MODEL_MAP;

            found = found || (member->form != EXG_MODEL_WITHIN && member->offset == offset) ||
                    (is_list && member->count_offset == offset);
        }
    }
    return found;
}

/* tests/abi/layout.txt has each member of each public struct, as the compiler sees it. */
static void every_member_of_a_struct_has_a_row(void **state)
{
    FILE *file = fopen("tests/abi/layout.txt", "r");
    char line[200];
    int count = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char c_type[80], member[80], whole[170];
        unsigned offset;
        bool known;

        if (sscanf(line, "offsetof %79[^.].%79s %u", c_type, member, &offset) != 3) {
            continue;
        }
        snprintf(whole, sizeof(whole), "%s.%s", c_type, member);
        if (!has_offset(c_type, offset, &known) && known && !is_other(whole)) {
            fail_msg("%s has no row in model.def", whole);
        }
        count += known;
    }
    fclose(file);
    assert_true(count > 120);
}

/* A map's items begin with their key; what is written as one member has it last. */
static void keys_are_first_and_bare_members_last(void **state)
{
    (void)state;
    for (int type = 0; type < EXG_MODEL_TYPE_COUNT; type++) {
        const exg_model *model = &exg_models[type];

        for (uint32_t m = 0; m < model->member_count; m++) {
            const exg_model_member *member = &model->members[m];

            assert_true(member->flag != EXG_MODEL_KEY || m == 0);
            assert_true(member->flag != EXG_MODEL_BARE || m + 1 == model->member_count);
            if (member->form == EXG_MODEL_MAP) {
                assert_int_equal(exg_models[member->type].members[0].flag, EXG_MODEL_KEY);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_of_a_struct_has_a_row),
        cmocka_unit_test(keys_are_first_and_bare_members_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
