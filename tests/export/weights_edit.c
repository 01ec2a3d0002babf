/* weights_edit.c - weights with other names, dtypes and shapes, and fewer of them. What is expected
 * is written here; run_edit.py compares casts with PyTorch. */
#include <exg/formats.h>
#include <exg/weights_edit.h>

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const float numbers[] = {1, 2, 3, 4, 5, 6};

/* A packed tensor of its own storage, or of that of another. */
static void add(exg_weights *weights, const char *name, exg_dtype dtype, const void *data,
                uint32_t rank, int64_t rows, int64_t columns)
{
    exg_storage storage = {
        .kind = EXG_STORAGE_MEMORY,
        .length = (uint64_t)(rows * columns) * exg_dtype_bytes(dtype),
        .data = data,
    };
    exg_sym_int sizes[] = {exg_sym_int_of(rows), exg_sym_int_of(columns)};
    exg_sym_int strides[] = {exg_sym_int_of(rank == 2 ? columns : 1), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = rank,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = name, .meta = &meta};
    exg_error err;

    exg_error_clear(&err);
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        if (weights->storages[i].data == data && weights->storages[i].length == storage.length) {
            weight.storage = i;
            assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
            return;
        }
    }
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
}

/* As a training checkpoint names them. */
static exg_weights *checkpoint(void)
{
    static const float others[] = {1, 2, 3, 4, 5, 7};
    static const float equal[] = {1, 2, 3, 4, 5, 6};
    static const int64_t steps[] = {7};
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    add(weights, "state_dict.in.weight", EXG_DTYPE_F32, numbers, 2, 2, 3);
    add(weights, "state_dict.out.weight", EXG_DTYPE_F32, numbers, 2, 2, 3);
    add(weights, "state_dict.out.bias", EXG_DTYPE_F32, others, 1, 6, 1);
    add(weights, "state_dict.again", EXG_DTYPE_F32, equal, 2, 2, 3);
    add(weights, "optimizer.step", EXG_DTYPE_I64, steps, 1, 1, 1);
    assert_int_equal(exg_weights_add_metadata(weights, "epoch", "3", &err), EXG_OK);
    assert_int_equal(exg_weights_add_metadata(weights, "optimizer.lr", "0.1", &err), EXG_OK);
    return weights;
}

static exg_weights *edited(exg_weights *of, exg_weights_edit_options options)
{
    exg_weights *made = NULL;
    exg_error err;

    exg_error_clear(&err);
    options.size = sizeof(options);
    if (exg_weights_edit(of, &options, &made, &err) != EXG_OK) {
        fail_msg("%s %s: %s", err.code, err.where, err.message);
    }
    exg_weights_release(of); /* what is made keeps it */
    return made;
}

/* Names with blanks between, in order. */
static void assert_names(exg_weights *weights, const char *names)
{
    char all[512] = "";

    for (uint32_t i = 0; i < weights->count; i++) {
        strcat(all, i == 0 ? "" : " ");
        strcat(all, weights->items[i].fqn);
    }
    assert_string_equal(all, names);
    exg_weights_release(weights);
}

static void it_takes_the_tensors_that_patterns_fit(void **state)
{
    static const char *const outs[] = {"*.out.*", "optimizer.*"};
    static const char *const biases[] = {"*.bia[rs]"};

    (void)state;
    assert_names(edited(checkpoint(), (exg_weights_edit_options){.select = outs,
                                                                 .select_count = 2,
                                                                 .exclude = biases,
                                                                 .exclude_count = 1}),
                 "state_dict.out.weight optimizer.step");
}

static void it_takes_the_model_of_a_training_checkpoint(void **state)
{
    exg_weights *weights = edited(checkpoint(), (exg_weights_edit_options){.model_only = true});

    (void)state;
    assert_int_equal(weights->metadata.count, 1);
    assert_string_equal(weights->metadata.items[0].key, "epoch");
    assert_names(weights, "in.weight out.weight out.bias again");
}

static void hear_kept(void *user, const char *name, const char *why)
{
    char *heard = user;

    strcat(strcat(strcat(heard, name), ": "), why);
}

