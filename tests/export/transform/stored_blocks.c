/* stored_blocks.c - parameters that a file has in blocks of GGML become the parts of these, from
 * which the numbers come that gguf-py decodes. */
#include <exg/emit.h>
#include <exg/formats.h>
#include <exg/transform.h>
#include <exg/verify.h>

#include "libexport/base/element.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ELEMENTS_MAX 256

static exg_operators *operators;
static exg_weights *blocks, *decoded;

static exg_weights *open_weights(const char *path)
{
    exg_weights *weights = NULL;

    assert_int_equal(exg_weights_open(path, NULL, &weights, NULL, NULL), EXG_OK);
    return weights;
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    blocks = open_weights("fixtures/weights/blocks.gguf");
    decoded = open_weights("fixtures/weights/blocks.decoded.safetensors");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    exg_weights_release(blocks);
    exg_weights_release(decoded);
    exg_operators_destroy(operators);
    return 0;
}

/* A parameter, and a buffer of the same name behind it, of which the program gives something. */
static exg_program *program_of(const char *name, exg_dtype dtype, const int64_t *sizes,
                               uint32_t rank, exg_input_kind kind)
{
    static const float zeros[4 * ELEMENTS_MAX];
    exg_program *program = NULL;
    exg_builder *b = NULL;
    exg_tensor_meta meta;
    exg_argument out;

    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, dtype, sizes, rank);
    out = exg_arg_ref(EMIT(b, relu_default, exg_builder_weight(b, name, &meta, kind, zeros)));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    return program;
}

static const exg_weight *part_of(const exg_weights *weights, const char *name, const char *part)
{
    char fqn[64];

    snprintf(fqn, sizeof(fqn), "%s.%s", name, part);
    return exg_weights_find(weights, EXG_TABLE_STATE, fqn);
}

/* A part as float32, half bytes as two; gives how many. */
static uint32_t read_part(exg_weights *weights, const char *name, const char *part, float *out)
{
    const exg_weight *weight = part_of(weights, name, part);
    uint8_t bytes[4 * ELEMENTS_MAX];
    int64_t count = 0;

    if (weight == NULL) {
        return 0;
    }
    assert_true(exg_tensor_meta_numel(weight->meta, &count));
    assert_int_equal(exg_weight_read(weights, weight, bytes,
                                     (uint64_t)count * exg_dtype_bytes(weight->meta->dtype), NULL),
                     EXG_OK);
    for (int64_t i = 0; i < count; i++) {
        if (weight->meta->dtype == EXG_DTYPE_U8) {
            out[2 * i] = (float)(bytes[i] & 15);
            out[2 * i + 1] = (float)(bytes[i] >> 4);
        } else if (weight->meta->dtype == EXG_DTYPE_I8) {
            out[i] = (float)((const int8_t *)bytes)[i];
        } else if (weight->meta->dtype == EXG_DTYPE_F16) {
            uint16_t half;

            memcpy(&half, bytes + 2 * i, 2);
            out[i] = exg_f16_to_f32(half);
        } else {
            memcpy(&out[i], bytes + 4 * i, 4);
        }
    }
    return (uint32_t)count * (weight->meta->dtype == EXG_DTYPE_U8 ? 2 : 1);
}

static void check_parts(exg_weights *weights, const exg_program *program, const exg_weight *whole)
{
    const exg_node *node = &program->graph->nodes[0];
    float numbers[ELEMENTS_MAX], scales[ELEMENTS_MAX], offsets[ELEMENTS_MAX], want[ELEMENTS_MAX];
    uint32_t count = read_part(weights, whole->fqn, "qdata", numbers);
    uint32_t groups = read_part(weights, whole->fqn, "scale", scales);
    uint32_t added = read_part(weights, whole->fqn, "offset", offsets);

    assert_int_equal(exg_weight_read(decoded, whole, want, count * sizeof(float), NULL), EXG_OK);
    assert_true(added == 0 || added == groups);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t g = i / (count / groups);
        float product = scales[g] * (numbers[i] - (float)node->inputs[3].arg.as_int);

        assert_float_equal(added > 0 ? product + offsets[g] : product, want[i], 0);
    }
}

