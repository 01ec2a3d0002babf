/* calls.c - calls of one operator with odd numbers, as a file may have them: each ends with the
 * code it should, or runs, and reads and writes nothing but its tensors (the sanitizers look). */
#include <exg/exec.h>
#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ARGS_MAX 16

/* A call as text: the operator (of aten, unless it says), then its arguments: "f32[2,3]" a tensor
 * of zeros, "[1,2]" a list, "[true,false]" one of flags, "1", "0.5", "true", "none". `code` is
 * what building, planning or running says. */
typedef struct row {
    const char *call;
    const char *code;
} row;

static const row rows[] = {
    {"index_select.default f32[] 0 i64[1]", ""},
    {"index_select.default f32[] 0 i64[17]", "NOD-017"},
    {"index_select.default f32[] 0 i64[0]", "NOD-017"},
    {"gather.default f32[0,5] -2 i64[0]", ""}, /* of another rank, where it is empty */
    {"gather.default f32[4,5,6] 2 i64[0]", ""},
    {"max_pool3d_with_indices.default f32[1,4,4,4] [3] [1] [1]", ""},
    {"max_pool3d_with_indices.default f32[1,4,4,4] [3] [1] [2]", "NOD-017"},
    {"max_pool3d_with_indices.default f32[1,4,4,4] [3] [1] [1048576,0,0]", "NOD-017"},
    {"max_pool3d_with_indices.default f32[1,4,4,4] [2147483647] [1] [0] [2147483647]", "NOD-017"},
    {"adaptive_max_pool1d.default f32[1,2,5] [3]", ""},
    {"adaptive_max_pool3d.default f32[1,2,2,2] [2147483647]", "SHP-002"},
    {"tensor_split.sections f32[5] 8", ""},
    {"tensor_split.sections f32[5] 0", "NOD-017"},
    {"tensor_split.sections f32[5] 2147483647", "OPR-008"},
    {"chunk.default f32[0,2] 3", ""},
    {"chunk.default f32[0,2] 1099511627776", "OPR-008"},
    {"chunk.default f32[5] 0", "NOD-017"},
    {"chunk.default f32[5] 2 1", "NOD-017"},
    {"split_with_sizes.default f32[5] [2,3]", ""},
    {"split_with_sizes.default f32[5] [2,4]", "NOD-017"},
    {"split_with_sizes.default f32[5] [2,3] 7", "NOD-017"},
    {"chunk.default f32[] 1", "NOD-017"},
    {"split.Tensor f32[5] 0", "NOD-017"},
    {"split.Tensor f32[5] -1", "NOD-017"},
    {"split.Tensor f32[0] 0", ""},
    {"split.Tensor f32[0,1099511627776] 1 1", "OPR-008"},
    {"unbind.int f32[0,1099511627776] 1", "OPR-008"},
    {"unbind.int f32[]", "NOD-017"},
    {"exg.bincount.size i64[3] f32[3] 5", ""},
    {"exg.bincount.size i64[3] f32[2] 5", "NOD-017"},
    {"exg.bincount.size i64[2,2]", "NOD-017"},
    {"exg.bincount.size f32[3]", "NOD-017"},
    {"exg.bincount.size i64[3] none -1", "NOD-017"},
    {"exg.bincount.size i64[3] none 9223372036854775807", "NOD-017"},
    {"_upsample_bilinear2d_aa.default u8[1,1,4,4] [3,2147483647] false", "OPR-002"},
    {"_upsample_bilinear2d_aa.default u8[1,1,4,0] [3,2147483647] false", "OPR-002"},
    {"upsample_bilinear2d.vec u8[1,1,4,4] [3,2147483647] false none", "OPR-002"},
    {"convolution.default f32[1,1,4,4] f32[1,1,3,3] none [2] [0] [1] true [1] 1", ""},
    {"convolution.default f32[1,1,4,4] f32[1,1,3,3] none [1] [0] [2] true [1] 1", ""},
    {"convolution.default f32[1,1,4,4] f32[1,1,3,3] none [2] [0] [1] true [2] 1", "NOD-017"},
    {"convolution.default f32[1,1,4,4] f32[1,1,3,3] none [1] [0] [1] true [1048576,8] 1",
     "NOD-017"},
    {"convolution.default f32[1,1,4,4] f32[1,1,0,3] none [1] [0] [1] false [0] 1", "NOD-017"},
    {"convolution.default f32[1,1,4,4] f32[0,1,3,3] none [1] [0] [1] false [0] 1", ""},
    {"convolution_backward.default f32[1,1,2,2] f32[1,1,4,4] f32[1,1,3,3] none [1,1] [0,0] [1,1] "
     "false [0,0] 1 [true,true,false]",
     ""},
    {"convolution_backward.default f32[1,1,3,3] f32[1,1,4,4] f32[1,1,3,3] none [1,1] [0,0] [1,1] "
     "false [0,0] 1 [true,true,false]",
     "NOD-017"},
    {"convolution_backward.default f32[1,1,2,2] f32[1,1,4,4] f32[1,2,3,3] none [1,1] [0,0] [1,1] "
     "false [0,0] 1 [true,true,false]",
     "NOD-017"},
    {"avg_pool2d_backward.default f32[1,2,2] f32[1,4,4] [2] [2] [0] false true none", ""},
    {"avg_pool2d_backward.default f32[1,9,2] f32[1,4,4] [2] [2] [0] false true none", "NOD-017"},
    {"avg_pool2d_backward.default f32[1,2,2] f32[1,4,4] [] [2] [0] false true none", "NOD-017"},
    {"adaptive_max_pool1d.default f32[1,2,5] [0]", ""},
    {"adaptive_max_pool2d.default f32[2,5,5] [0,2147483647]", ""},
    {"adaptive_max_pool1d.default f32[1,2,5] [-1]", "NOD-017"},
    {"slice_scatter.default f32[3,4] i64[1,4] 0 1 2", ""},
    {"slice_scatter.default f32[3,4] i64[2,4] 0 1 2", "NOD-017"},
    {"as_strided_scatter.default f32[3] f32[1,2,2] [2,2] [1,1]", "NOD-017"},
    {"as_strided_scatter.default f32[3] i64[2,2] [2,2] [2,1]", "NOD-017"},
    {"narrow.Tensor f32[5] 0 i64[] 5", ""},
    {"narrow.Tensor f32[5] 0 i64[] 6", "NOD-017"},
    {"narrow.Tensor f32[5] 0 i64[2] 1", "NOD-017"},
    {"narrow.Tensor f32[5] 1 i64[] 1", "NOD-017"},
    {"unfold_backward.default f32[3,3] [5] 0 3 1", ""},
    {"unfold_backward.default f32[3,3] [5,5] 0 3 1", "NOD-017"},
    {"unfold_backward.default f32[3,3] [6] 0 3 1", "NOD-017"},
    {"masked_scatter_backward.default f32[3] i64[3] [1099511627776,1099511627776]", "NOD-017"},
    {"masked_scatter_backward.default f32[3] i64[3] [-1]", "NOD-017"},
    {"_pdist_backward.default f32[3] f32[3,2] 2.0 f32[3]", ""},
    {"_pdist_backward.default f32[3] f32[1099511627776,0] 2.0 f32[3]", "NOD-017"},
    {"_pdist_backward.default f32[3] f32[3] 2.0 f32[3]", "NOD-017"},
    {"_cdist_backward.default f32[2,3] f32[2,4] f32[3,4] 2.0 f32[2,3]", ""},
    {"_cdist_backward.default f32[2,3] f32[4] f32[3,4] 2.0 f32[2,3]", "NOD-017"},
    {"glu_backward.default f32[2] f32[4] 0", ""},
    {"glu_backward.default f32[3] f32[4] 0", "NOD-017"},
    {"upsample_nearest2d.default f32[1,1,2,2] [3,3]", ""},
    {"upsample_nearest2d.default f32[1,1,2,2] [3]", "NOD-017"},
    {"upsample_bilinear2d.default f32[1,1,2,2] [3,-1] false", "NOD-017"},
    {"upsample_bilinear2d_backward.default f32[1,1,3,3] [3,3] [1,1,2,2] false", ""},
    {"upsample_bilinear2d_backward.default f32[1,1,3,3] [3,3] [1,1,2] false", "NOD-017"},
    {"upsample_bilinear2d_backward.default f32[1,1,3,3] [3,3] [1,1,2,0] false", "NOD-017"},
    {"upsample_nearest1d_backward.default f32[1,1,3] [3] [1,1,-2]", "NOD-017"},
    {"reflection_pad1d_backward.default f32[1,5] f32[1,3] [1,1]", ""},
    {"reflection_pad1d_backward.default f32[1,6] f32[1,3] [1,1]", "NOD-017"},
    {"reflection_pad1d_backward.default f32[1,7] f32[1,3] [3,1]", "NOD-017"},
    {"grid_sampler_2d_backward.default f32[1,1,2,3] f32[1,1,4,4] f32[1,2,3,2] 0 0 true "
     "[true,true]",
     ""},
    {"grid_sampler_2d_backward.default f32[1,1,2,3] f32[1,1,4,4] f32[1,2,3,2] 2 0 true "
     "[true,true]",
     ""},
    {"grid_sampler_2d_backward.default f32[1,1,2,3] f32[1,1,4,4] f32[1,2,3,2] 3 0 true "
     "[true,true]",
     "NOD-017"},
    {"grid_sampler_3d_backward.default f32[1,1,2,2,2] f32[1,1,2,2,2] f32[1,2,2,2,3] 2 0 true "
     "[true,true]",
     "NOD-017"},
    {"_weight_int4pack_mm_for_cpu.default f32[2,32] u8[4,16] 16 f32[2,4,2]", ""},
    {"_weight_int4pack_mm_for_cpu.default f32[2,32] u8[4,16] 24 f32[2,4,2]", "NOD-017"},
    {"_weight_int4pack_mm_for_cpu.default f32[2,32] u8[4,15] 16 f32[2,4,2]", "NOD-017"},
    {"_convert_weight_to_int4pack_for_cpu.default i32[4,16] 2", ""},
    {"_convert_weight_to_int4pack_for_cpu.default i32[3,16] 2", "NOD-017"},
    {"grid_sampler_2d_backward.default f32[1,1,2,3] f32[1,1,4,4] f32[1,2,2,2] 0 0 true "
     "[true,true]",
     "NOD-017"},
    {"grid_sampler_2d_backward.default f32[1,1,2] f32[1,1,4] f32[1,2,1] 0 0 true [true,true]",
     "NOD-017"},
    {"multi_margin_loss_backward.default f32[] f32[3,4] i64[3] 1 1", ""},
    {"multi_margin_loss_backward.default f32[] f32[3,4] i64[4] 1 1", "NOD-017"},
};

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_session_input inputs[ARGS_MAX];
    char names[ARGS_MAX][8];
    uint32_t input_count;
} made;

