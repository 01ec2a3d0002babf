/* zero_tensor.c - checkpoints of DeepSpeed with tensor-parallel ranks, put together; what is
 * expected is what DeepSpeed's own ds_to_universal makes of them. */
#include <exg/formats.h>

#include "libexport/formats/pt2/name_pattern.h"
#include "tests/export/exg_folder.h"
#include "tests/export/same_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ZERO "fixtures/weights/zero/"

static void it_puts_tensor_parallel_ranks_together(void **state)
{
    (void)state;
    assert_same_tensors(ZERO "tensor2", ZERO "tensor2.expected.safetensors");
    assert_same_tensors(ZERO "tensor3/global_step1", ZERO "tensor3.expected.safetensors");
}

/* A file into the test's folder; in it `from` becomes `to`, where that is not NULL. */
static void copy_file(const char *path, const char *name, const char *from, const char *to)
{
    static uint8_t data[65536];
    size_t length = from == NULL ? 0 : strlen(from);
    FILE *file = fopen(path, "rb");
    size_t bytes;

    assert_non_null(file);
    bytes = fread(data, 1, sizeof(data), file);
    fclose(file);
    for (size_t at = 0; length > 0 && at + length <= bytes; at++) {
        if (memcmp(data + at, from, length) == 0) {
            memcpy(data + at, to, length);
        }
    }
    for (size_t at = 0; length > 0 && at + 20 < bytes; at++) { /* no checksums */
        if (memcmp(data + at, "PK\3\4", 4) == 0) {
            memset(data + at + 14, 0, 4);
        } else if (memcmp(data + at, "PK\1\2", 4) == 0) {
            memset(data + at + 16, 0, 4);
        } else if (memcmp(data + at, "PK\7\10", 4) == 0) {
            memset(data + at + 4, 0, 4);
        }
    }
    write_file(name, data, bytes);
}

/* The files of stage 2, but those with `without` in their names; in those with `changed` in theirs
 * `from` becomes `to`. */
static void copy_ranks(const char *without, const char *changed, const char *from, const char *to)
{
    static const char *const names[] = {"mp_rank_00_model_states.pt",
                                        "mp_rank_01_model_states.pt",
                                        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                                        "zero_pp_rank_0_mp_rank_01_optim_states.pt",
                                        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                                        "zero_pp_rank_1_mp_rank_01_optim_states.pt"};

    empty_folder();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool changes = changed != NULL && strstr(names[i], changed) != NULL;
        char path[200];

        if (without == NULL || strstr(names[i], without) == NULL) {
            snprintf(path, sizeof(path), ZERO "tensor2/global_step1/%s", names[i]);
            copy_file(path, names[i], changes ? from : NULL, to);
        }
    }
}