/* "model" is a name of the model only where all of it lies below. */
static void names_that_only_look_like_a_checkpoint_stay(void **state)
{
    exg_weights *weights = NULL;
    char heard[200] = "";
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    add(weights, "model.embed", EXG_DTYPE_F32, numbers, 1, 6, 1);
    add(weights, "lm_head", EXG_DTYPE_F32, numbers, 1, 6, 1);
    assert_names(
        edited(weights,
               (exg_weights_edit_options){.model_only = true, .kept = hear_kept, .user = heard}),
        "model.embed lm_head");
    assert_string_equal(heard, "lm_head: it is beside the model, or a part of it");
}

/* As PyTorch's example for ImageNet saves it: "best_acc1" is a tensor beside "state_dict". */
static void a_number_beside_the_model_stays_behind(void **state)
{
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    add(weights, "state_dict.fc", EXG_DTYPE_F32, numbers, 1, 6, 1);
    add(weights, "best_acc1", EXG_DTYPE_F32, numbers, 0, 1, 1);
    assert_names(edited(weights, (exg_weights_edit_options){.model_only = true}), "fc");
}

static void it_renames_by_prefix_then_by_expressions(void **state)
{
    static const char *const prefixes[] = {"module.", "state_dict."};
    exg_string_pair pairs[] = {{"^(in|out)\\.(.)[a-z]*$", "layers.\\1.\\2\\\\"}, {"a", "[\\0]"}};

    (void)state;
    assert_names(edited(checkpoint(), (exg_weights_edit_options){.prefixes = prefixes,
                                                                 .prefix_count = 2,
                                                                 .renames = {pairs, 2},
                                                                 .lenient = true}),
                 "l[a]yers.in.w\\ l[a]yers.out.w\\ l[a]yers.out.b\\ [a]g[a]in optimizer.step");
}

static void it_sets_and_removes_metadata(void **state)
{
    exg_string_pair pairs[] = {{"format", "pt"}, {"epoch", ""}, {"optimizer.lr", "0.2"}};
    exg_weights *weights = edited(checkpoint(), (exg_weights_edit_options){.metadata = {pairs, 3}});

    (void)state;
    assert_int_equal(weights->metadata.count, 2);
    assert_string_equal(weights->metadata.items[0].key, "optimizer.lr");
    assert_string_equal(weights->metadata.items[0].value, "0.2");
    assert_string_equal(weights->metadata.items[1].key, "format");
    assert_string_equal(weights->metadata.items[1].value, "pt");
    exg_weights_release(weights);
}

static void it_swaps_the_last_two_dimensions(void **state)
{
    static const char *const patterns[] = {"*.in.*"};
    static const float want[] = {1, 4, 2, 5, 3, 6};
    exg_weights *weights = edited(
        checkpoint(), (exg_weights_edit_options){.transposes = patterns, .transpose_count = 1});
    float got[6];
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(weights->items[0].meta->sizes[0].value, 3);
    assert_int_equal(exg_weight_read(weights, &weights->items[0], got, sizeof(got), &err), EXG_OK);
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(weights->items[1].meta->sizes[0].value, 2); /* the tied one stays */
    exg_weights_release(weights);
}

static void it_casts_what_the_last_rule_says_and_keeps_what_is_tied(void **state)
{
    static const uint16_t want[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};
    exg_string_pair pairs[] = {{NULL, "bf16"}, {"*.bias", "float64"}, {"optimizer.step", "F16"}};
    exg_weights *weights = edited(checkpoint(), (exg_weights_edit_options){.dtypes = {pairs, 3}});
    uint16_t got[6];
    uint8_t part[3];
    double wide[6];
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(weights->items[0].meta->dtype, EXG_DTYPE_BF16);
    assert_int_equal(weights->items[0].storage, weights->items[1].storage);
    assert_int_equal(exg_weight_read(weights, &weights->items[0], got, sizeof(got), &err), EXG_OK);
    assert_memory_equal(got, want, sizeof(want));
    /* Bytes that begin and end inside elements. */
    assert_int_equal(exg_storage_read(weights, weights->items[0].storage, 1, 3, part, &err),
                     EXG_OK);
    assert_memory_equal(part, (const uint8_t *)want + 1, 3);
    assert_int_equal(exg_weight_read(weights, &weights->items[2], wide, sizeof(wide), &err),
                     EXG_OK);
    assert_true(wide[5] > 6.5 && wide[5] < 7.5);
    assert_int_equal(exg_weight_read(weights, &weights->items[4], got, 2, &err), EXG_OK);
    assert_int_equal(got[0], 0x4700); /* 7 in float16 */
    exg_weights_release(weights);
}

