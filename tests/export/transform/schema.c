/* schema.c - PyTorch's one-line declarations are read whole, and the two flags that
 * follow from them. The lines are PyTorch's own.
 */
#include "libexport/base/arena.h"

#include <exg/operators.h>

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const lines[] = {
    "aten::_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
    "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    "aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    "aten::stack(Tensor[] tensors, int dim=0) -> Tensor",
    "aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
    "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
    "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
    "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    "aten::item(Tensor self) -> Scalar",
    "aten::sym_size.int(Tensor self, int dim) -> SymInt",
    "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    "aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor",
    "aten::__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "aten::topk.values(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
    "aten::_assert_async.msg(Tensor self, str assert_msg) -> ()",
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

static int begin(void **state)
{
    (void)state;
    arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    return arena == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    exg_arena_destroy(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_pytorch_are_read_whole),
        cmocka_unit_test(dunder_names_are_in_place_when_they_write),
        cmocka_unit_test(out_variants_are_known_by_their_arguments),
        cmocka_unit_test(types_defaults_and_marks_are_kept),
        cmocka_unit_test(what_is_no_schema_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
