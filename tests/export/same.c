/* same.c - a row that stands for another operator gives it its own arguments, one for one: of a
 * type that fits and a name that means the same, or named in dropped.def. What the other takes
 * besides has a default. */
#include <exg/operator_id_new.h>
#include <exg/operators.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef enum manner { ALIKE, WRITES, EACH, SIZED } manner;

typedef struct stand_in {
    exg_operator_id id, as;
    manner how;
} stand_in;

#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)
#define EXG_VIEW(id, schema, view, lowering, sharding)
#define EXG_SAME(id, schema, as)    {EXG_OP_##id, EXG_OP_##as, ALIKE},
#define EXG_COPY(id, as)            {EXG_OP_##id, EXG_OP_##as, ALIKE},
#define EXG_INPLACE(id, functional) {EXG_OP_##id, EXG_OP_##functional, ALIKE},
#define EXG_OUT(id, as)             {EXG_OP_##id, EXG_OP_##as, WRITES},
#define EXG_EACH(id, schema, as)    {EXG_OP_##id, EXG_OP_##as, EACH},
#define EXG_SIZED(of, size, sized)  {EXG_OP_##of, EXG_OP_##sized, SIZED},
static const stand_in rows[] = {
#include "libexport/operators/foreach.def"
#include "libexport/operators/inplace.def"
#include "libexport/operators/out.def"
#include "libexport/operators/prims.def"
#include "libexport/operators/random.def"
#include "libexport/operators/same.def"
#include "libexport/operators/sized.def"
};
#undef EXG_OPERATOR
#undef EXG_VIEW

static const struct {
    exg_operator_id id;
    const char *argument, *why;
} dropped[] = {
#define EXG_DROPPED(id, argument, why) {EXG_OP_##id, #argument, why},
#include "libexport/operators/dropped.def"
};

#define COUNT(array) (sizeof(array) / sizeof(array[0]))

/* Names of parameters that mean the same, as a row has them and as the other operator does. */
static const char *const names[][2] = {
    {"A", "self"},           {"a", "self"},         {"b", "other"},        {"b", "src"},
    {"grad", "grad_output"}, {"input", "a"},        {"input2", "tau"},     {"other", "exponent"},
    {"other", "max"},        {"other", "min"},      {"pred", "condition"}, {"scalar", "max"},
    {"scalar", "min"},       {"scalar", "other"},   {"scalars", "max"},    {"scalars", "min"},
    {"scalars", "other"},    {"scalars", "value"},  {"self", "A"},         {"self", "input"},
    {"self", "x"},           {"shape", "size"},     {"tensors1", "end"},   {"value", "src"},
    {"weights", "weight"},   {"self", "condition"}, {"inputs", "input"},   {"tensor", "self"},
    {"input", "self"},
};

static bool are_names_alike(const char *given, const char *taken)
{
    bool alike = strcmp(given, taken) == 0;

    for (size_t i = 0; i < COUNT(names); i++) {
        alike = alike || (strcmp(given, names[i][0]) == 0 && strcmp(taken, names[i][1]) == 0);
    }
    return alike;
}

static exg_type_base base_of(const exg_schema_type *type)
{
    return type->base == EXG_TYPE_SYM_INT ? EXG_TYPE_INT : type->base;
}

/* Does whatever fits the one fit the other? */
static bool goes_into(const exg_schema_type *given, const exg_schema_type *taken, manner how)
{
    const bool is_list = given->is_list && how != EACH;

    return base_of(given) == base_of(taken) && is_list == taken->is_list &&
           (!given->is_optional || taken->is_optional) &&
           (!given->is_element_optional || taken->is_element_optional) &&
           (given->list_length == taken->list_length || taken->list_length == 0);
}

/* Row of dropped.def, marked; -1: none. */
static bool is_dropped(exg_operator_id id, const char *argument, bool *used)
{
    bool is = false;

    for (size_t i = 0; i < COUNT(dropped); i++) {
        if (dropped[i].id == id && strcmp(dropped[i].argument, argument) == 0) {
            used[i] = is = true;
        }
    }
    return is;
}

static int compare(const exg_operators *operators, const stand_in *row, bool *used)
{
    const exg_operator *op = exg_operators_get(operators, row->id);
    const exg_function_schema *given = op->schema;
    const exg_function_schema *taken = exg_operators_get(operators, row->as)->schema;
    const uint32_t count = taken->argument_count - (row->how == SIZED);
    uint32_t at = 0;
    int wrong = 0;

    for (uint32_t i = 0; i < given->argument_count; i++) {
        const exg_schema_argument *g = &given->arguments[i];
        const exg_schema_argument *t = &taken->arguments[at];

        if ((row->how == WRITES && g->is_out) || is_dropped(row->id, g->name, used)) {
            continue;
        }
        if (at >= count) {
            print_error("%s: %s has no place for '%s'\n", op->target, taken->text, g->name);
            wrong++;
        } else if (!goes_into(&g->type, &t->type, row->how) || !are_names_alike(g->name, t->name)) {
            print_error("%s: '%s' goes to '%s' of %s\n", op->target, g->name, t->name, taken->text);
            wrong++;
        }
        at++;
    }
    for (; at < count; at++) {
        if (!taken->arguments[at].has_default) {
            print_error("%s: nothing for '%s' of %s\n", op->target, taken->arguments[at].name,
                        taken->text);
            wrong++;
        }
    }
    return wrong;
}

static void rows_that_stand_for_others_give_them_their_arguments(void **state)
{
    bool used[COUNT(dropped)] = {false};
    exg_operators *operators;
    int wrong = 0;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t r = 0; r < COUNT(rows); r++) {
        if (rows[r].id != rows[r].as) { /* of sized.def, which takes the number itself */
            wrong += compare(operators, &rows[r], used);
        }
    }
    for (size_t i = 0; i < COUNT(dropped); i++) {
        if (!used[i] || dropped[i].why[0] == '\0') {
            print_error("%s: '%s' in dropped.def is not there, or has no reason\n",
                        exg_operators_get(operators, dropped[i].id)->target, dropped[i].argument);
            wrong++;
        }
    }
    exg_operators_destroy(operators);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_stand_for_others_give_them_their_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