static void it_leaves_equal_tensors_out_and_notes_them(void **state)
{
    exg_weights *weights = edited(checkpoint(), (exg_weights_edit_options){.deduplicate = true});

    (void)state;
    assert_int_equal(weights->metadata.count, 4);
    assert_string_equal(weights->metadata.items[2].key, "state_dict.out.weight");
    assert_string_equal(weights->metadata.items[2].value, "state_dict.in.weight");
    assert_string_equal(weights->metadata.items[3].key, "state_dict.again");
    assert_names(weights, "state_dict.in.weight state_dict.out.bias optimizer.step");
}

static void it_decodes_blocks_it_knows(void **state)
{
    exg_string_pair pair = {NULL, "f32"};
    exg_weights_edit_options options = {.size = sizeof(options), .dtypes = {&pair, 1}};
    exg_sym_int sizes[] = {exg_sym_int_of(2), exg_sym_int_of(34)};
    exg_sym_int strides[] = {exg_sym_int_of(34), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "q", .meta = &meta, .encoding = "Q8_0"};
    uint8_t bytes[68];
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = sizeof(bytes), .data = bytes};
    exg_weights *weights = NULL;
    exg_weights *made = NULL;
    float got[5];
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    for (int i = 0; i < 68; i++) { /* scales 1 and 0.5; numbers from -2 on */
        int value = i % 34 == 0 ? 0 : i % 34 == 1 ? (i < 34 ? 0x3c : 0x38) : i % 34 - 4;

        bytes[i] = (uint8_t)value;
    }
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
    assert_int_equal(exg_weights_edit(weights, &options, &made, &err), EXG_OK);
    assert_null(made->items[0].encoding);
    assert_int_equal(made->items[0].meta->sizes[1].value, 32);
    /* Elements of two rows: the last two of the first, the first three of the second. */
    assert_int_equal(exg_weight_read_range(made, &made->items[0], 30, 5, got, &err), EXG_OK);
    assert_memory_equal(got, ((float[]){28, 29, -1, -0.5F, 0}), sizeof(got));
    exg_weights_release(made);
    weights->items[0].encoding = "Q8_1";
    assert_int_equal(exg_weights_edit(weights, &options, &made, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "WGT-DTYPE");
    exg_weights_release(weights);
}

/* Numbers of 6 bits, of the OCP microscaling formats; without a sign. */
static const float e2m3[32] = {0, 0.125F, 0.25F, 0.375F, 0.5F, 0.625F, 0.75F, 0.875F,
                               1, 1.125F, 1.25F, 1.375F, 1.5F, 1.625F, 1.75F, 1.875F,
                               2, 2.25F,  2.5F,  2.75F,  3,    3.25F,  3.5F,  3.75F,
                               4, 4.5F,   5,     5.5F,   6,    6.5F,   7,     7.5F};
static const float e3m2[32] = {0,    0.0625F, 0.125F, 0.1875F, 0.25F, 0.3125F, 0.375F, 0.4375F,
                               0.5F, 0.625F,  0.75F,  0.875F,  1,     1.25F,   1.5F,   1.75F,
                               2,    2.5F,    3,      3.5F,    4,     5,       6,      7,
                               8,    10,      12,     14,      16,    20,      24,     28};

