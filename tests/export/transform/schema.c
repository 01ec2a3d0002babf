/* schema.c - PyTorch's one-line declarations are read whole, and the two flags that
 * follow from them. The lines (schema_line.def) are PyTorch's own.
 */
#include "libexport/base/arena.h"
#include "libexport/operators/derived_schema.h"

#include <exg/operators.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const lines[] = {
#define SCHEMA_LINE(text) text,
#include "tests/export/transform/schema_line.def"
#undef SCHEMA_LINE
};
#define LINES (sizeof(lines) / sizeof(lines[0]))

static exg_arena *arena;

static exg_function_schema parse(const char *text)
{
    exg_function_schema schema;
    exg_error err;

    if (exg_function_schema_parse(arena, text, &schema, &err) != EXG_OK) {
        fail_msg("%s", err.message);
    }
    return schema;
}

static exg_function_schema find(const char *name)
{
    for (size_t i = 0; i < LINES; i++) {
        size_t length = strlen(name);

        if (strncmp(lines[i] + 6, name, length) == 0 && lines[i][6 + length] == '(') {
            return parse(lines[i]);
        }
    }
    fail_msg("no line of %s", name);
    return (exg_function_schema){0};
}

/* Commas outside of brackets, plus one: how many things a list holds. */
static uint32_t count_list(const char *from, const char *to)
{
    uint32_t count = from < to;
    int depth = 0;

    for (const char *c = from; c < to; c++) {
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        count += *c == ',' && depth == 0;
    }
    return count;
}

static void lines_of_pytorch_are_read_whole(void **state)
{
    (void)state;
    assert_true(LINES >= 40);
    for (size_t i = 0; i < LINES; i++) {
        exg_function_schema schema = parse(lines[i]);
        const char *open = strchr(lines[i], '(');
        const char *arrow = strstr(lines[i], ") -> ");
        const char *returns = arrow + 5;
        uint32_t stars = strstr(lines[i], "*, ") != NULL;
        uint32_t arguments = count_list(open + 1, arrow) - stars;
        uint32_t results = returns[0] == '(' ? count_list(returns + 1, strrchr(returns, ')')) : 1;

        assert_string_equal(schema.name_space, "aten");
        if (schema.argument_count != arguments || schema.return_count != results) {
            fail_msg("%s: %u arguments, %u results", lines[i], schema.argument_count,
                     schema.return_count);
        }
        for (uint32_t a = 0; a < schema.argument_count; a++) {
            assert_true(schema.arguments[a].name[0] != '\0');
        }
    }
}

static void dunder_names_are_in_place_when_they_write(void **state)
{
    (void)state; /* S000-08 */
    assert_false(find("__or__.Tensor").is_inplace);
    assert_false(find("__or__.Tensor").is_mutable);
    assert_true(find("__ior__.Tensor").is_inplace);
    assert_true(find("add_.Tensor").is_inplace);
    assert_false(find("add.Tensor").is_inplace);
    assert_true(find("_foreach_add_.Scalar").is_inplace);
    assert_false(find("_batch_norm_with_update").is_inplace);
    assert_true(find("_batch_norm_with_update").is_mutable);
}

static void out_variants_are_known_by_their_arguments(void **state)
{
    (void)state; /* S000-09 */
    assert_true(find("topk.values").is_out_variant);
    assert_false(find("topk.values").is_inplace);
    assert_true(find("add.out").is_out_variant);
    assert_false(find("to.dtype_layout").is_out_variant);
    assert_false(find("topk").is_out_variant);
    assert_false(find("__ior__.Tensor").is_out_variant);
}

