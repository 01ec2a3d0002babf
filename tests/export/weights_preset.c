/* weights_preset.c - presets: what each operation makes of rows that say what they are, and what is
 * refused. run_save.py compares the presets that are installed with the rules of their models. */
#include <exg/formats.h>
#include <exg/weights_edit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static float rows[12][2]; /* row i is {i, i + 100} */

static void add(exg_weights *weights, const char *name, int64_t first, int64_t count)
{
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY,
                           .length = (uint64_t)count * sizeof(rows[0]),
                           .data = (const uint8_t *)rows[first]};
    exg_sym_int sizes[] = {exg_sym_int_of(count), exg_sym_int_of(2)};
    exg_sym_int strides[] = {exg_sym_int_of(2), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = name, .meta = &meta};
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
}

static exg_weights *model(void)
{
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    for (int i = 0; i < 12; i++) {
        rows[i][0] = (float)i;
        rows[i][1] = (float)(i + 100);
    }
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    add(weights, "layers.0.w", 0, 12);
    add(weights, "a", 0, 2);
    add(weights, "b", 2, 3);
    assert_int_equal(exg_weights_add_metadata(weights, "head_count", "2", &err), EXG_OK);
    return weights;
}

static void note(void *user, const char *name, const char *why)
{
    (void)why;
    strcat(user, name);
    strcat(user, " ");
}

/* Names and shapes of what a preset makes, and the first column of the first tensor. */
static void assert_made(const char *preset, const char *table, const char *column, const char *kept)
{
    char stay[128] = "";
    exg_string_pair numbers[] = {{"three", "3"}};
    exg_weights_edit_options options = {.size = sizeof(options),
                                        .preset = preset,
                                        .numbers = {numbers, 1},
                                        .kept = note,
                                        .user = stay};
    exg_weights *of = model();
    exg_weights *made = NULL;
    char got[256] = "";
    float data[24];
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_edit(of, &options, &made, &err) != EXG_OK) {
        fail_msg("%s: %s %s", preset, err.code, err.message);
    }
    exg_weights_release(of);
    for (uint32_t i = 0; i < made->count; i++) {
        const exg_tensor_meta *meta = made->items[i].meta;

        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s[%d,%d]", i == 0 ? "" : " ",
                 made->items[i].fqn, (int)meta->sizes[0].value, (int)meta->sizes[1].value);
    }
    assert_string_equal(got, table);
    assert_string_equal(stay, kept);
    got[0] = '\0';
    for (int64_t i = 0, step = made->items[0].meta->sizes[1].value;
         i < made->items[0].meta->sizes[0].value; i++) {
        assert_int_equal(exg_weight_read_range(made, &made->items[0], (uint64_t)(i * step),
                                               (uint64_t)step, data, &err),
                         EXG_OK);
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%d", i == 0 ? "" : " ",
                 (int)data[0]);
    }
    assert_string_equal(got, column);
    exg_weights_release(made);
}

static void it_renames_and_leaves_out(void **state)
{
    (void)state;
    assert_made("# remark\n\nlayers\\.([0-9]+)\\.w  l\\1.weight # more\r\na -\n",
                "l0.weight[12,2] b[3,2]", "0 1 2 3 4 5 6 7 8 9 10 11", "b ");
    assert_made("(a|ab|b)  x.\\1\n", "layers.0.w[12,2] x.a[2,2] x.b[3,2]",
                "0 1 2 3 4 5 6 7 8 9 10 11", "layers.0.w ");
}

/* Literals, a number given, one of the metadata under another name, and what is left. */
static void it_puts_rows_in_another_order(void **state)
{
    (void)state;
    assert_made("layers.0.w w rows 3,2,2 0,2,1\na -\nb -", "w[12,2]", "0 2 1 3 4 6 5 7 8 10 9 11",
                "");
    assert_made("layers.0.w w rows three,* 1,0\na -\nb -", "w[12,2]", "0 4 8 1 5 9 2 6 10 3 7 11",
                "");
    assert_made(
        "number kv heads\nnumber heads head_count\nlayers.0.w w rows kv,3,* 1,0,2\na -\nb -",
        "w[12,2]", "0 1 6 7 2 3 8 9 4 5 10 11", "");
}

