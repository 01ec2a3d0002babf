/* contradictions.c - what comparisons and ranges leave of a size (SYM-013). What must be found is
 * counted out: every number is asked whether it fulfils them all. */
#include <exg/formats.h>
#include <exg/verify.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;
static exg_program *program;

/* The program asserts three things of u0, which has a range. */
static exg_sym_bool *asserted[3];
static exg_range_constraint *range;

static uint32_t verify(char *message, size_t room)
{
    exg_verified verified;
    exg_diagnostics found;
    uint32_t count = 0;

    exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
    for (uint32_t i = 0; i < found.count; i++) {
        if (strcmp(found.items[i].code, "SYM-013") == 0) {
            snprintf(message, room, "%s", found.items[i].message);
            assert_string_equal(found.items[i].where, "guards_code");
            count++;
        }
    }
    exg_diagnostics_free(&found);
    return count;
}

static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
static const char *const names[] = {"Equality", "Unequality",        "StrictLessThan",
                                    "LessThan", "StrictGreaterThan", "GreaterThan"};
static const int turned[] = {0, 1, 4, 5, 2, 3};

static bool holds(int sign, int64_t a, int64_t b)
{
    return sign == 0   ? a == b
           : sign == 1 ? a != b
           : sign == 2 ? a < b
           : sign == 3 ? a <= b
           : sign == 4 ? a > b
                       : a >= b;
}

static void set_range(int64_t least, int64_t most)
{
    range->has_min = range->has_max = true;
    range->min_val = least;
    range->max_val = most;
}

typedef struct comparison {
    int sign;
    int64_t number;
} comparison;

/* Written in one of the ways that there are. */
static void write(const comparison *c, int way, char *text, size_t room)
{
    const char *sign = signs[c->sign];
    const char *back = signs[turned[c->sign]];

    switch (way % 4) {
    case 0:
        snprintf(text, room, "u0 %s %" PRId64, sign, c->number);
        break;
    case 1:
        snprintf(text, room, "%" PRId64 " %s u0", c->number, back);
        break;
    case 2:
        snprintf(text, room, "%s(u0, Integer(%" PRId64 "))", names[c->sign], c->number);
        break;
    default:
        snprintf(text, room, "%s(%" PRId64 ", u0)", names[turned[c->sign]], c->number);
        break;
    }
}

static void check(const comparison *c, int count, int64_t least, int64_t most, int way)
{
    char texts[3][60];
    char message[200];
    bool left = false;
    uint32_t found;

    for (int i = 0; i < 3; i++) {
        snprintf(texts[i], sizeof(texts[i]), "u0 >= u1");
        if (i < count) {
            write(&c[i], way + i, texts[i], sizeof(texts[i]));
        }
        asserted[i]->expr = texts[i];
    }
    for (int64_t n = least; n <= most && !left; n++) {
        left = true;
        for (int i = 0; i < count; i++) {
            left = left && holds(c[i].sign, n, c[i].number);
        }
    }
    set_range(least, most);
    found = verify(message, sizeof(message));
    if (found != !left) {
        fail_msg("%s, %s, %s in %" PRId64 " to %" PRId64 ": found %u times", texts[0], texts[1],
                 texts[2], least, most, found);
    }
}

static void of_two_comparisons_something_is_left_or_not(void **state)
{
    int way = 0;

    (void)state;
    for (int a = 0; a < 18; a++) {
        for (int b = 0; b < 18; b++) {
            const comparison c[] = {{a % 6, a / 6 - 1}, {b % 6, b / 6 - 1}};

            check(c, 2, -1, 1, way++);
            check(c, 2, -3, 3, way / 4);
        }
    }
}

/* Whatever their order, as many as there are. */
static void numbers_are_excluded_until_nothing_is_left(void **state)
{
    (void)state;
    for (int64_t a = 4; a < 7; a++) {
        for (int64_t b = 4; b < 7; b++) {
            for (int64_t c = 4; c < 7; c++) {
                const comparison all[] = {{1, a}, {1, b}, {1, c}};

                check(all, 3, 4, 6, 0);
                check(all, 3, 3, 6, 1);
                check(all, 3, 4, 7, 2);
            }
        }
    }
}

typedef struct row {
    const char *text;
    int64_t least, most;
    const char *message; /* NULL: nothing is found */
} row;