static void types_defaults_and_marks_are_kept(void **state)
{
    exg_function_schema s = find("conv2d");
    int64_t ints[4];

    (void)state;
    assert_string_equal(s.name, "conv2d");
    assert_string_equal(s.overload, "");
    assert_true(s.arguments[2].type.is_optional && s.arguments[2].has_default);
    assert_true(exg_is_none(&s.arguments[2].default_value));
    assert_true(s.arguments[3].type.base == EXG_TYPE_SYM_INT && s.arguments[3].type.is_list);
    assert_int_equal(s.arguments[3].type.list_length, 2);
    assert_int_equal(exg_get_ints(&s.arguments[3].default_value, ints, 4), 2);
    assert_int_equal(ints[1], 1);

    s = find("add.Tensor");
    assert_string_equal(s.overload, "Tensor");
    assert_false(s.arguments[1].keyword_only);
    assert_true(s.arguments[2].keyword_only);
    assert_true(s.arguments[2].type.base == EXG_TYPE_SCALAR);
    assert_int_equal(exg_get_int(&s.arguments[2].default_value), 1);

    s = find("index.Tensor");
    assert_true(s.arguments[1].type.is_list && s.arguments[1].type.is_element_optional);
    assert_false(s.arguments[1].type.is_optional);

    s = find("split.Tensor");
    assert_int_equal(s.arguments[0].alias, 'a');
    assert_false(s.arguments[0].is_write);
    assert_true(s.returns[0].type.is_list);

    s = find("topk.values");
    assert_true(s.arguments[5].is_out && s.arguments[5].is_write && s.arguments[5].alias == 'a');
    assert_string_equal(s.returns[1].name, "indices");

    s = find("scaled_dot_product_attention");
    assert_true(exg_get_float(&s.arguments[4].default_value) == 0.0);
    assert_false(exg_get_bool(&s.arguments[5].default_value));
}

static void what_is_no_schema_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "aten",
        "aten::",
        "aten::add",
        "aten::add(",
        "aten::add(Tensor self",
        "aten::add(Tensor self)",
        "aten::add(Tensor self) ->",
        "aten::add(Tensor) -> Tensor",
        "aten::add(Tensor self,, Tensor other) -> Tensor",
        "aten::add(Tensr self) -> Tensor",
        "aten::add(Tensor(a self) -> Tensor",
        "aten::add(Tensor[ self) -> Tensor",
        "aten::add(int a=) -> Tensor",
        "aten::add(Tensor self) -> Tensor, Tensor",
        "aten::add(Tensor self) -> (Tensor",
        "add(Tensor self) -> Tensor",
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_function_schema schema;
        exg_error err;

        if (exg_function_schema_parse(arena, rows[r], &schema, &err) != EXG_MALFORMED) {
            fail_msg("'%s' is taken for a schema", rows[r]);
        }
        assert_string_equal(err.code, "SCH-001");
    }
}