static void it_takes_apart_and_puts_together(void **state)
{
    (void)state;
    assert_made("layers.0.w q slice 2/3\nlayers.0.w k slice 3/3\na -\nb -", "q[4,2] k[4,2]",
                "4 5 6 7", "");
    assert_made("b ab join 2/2\na ab join 1/2\nlayers.0.w -", "ab[5,2]", "0 1 2 3 4", "");
    assert_made("layers.0.w w first 5\na -\nb -", "w[5,2]", "0 1 2 3 4", "");
    assert_made("layers.0.w w slice 2/2 transpose\na -\nb -", "w[2,6]", "6 106", "");
    assert_made("layers.0.w w transpose rows 2,* 1,0\na -\nb -", "w[2,12]", "0 100", "");
}

/* The bits of any dtype stay: what is only in another order is not cast. */
static void it_keeps_bits(void **state)
{
    static const uint64_t bits[] = {0x7ff0000000000001, 0x3ff0000000000001, 1, 2};
    exg_storage storage = {
        .kind = EXG_STORAGE_MEMORY, .length = sizeof(bits), .data = (const uint8_t *)bits};
    exg_sym_int sizes[] = {exg_sym_int_of(4)};
    exg_sym_int strides[] = {exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F64,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "x", .meta = &meta};
    exg_weights_edit_options options = {.size = sizeof(options), .preset = "x y rows 2,2 1,0"};
    exg_weights *of = NULL;
    exg_weights *made = NULL;
    uint64_t got[4];
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &of, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(of, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(of, &weight, &err), EXG_OK);
    assert_int_equal(exg_weights_edit(of, &options, &made, &err), EXG_OK);
    assert_int_equal(exg_weight_read(made, &made->items[0], got, sizeof(got), &err), EXG_OK);
    assert_memory_equal(got, ((uint64_t[]){bits[0], bits[2], bits[1], bits[3]}), sizeof(got));
    exg_weights_release(made);
    exg_weights_release(of);
}