/* All 64 of them, one behind the other, the lowest bit first. */
static void assert_sixes(const char *encoding, const float positive[32], uint32_t rank,
                         int64_t last)
{
    exg_string_pair pair = {NULL, "f32"};
    uint8_t bytes[48] = {0};
    exg_sym_int sizes[] = {exg_sym_int_of(48)};
    exg_sym_int strides[] = {exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "w", .meta = &meta, .encoding = encoding};
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = sizeof(bytes), .data = bytes};
    exg_weights *weights = NULL;
    exg_weights *made;
    float got[64];
    exg_error err;

    for (int i = 0; i < 64 * 6; i++) {
        bytes[i / 8] |= (uint8_t)((i / 6 >> i % 6 & 1) << i % 8);
    }
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
    made = edited(weights, (exg_weights_edit_options){.dtypes = {&pair, 1}});
    assert_null(made->items[0].encoding);
    assert_int_equal(made->items[0].meta->rank, rank);
    assert_int_equal(made->items[0].meta->sizes[rank - 1].value, last);
    assert_int_equal(exg_weight_read(made, &made->items[0], got, sizeof(got), &err), EXG_OK);
    for (int i = 0; i < 64; i++) {
        float want = i < 32 ? positive[i] : -positive[i - 32];

        assert_memory_equal(&got[i], &want, sizeof(want)); /* the sign of zero too */
    }
    exg_weights_release(made);
}

static void it_decodes_numbers_of_six_bits(void **state)
{
    (void)state;
    assert_sixes("F6_E2M3", e2m3, 1, 64);
    assert_sixes("F6_E3M2", e3m2, 1, 64);
    assert_sixes("F6_E2M3[32, 2]", e2m3, 2, 2);
    assert_sixes("F6_E3M2[2, 32, 1]", e3m2, 3, 1);
}

/* A shape that is told and is none of these bytes. */
static void it_refuses_shapes_of_other_bytes(void **state)
{
    static const char *const wrong[] = {"F6_E2M3[31, 2]",
                                        "F6_E2M3[32, 2",
                                        "F6_E2M3[32,]",
                                        "F6_E2M3[-32, 2]",
                                        "F6_E2M3[64]x",
                                        "F6_E2M3[]",
                                        "F4[9223372036854775807, 9223372036854775807]",
                                        "F6_E2M3[99999999999999999999]"};
    exg_sym_int sizes[] = {exg_sym_int_of(48)};
    exg_sym_int strides[] = {exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "w", .meta = &meta};
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = 48, .data = (uint8_t[48]){0}};
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        weight.encoding = wrong[i];
        assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "WGT-BLOCK");
    }
    exg_weights_release(weights);
}