static void it_refuses_what_it_cannot_put_together(void **state)
{
    static const struct {
        const char *without, *changed, *from, *to;
        exg_status status;
        const char *code, *message;
    } rows[] = {
        {NULL, NULL, NULL, NULL, EXG_OK, "", ""},
        {"mp_rank_01", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "the model had 2 tensor-parallel ranks, files are there of 1"},
        {"mp_rank_00", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "of tensor-parallel rank 0 no files of the model"},
        {"mp_rank_01_model", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "of tensor-parallel rank 1 no files of the model"},
        {"mp_rank_01_optim", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "of tensor-parallel rank 1 no files of the optimizer"},
        {"pp_rank_1_mp_rank_01", NULL, NULL, NULL, EXG_IO, "ZERO-MISSING",
         "zero_pp_rank_1_mp_rank_01_optim_states.pt"},
        {NULL, "model", "universal_checkpoint_info", "universal_checkpoint_infX", EXG_UNSUPPORTED,
         "ZERO-TENSOR",
         "of 2 tensor-parallel ranks no file says how the parts go together "
         "(universal_checkpoint_info): norm.steps, frozen.weight, embedding.weight"},
        {NULL, "model", "^out\\.weight$", "^out(.weight$", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "a pattern that says how parts go together is not known: '^out(.weight$'"},
        {NULL, "model", "original_vocab_size", "original_vocab_sizX", EXG_MALFORMED, "ZERO-STATE",
         "the size of the vocabulary is not said"},
        {NULL, "mp_rank_01_model", "up.bias", "up.bixs", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "['up.bixs']: not all tensor-parallel ranks have it"},
        {NULL, "model", "^out\\.weight$", "up\\.bias$$$$", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "a pattern"},
        {NULL, "model", "^out\\.weight$", "^up\\.b.*i?as$", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "['up.bias']: it has fewer dims than it is cut along"},
        {NULL, "model", "norm.\\w+", "u.*.bias", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "['up.bias']: ranks have other elements of it"},
        {NULL, "model", "K\10K\4K\4", "K\10K\4K\6", EXG_MALFORMED, "ZERO-STATE",
         "['qkv.weight']: ranks have less of it than is said"},
        {NULL, "model", "K\10K\4K\4", "K\10K\4K\2", EXG_MALFORMED, "ZERO-STATE",
         "['qkv.weight']: ranks have more of it than is said"},
        {NULL, "model", "K\10K\4K\4", "K\10K\4K\5", EXG_MALFORMED, "ZERO-STATE",
         "['qkv.weight']: the parameters in it are not cut evenly"},
        {NULL, "model", "G\077\311\231\231\231\231\231\232", "G\077\331\231\231\231\231\231\232",
         EXG_MALFORMED, "ZERO-STATE", /* version 0.4 for 0.2 */
         "['qkv.weight']: what ranks have of the parameters in it is not said"},
        {NULL, "model", "partition_dim", "partition_dix", EXG_UNSUPPORTED, "ZERO-TENSOR",
         "['qkv.weight']: the parameters in it have other dims than it"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *weights = NULL;
        exg_status status;
        exg_error err;

        copy_ranks(rows[r].without, rows[r].changed, rows[r].from, rows[r].to);
        exg_error_clear(&err);
        status = exg_weights_open(in_folder("."), NULL, &weights, NULL, &err);
        exg_weights_release(weights);
        if (status != rows[r].status || strcmp(err.code, rows[r].code) != 0 ||
            strstr(err.message, rows[r].message) == NULL) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(status), err.code, err.message);
        }
    }
    empty_folder();
}

/* What re.match() of Python says of them. */
static void patterns_are_those_of_python(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool known, fits;
    } rows[] = {
        {"a.b", "a.b", true, true},
        {"a.b", "axbc", true, true},
        {"a.b", "a.", true, false},
        {"^a\\.b$", "a.b", true, true},
        {"^a\\.b$", "a.bc", true, false},
        {"^a\\.b$", "axb", true, false},
        {"\\d+.norm.weight", "12.norm.weight", true, true},
        {"\\d+.norm.weight", "x.norm.weight", true, false},
        {"\\d+.norm.weight", "1norm.weight", true, false},
        {".*norm.*", "layers.0.norm.weight", true, true},
        {".*norm$", "layers.0.norm.weight", true, false},
        {".*norm$", "norm.norm", true, true},
        {"ab*c", "ac", true, true},
        {"ab*c", "abbbc", true, true},
        {"ab+c", "ac", true, false},
        {"ab+c", "abbc", true, true},
        {"ab?c", "ac", true, true},
        {"ab?c", "abbc", true, false},
        {"ab?", "a", true, true},
        {"a*", "", true, true},
        {"", "x", true, true},
        {"^$", "x", true, false},
        {"^$", "", true, true},
        {"\\w+\\.w$", "a_1.w", true, true},
        {"\\w+\\.w$", "a-1.w", true, false},
        {"a\\-b", "a-b", true, true},
        {"a-b", "a-b", true, true},
        {".+.+.+.+x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, false},
        {"(a|b)", "a", false, false},
        {"[ab]", "a", false, false},
        {"a{2}", "aa", false, false},
        {"a|b", "a", false, false},
        {"a$b", "a", false, false},
        {"*a", "a", false, false},
        {"a\\sb", "a b", false, false},
        {"a\\", "a", false, false},
        {"a+?", "a", false, false},
    };
    char longest[600];

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        if (exg_name_pattern_is_known(rows[r].pattern) != rows[r].known ||
            exg_name_pattern_fits(rows[r].pattern, rows[r].name) != rows[r].fits) {
            fail_msg("'%s' of '%s'", rows[r].pattern, rows[r].name);
        }
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_false(exg_name_pattern_is_known(longest));
    longest[512] = '\0';
    assert_true(exg_name_pattern_is_known(longest));
    assert_true(exg_name_pattern_fits(longest, longest));
}