static void it_refuses_presets_that_are_none_or_do_not_fit(void **state)
{
    static const struct {
        const char *preset, *code, *part; /* of the message */
    } cases[] = {
        {"a", "WGT-PRESET", "line 1"},
        {"a b\n( c", "WGT-PRESET", "line 2"},
        {"(a)b \\1\n(a) \\2", "WGT-PRESET", "line 2"},
        {"a b turn", "WGT-PRESET", "transpose"},
        {"a b ranks", "WGT-PRESET", "0 or 1"},
        {"a b ranks 2", "WGT-PRESET", "0 or 1"},
        {"a b ranks 1 unless", "WGT-PRESET", "take a name"},
        {"a b shard", "WGT-PRESET", "0 or 1"},
        {"a b shard 1 unless", "WGT-PRESET", "take a name"},
        {"a b shard 0 pad", "WGT-PRESET", "take a name"},
        {"a b shard 0 unless n pad 2", "WGT-PRESET", "last operation"},
        {"a b shard 0 transpose", "WGT-PRESET", "last operation"},
        {"a b shard 0 shard 1", "WGT-PRESET", "last operation"},
        {"a b join 1/2 shard 0", "WGT-PRESET", "last"},
        {"a b ranks 0 ranks 0", "WGT-PRESET", "first operation"},
        {"a b transpose ranks 0", "WGT-PRESET", "first operation"},
        {"a b rows", "WGT-PRESET", "factors"},
        {"a b rows 2 0", "WGT-PRESET", "factors"},
        {"a b rows *,* 0,1", "WGT-PRESET", "one of them"},
        {"a b rows 2,,* 0,1,2", "WGT-PRESET", "factors"},
        {"a b rows 1,1,1,1,2 0,1,2,3,4", "WGT-PRESET", "factors"},
        {"a b rows 2,* 0,0", "WGT-PRESET", "order"},
        {"a b rows 2,* 0,2", "WGT-PRESET", "order"},
        {"a b rows 2,* 0", "WGT-PRESET", "order"},
        {"a b rows 2,*", "WGT-PRESET", "order"},
        {"a b slice 0/3", "WGT-PRESET", "part"},
        {"a b slice 4/3", "WGT-PRESET", "part"},
        {"a b slice", "WGT-PRESET", "part"},
        {"a b first", "WGT-PRESET", "number"},
        {"a b join 1/2 transpose", "WGT-PRESET", "last"},
        {"number", "WGT-PRESET", "name"},
        {"a b transpose transpose transpose transpose transpose", "WGT-PRESET", "operations"},
        {"a b rows heads,* 0,1", "WGT-PRESET", "heads"},
        {"number heads n_heads\na b first heads", "WGT-PRESET", "heads"},
        {"number heads heads\na b first heads", "WGT-PRESET", "heads"},
        {"nosuch b", "WGT-PRESET", "no rule"},
        {"a b first 3", "WGT-PRESET", "2 rows"},
        {"b x slice 1/2", "WGT-PRESET", "3 rows"},
        {"b x rows 2,* 0,1", "WGT-PRESET", "3 rows"},
        {"layers.0.w x rows 2,2 0,1", "WGT-PRESET", "12 rows"},
        {"layers.0.w x rows 9223372036854775807,3,* 0,1,2", "WGT-PRESET", "12 rows"},
        {"a x join 1/2", "WGT-PRESET", "part 2 of 2"},
        {"a x join 1/2\nb x join 1/2", "WGT-NAME", "one part"},
        {"a x join 1/2\nb x join 3/3", "WGT-NAME", "one part"},
        {"layers.0.w x transpose join 1/2\nb x join 2/2", "WGT-PRESET", "parts of one"},
        {"a x\nb x", "WGT-NAME", "both"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exg_weights_edit_options options = {.size = sizeof(options), .preset = cases[i].preset};
        exg_weights *of = model();
        exg_weights *made = NULL;
        exg_error err;

        exg_error_clear(&err);
        if (exg_weights_edit(of, &options, &made, &err) == EXG_OK ||
            strcmp(err.code, cases[i].code) != 0 || strstr(err.message, cases[i].part) == NULL) {
            fail_msg("%s: %s %s", cases[i].preset, err.code, err.message);
        }
        assert_null(made);
        exg_weights_release(of);
    }
}

/* What rank 1 of `count` has of the one tensor of a preset: shape and first column. */
static void assert_part(const char *preset, uint32_t count, const char *want)
{
    exg_string_pair numbers[] = {{"three", "3"}};
    exg_weights_edit_options options = {.size = sizeof(options),
                                        .preset = preset,
                                        .numbers = {numbers, 1},
                                        .shard_count = count,
                                        .shard = 1};
    exg_weights *of = model();
    exg_weights *made = NULL;
    const exg_tensor_meta *meta;
    char got[256] = "";
    float data[64];
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_edit(of, &options, &made, &err) != EXG_OK) {
        fail_msg("%s: %s %s", preset, err.code, err.message);
    }
    exg_weights_release(of);
    assert_int_equal(made->count, 1);
    meta = made->items[0].meta;
    snprintf(got, sizeof(got), "[%d,%d]", (int)meta->sizes[0].value, (int)meta->sizes[1].value);
    assert_int_equal(exg_weight_read_range(made, &made->items[0], 0,
                                           (uint64_t)(meta->sizes[0].value * meta->sizes[1].value),
                                           data, &err),
                     EXG_OK);
    for (int64_t i = 0; i < meta->sizes[0].value; i++) {
        snprintf(got + strlen(got), sizeof(got) - strlen(got), " %d",
                 (int)data[i * meta->sizes[1].value]);
    }
    assert_string_equal(got, want);
    exg_weights_release(made);
}

static void it_gives_a_rank_its_part(void **state)
{
    (void)state;
    assert_part("layers.0.w w shard 0\na|b -", 3, "[4,2] 4 5 6 7");
    assert_part("layers.0.w w shard 1\na|b -", 2,
                "[12,1] 100 101 102 103 104 105 106 107 108 109 "
                "110 111");
    assert_part("layers.0.w w transpose shard 1\na|b -", 3, "[2,4] 4 104");
    assert_part("layers.0.w w rows three,* 1,0 shard 0\na|b -", 4, "[3,2] 1 5 9");
    assert_part("a w shard 1 unless three\nlayers.0.w|b -", 2, "[1,2] 1");
    assert_part("a w shard 1 unless nosuch\nlayers.0.w|b -", 2, "[2,1] 100 101");
    assert_part("b w shard 0 pad 2\nlayers.0.w|a -", 2, "[2,2] 4 4"); /* to 4 rows: 2 3 4 4 */
    assert_part("b w shard 0 pad three\nlayers.0.w|a -", 2, "[3,2] 4 4 4");
    assert_part("a w\nb - shard 0\nlayers.0.w -", 2, "[2,2] 0 1"); /* whole */
}