static exg_weights *open_weights(const char *path)
{
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_open(path, NULL, &weights, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return weights;
}

/* All of a tensor; the caller frees it. */
static uint8_t *bytes_of(exg_weights *weights, const char *name, uint64_t *bytes)
{
    const exg_weight *weight = exg_weights_find(weights, EXG_TABLE_STATE, name);
    uint8_t *data;
    exg_error err;

    exg_error_clear(&err);
    assert_non_null(weight);
    assert_int_equal(exg_tensor_meta_bytes(weight->meta, bytes, &err), EXG_OK);
    data = malloc(*bytes);
    assert_non_null(data);
    assert_int_equal(exg_weight_read(weights, weight, data, *bytes, &err), EXG_OK);
    return data;
}

static void assert_same_bytes(exg_weights *a, const char *name, exg_weights *b, const char *other)
{
    uint64_t bytes[2];
    uint8_t *data[] = {bytes_of(a, name, &bytes[0]), bytes_of(b, other, &bytes[1])};

    if (bytes[0] != bytes[1] || memcmp(data[0], data[1], bytes[0]) != 0) {
        fail_msg("%s is not %s", name, other);
    }
    free(data[0]);
    free(data[1]);
}

/* What gguf-py and ggml have made of the same bytes (make_blocks.py). */
static void it_decodes_blocks_of_every_type(void **state)
{
    exg_string_pair pair = {NULL, "f32"};
    exg_weights *want = open_weights("fixtures/weights/blocks.decoded.safetensors");
    exg_weights *got = edited(open_weights("fixtures/weights/blocks.gguf"),
                              (exg_weights_edit_options){.dtypes = {&pair, 1}});

    (void)state;
    assert_int_equal(got->count, 25);
    for (uint32_t i = 0; i < got->count; i++) {
        assert_same_bytes(got, got->items[i].fqn, want, got->items[i].fqn);
    }
    exg_weights_release(got);
    exg_weights_release(want);
}

static void it_makes_blocks_to_the_bit(void **state)
{
    static const char *const kinds[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                        "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
    const char *const rows[] = {"rows"};
    exg_weights *want = open_weights("fixtures/weights/blocks.made.safetensors");

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        exg_string_pair pair = {NULL, kinds[i]};
        exg_weights *got = edited(
            exg_weights_retain(want),
            (exg_weights_edit_options){.select = rows, .select_count = 1, .dtypes = {&pair, 1}});

        assert_string_equal(got->items[0].encoding, kinds[i]);
        assert_int_equal(got->items[0].meta->rank, 2);
        assert_same_bytes(got, "rows", want, kinds[i]);
        exg_weights_release(got);
    }
    exg_weights_release(want);
}

static void note_kept(void *user, const char *name, const char *why)
{
    strcat(user, name);
    strcat(user, ": ");
    strcat(user, why);
    strcat(user, "; ");
}

static void what_is_no_whole_number_of_blocks_stays(void **state)
{
    static const float row[64] = {1};
    exg_string_pair pairs[] = {{NULL, "q8_0"}, {"*t", "q8_0"}};
    exg_string_pair one = {"short", "q8_0"};
    exg_weights_edit_options refused = {.size = sizeof(refused), .dtypes = {&one, 1}};
    exg_weights *weights = NULL;
    exg_weights *made = NULL;
    char kept[256] = "";
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    add(weights, "whole", EXG_DTYPE_F32, row, 2, 2, 32);
    add(weights, "short", EXG_DTYPE_F32, row, 2, 4, 16);
    add(weights, "bias", EXG_DTYPE_F32, row, 1, 64, 1);
    assert_int_equal(exg_weights_edit(weights, &refused, &made, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "WGT-BLOCK");
    made = edited(
        weights, (exg_weights_edit_options){.dtypes = {pairs, 2}, .kept = note_kept, .user = kept});
    assert_string_equal(kept, "short: rows of 16 are no whole number of blocks of 32; "
                              "bias: it has fewer than two dimensions; ");
    assert_string_equal(made->items[0].encoding, "Q8_0");
    assert_int_equal(made->items[0].meta->sizes[1].value, 34);
    assert_int_equal(made->items[1].meta->dtype, EXG_DTYPE_F32);
    assert_int_equal(made->items[2].meta->dtype, EXG_DTYPE_F32);
    exg_weights_release(made);
}

/* NaN, infinity, and what passes the scale of float16. */
static void it_makes_no_block_of_what_none_holds(void **state)
{
    static const char *const kinds[] = {"q4_0", "q4_1", "q5_0", "q5_1",
                                        "q8_0", "q4_k", "q5_k", "q6_k"};
    const float bad[] = {__builtin_nanf(""), __builtin_inff(), -__builtin_inff(), 3e38F};

    (void)state;
    for (size_t i = 0; i < 4 * sizeof(kinds) / sizeof(kinds[0]); i++) {
        exg_string_pair pair = {NULL, kinds[i / 4]};
        float row[256] = {[7] = bad[i % 4], [8] = 1, [9] = -3e38F};
        exg_weights *weights = NULL;
        uint8_t got[512];
        exg_error err;

        exg_error_clear(&err);
        assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
        add(weights, "w", EXG_DTYPE_F32, row, 2, 1, 256);
        weights = edited(weights, (exg_weights_edit_options){.dtypes = {&pair, 1}});
        if (exg_weight_read(weights, &weights->items[0], got,
                            (uint64_t)weights->items[0].meta->sizes[1].value,
                            &err) != EXG_UNSUPPORTED ||
            strcmp(err.code, "WGT-BLOCK") != 0) {
            fail_msg("%s takes %g", kinds[i / 4], (double)bad[i % 4]);
        }
        exg_weights_release(weights);
    }
}

static void it_takes_parts_of_tensors(void **state)
{
    static const int64_t begin[] = {1, 1};
    static const int64_t part[] = {1, 2};
    static const int64_t too_much[] = {1, 3};
    static const int64_t huge[] = {INT64_MAX, 1};
    const exg_weight_slice slices[] = {{"state_dict.in.weight", 2, begin, part},
                                       {"state_dict.out.bias", 1, begin, part}};
    const struct {
        exg_weight_slice slice;
        exg_status status;
    } bad[] = {
        {{"nosuch", 2, begin, part}, EXG_USAGE},
        {{"state_dict.out.bias", 2, begin, part}, EXG_USAGE},
        {{"state_dict.in.weight", 2, begin, too_much}, EXG_USAGE},
        {{"state_dict.in.weight", 2, huge, part}, EXG_USAGE},
        {{"q", 2, begin, part}, EXG_UNSUPPORTED},
    };
    exg_weights *weights = checkpoint();
    exg_weights *made = NULL;
    float got[2];
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_slice(weights, slices, 2, &made, &err), EXG_OK);
    assert_int_equal(exg_weight_read(made, &made->items[0], got, sizeof(got), &err), EXG_OK);
    assert_memory_equal(got, ((float[]){5, 6}), sizeof(got));
    assert_int_equal(exg_weight_read(made, &made->items[1], got, sizeof(float), &err), EXG_OK);
    assert_true(got[0] == 2);
    assert_string_equal(made->metadata.items[made->metadata.count - 2].key, "DCP_SHARDING_INFO");
    assert_string_equal(made->metadata.items[made->metadata.count - 2].value,
                        "{\"state_dict.in.weight\": {\"saved_offsets\": [1, 1]}, "
                        "\"state_dict.out.bias\": {\"saved_offsets\": [1]}}");
    exg_weights_release(made);
    add(weights, "q", EXG_DTYPE_U8, numbers, 2, 3, 3);
    weights->items[weights->count - 1].encoding = "of nobody";
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(exg_weights_slice(weights, &bad[i].slice, 1, &made, &err), bad[i].status);
        assert_string_equal(err.code, "WGT-SLICE");
        assert_null(made);
    }
    exg_weights_release(weights);
}