static void what_is_left_is_told(void **state)
{
    static const row rows[] = {
        {"u0 == 7", 3, 5, "no number is left for 'u0': at least 7, at most 5"},
        {"u0 == 2", 3, 5, "no number is left for 'u0': at least 3, at most 2"},
        {"u0 > 5", 3, 5, "no number is left for 'u0': at least 6, at most 5"},
        {"u0 >= 7", 3, 5, "no number is left for 'u0': at least 7, at most 5"},
        {"u0 < 3", 3, 5, "no number is left for 'u0': at least 3, at most 2"},
        {"u0 <= 1", 3, 5, "no number is left for 'u0': at least 3, at most 1"},
        {"u0 != 4", 4, 4, "no number is left for 'u0': at least 5, at most 3"},
        {"Integer(-7) >= u0", -3, 5, "no number is left for 'u0': at least -3, at most -7"},
        /* the ends of what a size may be */
        {"u0 != 9223372036854775807", INT64_MAX, INT64_MAX,
         "no number is left for 'u0': at least 9223372036854775807, at most 9223372036854775806"},
        {"u0 > 9223372036854775806", 3, INT64_MAX - 1,
         "no number is left for 'u0': at least 9223372036854775807, at most 9223372036854775806"},
        {"u0 > 9223372036854775807", INT64_MAX, INT64_MAX, NULL}, /* there is no number to say it */
        {"u0 < -9223372036854775807", INT64_MIN, INT64_MAX, NULL},
        /* of these nothing is known */
        {"u0", 3, 5, NULL},
        {"u0 + 7", 3, 5, NULL},
        {"7 - u0", 3, 5, NULL},
        {"Mod(u0, 7)", 3, 5, NULL},
        {"Max(u0, 7)", 3, 5, NULL},
        {"u0 >= u1", 3, 5, NULL},
        {"u0 >= 7.5", 3, 5, NULL},
        {"u0 >= 9223372036854775808", 3, 5, NULL},
        {"u0 >= Abs(7)", 3, 5, NULL},
        {"u0 >= Max(7, 8)", 3, 5, NULL},
        {"u0 + 1 >= 7", 3, 5, NULL},
        {"7 >= 8", 3, 5, NULL},
        {"1 <= u0 <= 2", 3, 5, NULL},
        {"2 >= u0 >= 1", 3, 5, NULL},
        {"not u0 >= 1", 3, 5, NULL},
        {"u0 >=", 3, 5, NULL},
        {"nothing(u0, 7)", 3, 5, NULL},
        {"GreaterThan(u0, 7, 8)", 3, 5, NULL},
        {"u0 if u0 >= 7 else 8", 3, 5, NULL},
        /* an empty range is another rule's */
        {"u0 >= 7", 5, 3, NULL},
    };

    (void)state;
    asserted[1]->expr = asserted[2]->expr = "u0 >= u1";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char message[200] = "";

        asserted[0]->expr = rows[i].text;
        set_range(rows[i].least, rows[i].most);
        assert_in_range(verify(message, sizeof(message)), 0, 1);
        if (strcmp(message, rows[i].message == NULL ? "" : rows[i].message) != 0) {
            fail_msg("%s: %s", rows[i].text, message);
        }
    }
}

/* Ranges and assertions of other sizes leave this one as it is; each size is told of. */
static void sizes_have_ends_of_their_own(void **state)
{
    char message[200];

    (void)state;
    asserted[1]->expr = asserted[2]->expr = "u0 >= u1";
    asserted[0]->expr = "u1 >= 7";
    set_range(3, 5);
    assert_int_equal(verify(message, sizeof(message)), 0);
    asserted[0]->expr = "u0 >= 7";
    range->has_max = false;
    assert_int_equal(verify(message, sizeof(message)), 0);
    asserted[0]->expr = "u0 <= 2";
    assert_int_equal(verify(message, sizeof(message)), 1);
    range->has_max = true;
    range->has_min = false;
    assert_int_equal(verify(message, sizeof(message)), 0);
    asserted[0]->expr = "u9 >= 7"; /* of no range */
    asserted[1]->expr = "u9 <= 6";
    assert_int_equal(verify(message, sizeof(message)), 1);
    assert_string_equal(message, "no number is left for 'u9': at least 7, at most 6");
    asserted[2]->expr = "u0 >= 7";
    assert_int_equal(verify(message, sizeof(message)), 2);
    set_range(0, 99);
    for (uint32_t i = 0; i < program->range_constraint_count; i++) { /* not the first alone */
        exg_range_constraint *each = &program->range_constraints[i];
        const exg_range_constraint before = *each;
        char text[60];

        asserted[0]->expr = asserted[1]->expr = asserted[2]->expr = text;
        snprintf(text, sizeof(text), "%s < 2", each->symbol);
        each->has_min = true;
        each->min_val = 2;
        if (verify(message, sizeof(message)) != 1) {
            fail_msg("the range of %s", each->symbol);
        }
        each->has_max = true; /* an empty one is SYM-004's, and nothing else is looked at */
        each->max_val = 1;
        assert_int_equal(verify(message, sizeof(message)), 0);
        *each = before;
    }
}

static int begin(void **state)
{
    static const char *const values[] = {"ge_1", "le", "lt_1"};

    (void)state;
    if (exg_operators_create(&operators, NULL) != EXG_OK ||
        exg_open("tests/export/data/symbols.pt2", NULL, &program, NULL, NULL) != EXG_OK) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        asserted[i] =
            program->graph->values[exg_graph_find_value(program->graph, values[i])].sym_bool;
    }
    for (uint32_t i = 0; i < program->range_constraint_count; i++) {
        range = strcmp(program->range_constraints[i].symbol, "u0") == 0
                    ? &program->range_constraints[i]
                    : range;
    }
    return asserted[0] != NULL && asserted[1] != NULL && asserted[2] != NULL && range != NULL ? 0
                                                                                              : -1;
}

static int end(void **state)
{
    (void)state;
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_comparisons_something_is_left_or_not),
        cmocka_unit_test(numbers_are_excluded_until_nothing_is_left),
        cmocka_unit_test(what_is_left_is_told),
        cmocka_unit_test(sizes_have_ends_of_their_own),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