/* Rows that say something else on purpose. */
static const char *const others[] = {
    "aten.contiguous.default", /* the memory format by its name */
    "aten.pinverse.default",   /* the shortest number that is the same */
    "aten.randint.default",    /* ScalarType? dtype=4: int64 by what is drawn */
    "aten.randint.low",
    "aten.randperm.default",
    "aten.resize_.default", /* gives another tensor */
    "aten.resize_as_.default",
    "aten._scaled_dot_product_flash_attention_backward.default", /* tensors that graphs leave out */
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

static bool is_other(const char *target)
{
    bool is = false;

    for (size_t i = 0; i < OTHERS; i++) {
        is = is || strcmp(others[i], target + strlen("torch.ops.")) == 0;
    }
    return is;
}

/* Also of the rows that write none, whose schema follows from another row's. */
static void rows_have_the_schemas_of_pytorch(void **state)
{
    FILE *file = fopen("fixtures/schemas/aten.txt", "r");
    exg_operators *operators;
    char line[4000];
    size_t found = 0;
    size_t other = 0;

    (void)state;
    assert_non_null(file);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    while (fgets(line, sizeof(line), file) != NULL) {
        char *text = strchr(line, ' ') + 1;
        exg_function_schema schema;
        const exg_operator *op;

        text[strcspn(text, "\n")] = '\0';
        schema = parse(text);
        op = exg_operators_find(
            operators, exg_arena_printf(arena, "torch.ops.%s.%s.%s", schema.name_space, schema.name,
                                        schema.overload[0] == '\0' ? "default" : schema.overload));
        if (op != NULL && strcmp(op->schema->text, text) == 0) {
            found++;
        } else if (op != NULL) {
            if (!is_other(op->target)) {
                fail_msg("%s", op->schema->text);
            }
            other++;
        }
    }
    fclose(file);
    assert_int_equal(found, 2144);
    assert_int_equal(other, OTHERS);
    exg_operators_destroy(operators);
}

static void a_row_is_named_after_the_one_it_follows_from(void **state)
{
    static const struct {
        exg_schema_form *form;
        const char *id, *schema; /* NULL: refused */
    } rows[] = {
        {exg_schema_inplace, "add__Tensor",
         "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"},
        {exg_schema_inplace, "add__default",
         "aten::add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"},
        {exg_schema_inplace, "add_Tensor", NULL},
        {exg_schema_inplace, "sub__Tensor", NULL},
        {exg_schema_out, "adds_out", NULL},
        {exg_schema_out, "add", NULL},
        {exg_schema_copy, "add_Tensor", NULL},
        {exg_schema_copy, "add_copyTensor", NULL},
    };
    exg_function_schema of = find("add.Tensor");

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_text text = EXG_TEXT_EMPTY;
        exg_error err;

        if (rows[r].schema != NULL) {
            assert_int_equal(rows[r].form(&text, rows[r].id, &of, &err), EXG_OK);
            assert_string_equal(exg_text_string(&text), rows[r].schema);
        } else {
            assert_int_equal(rows[r].form(&text, rows[r].id, &of, &err), EXG_MALFORMED);
            assert_string_equal(err.code, "SCH-001");
        }
        exg_text_free(&text);
    }
}

static int begin(void **state)
{
    (void)state;
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    return arena == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    exg_arena_destroy(arena);
    return 0;
}

/* As torch.library.infer_schema writes them. */
static void defaults_of_every_type(void **state)
{
    exg_function_schema schema =
        parse("t::f(Tensor x, float[] f=[1.5, 2], bool[2] b=[True, False], str[] s=[\"a\", 'b'], "
              "Device d=\"cuda:1\", Device? e='cpu', Layout l=strided, int[] none=[], "
              "int[] i=[-3, 4]) -> Tensor");
    const exg_schema_argument *a = schema.arguments + 1;

    (void)state;
    assert_int_equal(a[0].default_value.kind, EXG_ARGUMENT_FLOATS);
    assert_true(a[0].default_value.as_floats[0] == 1.5 && a[0].default_value.as_floats[1] == 2);
    assert_int_equal(a[1].default_value.kind, EXG_ARGUMENT_BOOLS);
    assert_true(a[1].default_value.as_bools[0] && !a[1].default_value.as_bools[1]);
    assert_int_equal(a[2].default_value.kind, EXG_ARGUMENT_STRINGS);
    assert_string_equal(a[2].default_value.as_strings[1], "b");
    assert_string_equal(a[3].default_value.as_device.type, "cuda");
    assert_int_equal(a[3].default_value.as_device.index, 1);
    assert_string_equal(a[4].default_value.as_device.type, "cpu");
    assert_int_equal(a[4].default_value.as_device.index, -1);
    assert_int_equal(a[5].default_value.as_layout, EXG_LAYOUT_STRIDED);
    assert_int_equal(a[6].default_value.count, 0);
    assert_int_equal(a[7].default_value.as_ints[0], -3);
    for (uint32_t p = 0; p < 8; p++) {
        assert_true(exg_argument_fits(&a[p].default_value, &a[p].type));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_pytorch_are_read_whole),
        cmocka_unit_test(defaults_of_every_type),
        cmocka_unit_test(dunder_names_are_in_place_when_they_write),
        cmocka_unit_test(out_variants_are_known_by_their_arguments),
        cmocka_unit_test(types_defaults_and_marks_are_kept),
        cmocka_unit_test(what_is_no_schema_is_refused),
        cmocka_unit_test(rows_have_the_schemas_of_pytorch),
        cmocka_unit_test(a_row_is_named_after_the_one_it_follows_from),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