static uint32_t read_list(const char *text, int64_t *n)
{
    uint32_t count = 0;
    char *end;

    for (text = strchr(text, '[') + 1; *text != ']' && count < EXG_RANK_MAX; text = end) {
        n[count++] = strtoll(text, &end, 10);
        end += *end == ',';
    }
    return count;
}

static exg_argument read_tensor(made *m, const char *text)
{
    exg_session_input *in = &m->inputs[m->input_count];
    char *name = m->names[m->input_count++];
    exg_tensor_meta meta;

    in->name = name;
    (void)snprintf(name, sizeof(m->names[0]), "x%u", m->input_count);
    while (strncmp(text, exg_dtype_short_name(in->tensor.dtype),
                   (size_t)(strchr(text, '[') - text)) != 0) {
        in->tensor.dtype++;
    }
    in->tensor.rank = read_list(text, in->tensor.sizes);
    exg_tensor_set_contiguous(&in->tensor);
    in->tensor.data =
        calloc((size_t)exg_tensor_numel(&in->tensor) + 1, exg_dtype_bytes(in->tensor.dtype));
    meta = exg_builder_meta(m->b, in->tensor.dtype, in->tensor.sizes, in->tensor.rank);
    return exg_arg_ref(exg_builder_input(m->b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
}

static exg_argument read_flags(made *m, const char *text)
{
    exg_argument arg = {.kind = EXG_ARGUMENT_BOOLS};

    arg.as_bools = exg_arena_alloc(exg_builder_arena(m->b), EXG_RANK_MAX, sizeof(bool));
    for (; *text != ']'; text = strpbrk(text + 1, ",]")) {
        arg.as_bools[arg.count++] = text[1] == 't';
    }
    return arg;
}

static exg_argument read_argument(made *m, const char *text)
{
    int64_t n[EXG_RANK_MAX];
    uint32_t count;

    if (strncmp(text, "[true", 5) == 0 || strncmp(text, "[false", 6) == 0) {
        return read_flags(m, text);
    }
    if (text[0] == '[') {
        count = read_list(text, n);
        return exg_arg_ints(m->b, n, count);
    }
    if (strchr(text, '[') != NULL) {
        return read_tensor(m, text);
    }
    if (strcmp(text, "none") == 0) {
        return exg_arg_none();
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return exg_arg_bool(text[0] == 't');
    }
    return strchr(text, '.') == NULL ? exg_arg_int(strtoll(text, NULL, 10))
                                     : exg_arg_float(strtod(text, NULL));
}

/* Of a list each item. */
static void output(exg_builder *b, const exg_argument *result)
{
    if (result->kind != EXG_ARGUMENT_TENSORS) {
        exg_builder_output(b, result, EXG_OUTPUT_USER, NULL);
        return;
    }
    for (uint32_t i = 0; i < result->count; i++) {
        exg_argument item = exg_arg_ref((exg_ref){result->as_tensors[i]});

        exg_builder_output(b, &item, EXG_OUTPUT_USER, NULL);
    }
}

static exg_status build(made *m, const char *call, exg_error *err)
{
    exg_argument args[ARGS_MAX];
    exg_argument results[ARGS_MAX];
    const exg_operator *op;
    uint32_t count = 0;
    char target[80];
    char text[200];
    char *word;

    (void)snprintf(text, sizeof(text), "%s", call);
    word = strtok(text, " ");
    (void)snprintf(target, sizeof(target), "torch.ops.%s%s",
                   strncmp(word, "exg.", 4) == 0 ? "" : "aten.", word);
    op = exg_operators_find(m->operators, target);
    assert_non_null(op);
    while ((word = strtok(NULL, " ")) != NULL) {
        args[count++] = read_argument(m, word);
    }
    if (exg_emit_all(m->b, op->id, args, count, results) == EXG_OK) {
        for (uint32_t r = 0; r < op->schema->return_count; r++) {
            output(m->b, &results[r]);
        }
    }
    return exg_builder_finish(m->b, err);
}

static exg_status run(made *m, exg_error *err)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session *session = NULL;
    exg_verified verified;
    exg_status status;

    EXG_TRY(exg_verify(m->program, m->operators, &verified, NULL, err));
    EXG_TRY(exg_session_create(&verified, &options, &session, err));
    status = exg_session_run(session, m->inputs, m->input_count, err);
    exg_session_destroy(session);
    return status;
}

static void odd_calls_run_or_end_with_their_code(void **state)
{
    int faults = 0;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        made m = {0};
        exg_error err;

        exg_error_clear(&err);
        assert_int_equal(exg_operators_create(&m.operators, NULL), EXG_OK);
        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m.program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(m.operators, m.program, &m.b, NULL), EXG_OK);
        if (build(&m, rows[r].call, &err) == EXG_OK) {
            (void)run(&m, &err);
        }
        if (strcmp(err.code, rows[r].code) != 0) {
            print_message("  %s: '%s' %s\n", rows[r].call, err.code, err.message);
            faults++;
        }
        for (uint32_t i = 0; i < m.input_count; i++) {
            free(m.inputs[i].tensor.data);
        }
        exg_program_destroy(m.program);
        exg_operators_destroy(m.operators);
    }
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_calls_run_or_end_with_their_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