static void it_refuses_parts_that_are_none(void **state)
{
    static const struct {
        const char *preset;
        uint32_t count, shard;
        const char *part; /* of the message */
    } cases[] = {
        {NULL, 2, 0, "how ranks share"},
        {"layers.0.w w", 2, 0, "how ranks share"},
        {"b w shard 0", 2, 2, "no rank 2"},
        {"b w shard 0", 2, 0, "3 rows, which are not 2"},
        {"b w shard 1", 3, 0, "2 columns, which are not 3"},
        {"layers.0.w w rows 3,* 0,1 shard 0", 4, 0, "3 3, which are not 4"}, /* though rows are */
        {"b w shard 0 pad *", 2, 0, "no number of rows"},
        {"b w shard 0 pad 9223372036854775807", 2, 0, "no number of rows"},
        {"b w shard 0 pad nosuch", 2, 0, "nosuch"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exg_weights_edit_options options = {.size = sizeof(options),
                                            .preset = cases[i].preset,
                                            .shard_count = cases[i].count,
                                            .shard = cases[i].shard};
        exg_weights *of = model();
        exg_weights *made = NULL;
        exg_error err;

        exg_error_clear(&err);
        if (exg_weights_edit(of, &options, &made, &err) != EXG_USAGE ||
            strcmp(err.code, "WGT-PRESET") != 0 || strstr(err.message, cases[i].part) == NULL) {
            fail_msg("%zu: %s %s", i, err.code, err.message);
        }
        assert_null(made);
        exg_weights_release(of);
    }
}

/* Rows that begin within a byte are not moved. */
static void it_keeps_packed_rows_together(void **state)
{
    static const char *const presets[] = {"w x first 2", "w x rows 2,* 1,0", "w x slice 1/2",
                                          "w x join 1/1"};
    exg_sym_int sizes[] = {exg_sym_int_of(6)};
    exg_sym_int strides[] = {exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = "w", .meta = &meta, .encoding = "F4[4, 3]"};
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = 6, .data = (uint8_t[6]){0}};
    exg_weights *of = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &of, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(of, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(of, &weight, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        exg_weights_edit_options options = {.size = sizeof(options), .preset = presets[i]};
        exg_weights *made = NULL;

        assert_int_equal(exg_weights_edit(of, &options, &made, &err), EXG_UNSUPPORTED);
        assert_string_equal(err.code, "WGT-BLOCK");
        assert_true(err.fix[0] != '\0');
    }
    exg_weights_release(of);
}

/* ---- numbers beside a file --------------------------------------------------------------------
 */

static exg_status take_number(void *user, const char *key, int64_t value, exg_error *err)
{
    char *text = user;

    (void)err;
    snprintf(text + strlen(text), 128 - strlen(text), "%s=%lld ", key, (long long)value);
    return EXG_OK;
}

static void write_text(const char *path, const char *text)
{
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_file_write(path, text, strlen(text), &err), EXG_OK);
}

static void it_tells_the_numbers_beside_a_file(void **state)
{
    char folder[] = "/tmp/exg-preset-XXXXXX";
    char path[64];
    char got[128] = "";
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(exg_model_numbers(folder, take_number, got, &err), EXG_OK);
    assert_string_equal(got, "");
    snprintf(path, sizeof(path), "%s/config.json", folder);
    write_text(path, "{\"text\": {\"n\": 2, \"x\": 1.5}, \"n\": 1, \"s\": \"3\"}");
    assert_int_equal(exg_model_numbers(folder, take_number, got, &err), EXG_OK);
    assert_string_equal(got, "n=1 n=2 ");
    write_text(path, "[]");
    assert_int_equal(exg_model_numbers(folder, take_number, got, &err), EXG_MALFORMED);
    unlink(path);
    snprintf(path, sizeof(path), "%s/params.json", folder);
    write_text(path, "{\"n_heads\": 32}");
    got[0] = '\0';
    snprintf(path, sizeof(path), "%s/consolidated.00.pth", folder);
    assert_int_equal(exg_model_numbers(path, take_number, got, &err), EXG_OK);
    assert_string_equal(got, "n_heads=32 ");
    snprintf(path, sizeof(path), "%s/params.json", folder);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_renames_and_leaves_out),
        cmocka_unit_test(it_puts_rows_in_another_order),
        cmocka_unit_test(it_takes_apart_and_puts_together),
        cmocka_unit_test(it_keeps_bits),
        cmocka_unit_test(it_refuses_presets_that_are_none_or_do_not_fit),
        cmocka_unit_test(it_gives_a_rank_its_part),
        cmocka_unit_test(it_refuses_parts_that_are_none),
        cmocka_unit_test(it_keeps_packed_rows_together),
        cmocka_unit_test(it_tells_the_numbers_beside_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