static void blocks_are_rows_of_bytes(void **state)
{
    exg_sym_int sizes[] = {exg_sym_int_of(2), exg_sym_int_of(34)};
    exg_sym_int strides[] = {exg_sym_int_of(34), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "q", .meta = &meta, .encoding = "Q8_0"};
    exg_storage storage = {.length = 68};
    exg_weights *weights = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
    sizes[1] = exg_sym_int_of(33);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "WGT-BLOCK");
    sizes[1] = exg_sym_int_of(34);
    meta.dtype = EXG_DTYPE_F32;
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_MALFORMED);
    meta.dtype = EXG_DTYPE_U8;
    meta.rank = 0;
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_MALFORMED);
    weight.encoding = "of nobody";
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
    exg_weights_release(weights);
}

static void it_joins_what_has_no_name_twice(void **state)
{
    exg_weights *both[] = {checkpoint(), NULL};
    exg_weights *made = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &both[1], &err), EXG_OK);
    add(both[1], "last", EXG_DTYPE_F32, numbers + 3, 1, 3, 1);
    assert_int_equal(exg_weights_join(both, 2, &made, &err), EXG_OK);
    for (int i = 0; i < 2; i++) {
        exg_weights_release(both[i]); /* what is made keeps them */
    }
    assert_int_equal(made->metadata.count, 2);
    assert_int_equal(made->items[5].storage, made->storage_count - 1);
    assert_names(exg_weights_retain(made), "state_dict.in.weight state_dict.out.weight "
                                           "state_dict.out.bias state_dict.again optimizer.step "
                                           "last");
    both[0] = both[1] = made;
    assert_int_equal(exg_weights_join(both, 2, &made, &err), EXG_USAGE);
    assert_string_equal(err.code, "WGT-NAME");
    assert_null(made);
    exg_weights_release(both[0]);
}