/* Of every kind of block whose numbers have scales by groups; the others stay. */
static void parameters_become_parts_of_blocks(void **state)
{
    static const char *const others[] = {"Q8_K",    "Q1_0",  "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS",
                                         "IQ3_XXS", "IQ3_S", "IQ2_S", "TQ1_0", "TQ2_0"};
    uint32_t taken = 0;

    (void)state;
    for (uint32_t i = 0; i < decoded->count; i++) {
        const exg_weight *whole = &decoded->items[i];
        int64_t sizes[2] = {whole->meta->sizes[0].value, whole->meta->sizes[1].value};
        exg_program *program = program_of(whole->fqn, EXG_DTYPE_F32, sizes, 2, EXG_INPUT_PARAMETER);
        exg_weights *rest = NULL;
        exg_verified verified;
        bool stays = false;

        for (size_t o = 0; o < sizeof(others) / sizeof(others[0]); o++) {
            stays = stays || strcmp(whole->fqn, others[o]) == 0;
        }
        assert_int_equal(exg_program_take_blocks(program, blocks, &rest, NULL), EXG_OK);
        assert_int_equal(exg_verify(program, operators, &verified, NULL, NULL), EXG_OK);
        if (stays != (part_of(rest, whole->fqn, "qdata") == NULL)) {
            fail_msg("%s", whole->fqn);
        }
        if (!stays) {
            assert_null(exg_weights_find(rest, EXG_TABLE_STATE, whole->fqn));
            assert_null(exg_weights_find(program->weights, EXG_TABLE_STATE, whole->fqn));
            assert_int_equal(program->graph->node_count, 2);
            check_parts(rest, program, whole);
            check_parts(program->weights, program, whole);
            taken++;
        } else {
            assert_int_equal(program->graph->node_count, 1);
        }
        exg_weights_release(rest);
        exg_program_destroy(program);
    }
    assert_int_equal(taken, 14);
}

/* Of another shape, dtype or kind nothing is taken: it is told when weights are filled in. */
static void what_does_not_fit_stays(void **state)
{
    static const struct {
        exg_dtype dtype;
        int64_t sizes[3];
        uint32_t rank;
        exg_input_kind kind;
        bool fits;
    } rows[] = {
        {EXG_DTYPE_F32, {2, 32}, 2, EXG_INPUT_PARAMETER, true},
        {EXG_DTYPE_BF16, {2, 32}, 2, EXG_INPUT_PARAMETER, true},
        {EXG_DTYPE_F64, {2, 32}, 2, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {2, 32}, 2, EXG_INPUT_BUFFER, false},
        {EXG_DTYPE_F32, {1, 32}, 2, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {2, 64}, 2, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {2, 31}, 2, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {2, 0}, 2, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {64}, 1, EXG_INPUT_PARAMETER, false},
        {EXG_DTYPE_F32, {1, 2, 32}, 3, EXG_INPUT_PARAMETER, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *program =
            program_of("Q4_0", rows[i].dtype, rows[i].sizes, rows[i].rank, rows[i].kind);
        exg_weights *rest = NULL;

        assert_int_equal(exg_program_take_blocks(program, blocks, &rest, NULL), EXG_OK);
        assert_int_equal(rest->count, blocks->count + rows[i].fits); /* two for one */
        assert_int_equal(program->graph->input_count, 1 + rows[i].fits);
        exg_weights_release(rest);
        exg_program_destroy(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_become_parts_of_blocks),
        cmocka_unit_test(what_does_not_fit_stays),
    };

    return cmocka_run_group_tests_name("stored_blocks", tests, set_up, tear_down);
}