static const exg_skipped *find_skipped(const exg_weights *weights, const char *name)
{
    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        if (strcmp(weights->skipped[i].name, name) == 0) {
            return &weights->skipped[i];
        }
    }
    return NULL;
}

/* Stage 3 leaves parameters flat: here they have the shapes that the model says. Frozen ones are in
 * pieces, in the files of the model. */
static void it_reads_what_ds_to_universal_makes(void **state)
{
    static const struct {
        const char *from, *to;
        exg_status status;
        const char *code;
        uint32_t rank;
    } rows[] = {
        {NULL, NULL, EXG_OK, "", 2},
        {"body.weight", "body.weighx", EXG_OK, "", 1}, /* nobody says otherwise */
        {"K\5K\5\206", "K\5K\4\206", EXG_MALFORMED, "ZERO-STATE", 0},
    };
    exg_weights *weights = NULL;

    (void)state;
    assert_same_tensors(ZERO "universal", ZERO "universal.expected.safetensors");
    assert_same_tensors(ZERO "universal/global_step1", ZERO "universal.expected.safetensors");
    assert_same_tensors(ZERO "universal3", ZERO "stage3.expected.safetensors");
    assert_int_equal(mkdir(in_folder("zero"), 0777), 0);
    assert_int_equal(mkdir(in_folder("zero/body.weight"), 0777), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const char model[] = "zero_pp_rank_0_mp_rank_00_model_states.pt";
        exg_status status;
        exg_error err;

        copy_file(ZERO "universal3/zero/body.weight/fp32.pt", "zero/body.weight/fp32.pt", NULL,
                  NULL);
        copy_file(ZERO "universal3/zero_pp_rank_0_mp_rank_00_model_states.pt", model, rows[i].from,
                  rows[i].to);
        exg_error_clear(&err);
        status = exg_weights_open(in_folder("."), NULL, &weights, NULL, &err);
        if (status != rows[i].status || strcmp(err.code, rows[i].code) != 0) {
            fail_msg("row %zu: %s %s %s", i, exg_status_name(status), err.code, err.message);
        }
        if (status ==
            EXG_OK) { /* without the second rank's file half of what is frozen is missing */
            const exg_skipped *frozen = find_skipped(weights, "frozen.weight");

            assert_int_equal(exg_weights_find(weights, EXG_TABLE_STATE, "body.weight")->meta->rank,
                             rows[i].rank);
            assert_non_null(exg_weights_find(weights, EXG_TABLE_STATE, "norm.running_mean"));
            assert_null(exg_weights_find(weights, EXG_TABLE_STATE, "frozen.weight"));
            assert_non_null(frozen);
            assert_non_null(strstr(frozen->kind, "files of the model of other ranks are missing"));
        }
        exg_weights_release(weights);
    }
    assert_int_equal(unlink(in_folder("zero/body.weight/fp32.pt")), 0);
    assert_int_equal(rmdir(in_folder("zero/body.weight")), 0);
    assert_int_equal(rmdir(in_folder("zero")), 0);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_puts_tensor_parallel_ranks_together),
        cmocka_unit_test(it_refuses_what_it_cannot_put_together),
        cmocka_unit_test(it_reads_what_ds_to_universal_makes),
        cmocka_unit_test(patterns_are_those_of_python),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