static void it_refuses_what_fits_nothing_or_not_at_all(void **state)
{
    static const char *const none[] = {"nosuch*"};
    static const char *const every[] = {"*"};
    exg_string_pair regex = {"(", "x"};
    exg_string_pair group = {"(.*)[.]weight", "\\1.\\2"};
    exg_string_pair unused = {"nosuch", "x"};
    exg_string_pair all = {"^.*$", "x"};
    exg_string_pair empty = {"^.*\\.step$", ""};
    exg_string_pair dtype = {NULL, "int8"};
    exg_string_pair pattern = {"nosuch", "f16"};
    const char *const bias[] = {"*.bias"};
    const struct {
        exg_weights_edit_options options;
        const char *code;
    } cases[] = {
        {{.select = none, .select_count = 1}, "WGT-PATTERN"},
        {{.exclude = none, .exclude_count = 1}, "WGT-PATTERN"},
        {{.exclude = every, .exclude_count = 1}, "WGT-PATTERN"},
        {{.select = bias, .select_count = 1, .exclude = bias, .exclude_count = 1}, "WGT-PATTERN"},
        {{.prefixes = none, .prefix_count = 1}, "WGT-PATTERN"},
        {{.transposes = none, .transpose_count = 1}, "WGT-PATTERN"},
        {{.transposes = bias, .transpose_count = 1}, "WGT-PATTERN"}, /* of one dimension */
        {{.renames = {&regex, 1}}, "WGT-PATTERN"},
        {{.renames = {&group, 1}}, "WGT-PATTERN"},
        {{.renames = {&unused, 1}}, "WGT-PATTERN"},
        {{.renames = {&all, 1}}, "WGT-NAME"},
        {{.renames = {&empty, 1}}, "WGT-NAME"},
        {{.dtypes = {&dtype, 1}}, "WGT-DTYPE"},
        {{.dtypes = {&pattern, 1}}, "WGT-PATTERN"},
    };
    exg_weights *weights = checkpoint();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exg_weights_edit_options options = cases[i].options;
        exg_weights *made = NULL;
        exg_error err;

        exg_error_clear(&err);
        options.size = sizeof(options);
        if (exg_weights_edit(weights, &options, &made, &err) != EXG_USAGE ||
            strcmp(err.code, cases[i].code) != 0) {
            fail_msg("case %zu: %s, expected %s", i, err.code, cases[i].code);
        }
        assert_null(made);
    }
    exg_weights_release(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_the_tensors_that_patterns_fit),
        cmocka_unit_test(it_takes_the_model_of_a_training_checkpoint),
        cmocka_unit_test(names_that_only_look_like_a_checkpoint_stay),
        cmocka_unit_test(a_number_beside_the_model_stays_behind),
        cmocka_unit_test(it_renames_by_prefix_then_by_expressions),
        cmocka_unit_test(it_sets_and_removes_metadata),
        cmocka_unit_test(it_swaps_the_last_two_dimensions),
        cmocka_unit_test(it_casts_what_the_last_rule_says_and_keeps_what_is_tied),
        cmocka_unit_test(it_leaves_equal_tensors_out_and_notes_them),
        cmocka_unit_test(it_decodes_blocks_it_knows),
        cmocka_unit_test(it_decodes_blocks_of_every_type),
        cmocka_unit_test(it_decodes_numbers_of_six_bits),
        cmocka_unit_test(it_refuses_shapes_of_other_bytes),
        cmocka_unit_test(it_makes_blocks_to_the_bit),
        cmocka_unit_test(what_is_no_whole_number_of_blocks_stays),
        cmocka_unit_test(it_makes_no_block_of_what_none_holds),
        cmocka_unit_test(it_takes_parts_of_tensors),
        cmocka_unit_test(blocks_are_rows_of_bytes),
        cmocka_unit_test(it_joins_what_has_no_name_twice),
        cmocka_unit_test(it_refuses_what_fits_nothing_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
