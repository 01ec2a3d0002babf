/* weights_ranks.c - the files of the ranks of one model, put together. What is expected is written
 * here; run_edit.py cuts models as Meta and Megatron-LM do. */
#include <exg/formats.h>
#include <exg/weights_edit.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A packed tensor of its own storage. */
static void add(exg_weights *weights, const char *name, const float *data, uint32_t rank,
                int64_t rows, int64_t columns)
{
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY,
                           .length = (uint64_t)(rows * columns) * sizeof(float),
                           .data = (const uint8_t *)data};
    exg_sym_int sizes[] = {exg_sym_int_of(rows), exg_sym_int_of(columns)};
    exg_sym_int strides[] = {exg_sym_int_of(rank == 2 ? columns : 1), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = rank,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_weight weight = {.fqn = name, .meta = &meta};
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_weights_add_storage(weights, &storage, &weight.storage, &err), EXG_OK);
    assert_int_equal(exg_weights_add(weights, &weight, &err), EXG_OK);
}

/* A rank's file: "w" by rows, "c" by columns, "b" a vector, "n" what all have. */
static exg_weights *rank_of_model(int rank, float norm)
{
    static const float w[2][6] = {{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}};
    static const float c[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
    static const float b[2][2] = {{1, 2}, {3, 4}};
    static float norms[2];
    exg_weights *weights = NULL;

    norms[rank] = norm;
    assert_int_equal(exg_weights_create(NULL, &weights, NULL), EXG_OK);
    add(weights, "w", w[rank], 2, 2, 3);
    add(weights, "c", c[rank], 2, 2, 2);
    add(weights, "b", b[rank], 1, 2, 1);
    add(weights, "n", &norms[rank], 1, 1, 1);
    return weights;
}

static void ranks_are_put_together(void **state)
{
    exg_string_pair pairs[] = {{"w", "0"}, {"[bc]", "-1"}};
    const exg_string_map dims = {pairs, 2};
    exg_weights *of[] = {rank_of_model(0, 9), rank_of_model(1, 9)};
    exg_weights *made = NULL;
    float got[12];
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_concatenate(of, 2, &dims, &made, &err), EXG_OK);
    exg_weights_release(of[0]);
    exg_weights_release(of[1]);
    assert_int_equal(made->count, 4);
    for (uint32_t i = 0; i < 2; i++) { /* both are 0, 1, 2, ... */
        uint64_t count = i == 0 ? 12 : 8;

        assert_int_equal(made->items[i].meta->sizes[0].value, i == 0 ? 4 : 2);
        assert_int_equal(made->items[i].meta->sizes[1].value, i == 0 ? 3 : 4);
        assert_int_equal(exg_weight_read(made, &made->items[i], got, count * sizeof(float), &err),
                         EXG_OK);
        for (uint64_t k = 0; k < count; k++) {
            assert_true(got[k] == (float)k);
        }
    }
    assert_int_equal(exg_weight_read(made, &made->items[2], got, 4 * sizeof(float), &err), EXG_OK);
    assert_memory_equal(got, ((float[]){1, 2, 3, 4}), 4 * sizeof(float));
    assert_int_equal(exg_weight_read(made, &made->items[3], got, sizeof(float), &err), EXG_OK);
    assert_true(got[0] == 9);
    exg_weights_release(made);
}

static void ranks_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        exg_string_pair pairs[2];
        float norm;
        const char *code;
        exg_status status;
    } rows[] = {
        {{{"w", "0"}, {"[bc]", "-1"}}, 8, "WGT-NAME", EXG_USAGE}, /* "n" is another */
        {{{"w", "0"}, {"b", "0"}}, 9, "WGT-NAME", EXG_USAGE},     /* "c" is in parts */
        {{{"[wbcn]", "0"}, {"nosuch", "0"}}, 9, "WGT-PATTERN", EXG_USAGE},
        {{{"w", "x"}, {"[bcn]", "0"}}, 9, "WGT-PATTERN", EXG_USAGE},
        {{{"w", ""}, {"[bcn]", "0"}}, 9, "WGT-PATTERN", EXG_USAGE},
        {{{"w", "2"}, {"[bcn]", "0"}}, 9, "WGT-PATTERN", EXG_UNSUPPORTED},
        {{{"w", "-3"}, {"[bcn]", "0"}}, 9, "WGT-PATTERN", EXG_UNSUPPORTED},
        {{{"w", "0"}, {"[bcn]", "1"}}, 9, "WGT-PATTERN", EXG_UNSUPPORTED},
    };
    static const float one = 1;
    exg_weights *made = NULL;
    exg_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_string_pair pairs[2] = {rows[i].pairs[0], rows[i].pairs[1]};
        const exg_string_map dims = {pairs, 2};
        exg_weights *of[] = {rank_of_model(0, 9), rank_of_model(1, rows[i].norm)};

        assert_int_equal(exg_weights_concatenate(of, 2, &dims, &made, &err), rows[i].status);
        assert_string_equal(err.code, rows[i].code);
        assert_null(made);
        exg_weights_release(of[0]);
        exg_weights_release(of[1]);
    }
    for (int more = 0; more < 2; more++) { /* a name that one has not */
        exg_string_pair pairs[] = {{"*", "0"}};
        const exg_string_map dims = {pairs, 1};
        exg_weights *of[] = {rank_of_model(0, 9), rank_of_model(1, 9)};

        add(of[more], "more", &one, 1, 1, 1);
        assert_int_equal(exg_weights_concatenate(of, 2, &dims, &made, &err), EXG_USAGE);
        assert_string_equal(err.code, "WGT-NAME");
        assert_int_equal(exg_weights_concatenate(of, 0, &dims, &made, &err), EXG_USAGE);
        exg_weights_release(of[0]);
        exg_weights_release(of[1]);
    }
}

static const float three[3];

/* The same by a preset; what no rule of it fits is skipped where the ranks differ. */
static void a_preset_puts_ranks_together(void **state)
{
    static const char *const presets[] = {
        "w U\nw W ranks 0\nc c ranks 1\nb b ranks 0\nn n",
        "w W ranks 1 unless b2\nc c ranks 0 unless n\nb - ranks 0",
        "w W ranks 0\n[bc] \\0 ranks 1"};
    static const char *const names[] = {"w", "c", "b", "n"};
    static const int64_t rows[][4] = {{4, 2, 4, 1}, {4, 4, 2}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        exg_weights_edit_options options = {.size = sizeof(options), .preset = presets[i]};
        exg_weights *of[] = {rank_of_model(0, 9), rank_of_model(1, i == 1 ? 8 : 9)};
        exg_weights *made = NULL;
        exg_error err;

        if (i == 1) { /* as long as a row of "w": its columns are all there */
            add(of[0], "b2", three, 1, 3, 1);
            add(of[1], "b3", three, 1, 3, 1);
        }
        exg_error_clear(&err);
        if (i == 2) { /* vectors of rows that are summed up must be the same */
            assert_int_equal(exg_weights_merge(of, 2, &options, &made, &err), EXG_USAGE);
            assert_string_equal(err.code, "WGT-NAME");
            assert_null(made);
        } else {
            assert_int_equal(exg_weights_merge(of, 2, &options, &made, &err), EXG_OK);
            assert_int_equal(made->count, i == 0 ? 4 : 3);
            for (uint32_t t = 0; t < made->count; t++) {
                assert_string_equal(made->items[t].fqn, names[t]);
                assert_int_equal(made->items[t].meta->sizes[0].value, rows[i][t]);
            }
        }
        if (i == 1) {
            assert_int_equal(made->skipped_count, 3); /* n, and what one of them alone has */
            assert_string_equal(made->skipped[0].name, "n");
            assert_string_equal(made->skipped[1].name, "b2");
            assert_string_equal(made->skipped[2].name, "b3");
        }
        exg_weights_release(made);
        exg_weights_release(of[0]);
        exg_weights_release(of[1]);
    }
}

/* Without names in common they are parts side by side, whatever the preset says of ranks. */
static void a_preset_joins_other_names(void **state)
{
    const exg_weights_edit_options options = {.size = sizeof(options), .preset = "w W ranks 0"};
    exg_weights *of[] = {rank_of_model(0, 9), NULL};
    exg_weights *made = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_create(NULL, &of[1], &err), EXG_OK);
    add(of[1], "more", three, 1, 3, 1);
    assert_int_equal(exg_weights_merge(of, 2, &options, &made, &err), EXG_OK);
    assert_int_equal(made->count, 5);
    exg_weights_release(made);
    assert_int_equal(exg_weights_merge(of, 0, NULL, &made, &err), EXG_OK);
    assert_int_equal(made->count, 0);
    exg_weights_release(made);
    exg_weights_release(of[0]);
    exg_weights_release(of[1]);
}

/* A file a rank, also of one that has nothing, in the format that the name says. */
static void ranks_are_a_series_of_files(void **state)
{
    exg_weights *ranks[] = {rank_of_model(0, 9), NULL};
    exg_ranks_save *save = NULL;
    exg_weights *read = NULL;
    char root[] = "/tmp/exg-ranks-XXXXXX";
    char path[64];
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_create(NULL, &ranks[1], &err), EXG_OK);
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/s.part", root); /* of a save that was stopped */
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/s.part/m.17.pth", root);
    assert_int_equal(exg_file_write(path, "x", 1, &err), EXG_OK);
    snprintf(path, sizeof(path), "%s/s/m.{rank}.{rank}.pth", root);
    assert_int_equal(exg_weights_save_ranks(ranks, 2, path, NULL, &err), EXG_OK);
    snprintf(path, sizeof(path), "%s/s/m.17.pth", root);
    assert_int_equal(access(path, F_OK), -1);
    for (int i = 1; i >= 0; i--) {
        snprintf(path, sizeof(path), "%s/s/m.0%d.0%d.pth", root, i, i);
        assert_int_equal(exg_weights_open(path, NULL, &read, NULL, &err), EXG_OK);
        assert_int_equal(read->count, i == 0 ? 4 : 0);
        exg_weights_release(read);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/t/m.{rank}", root); /* no format, and nothing is left */
    assert_int_equal(exg_weights_save_ranks(ranks, 1, path, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "TNS-NAME");
    assert_int_equal(exg_weights_save_ranks(ranks, 1, "m.{rank}.pth", NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "IO-KIND"); /* no folder */
    snprintf(path, sizeof(path), "%s/t/m.{rank}.pth", root);
    assert_int_equal(exg_ranks_save_begin(path, &save, &err), EXG_USAGE);
    assert_null(save);
    snprintf(path, sizeof(path), "%s/s", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
    exg_weights_release(ranks[0]);
    exg_weights_release(ranks[1]);
}

/* Ends a save before the file that is the *left-th. */
static exg_status stop_at(void *user, const char *path, uint32_t tensors, uint64_t bytes,
                          exg_error *err)
{
    int *left = user;

    (void)tensors;
    (void)bytes;
    return (*left)-- > 0 ? EXG_OK : EXG_FAIL(err, USAGE, "TST-001", "stopped at %s", path);
}

static void save_until(exg_weights *const *ranks, const char *path, int files, bool resume,
                       exg_status expected)
{
    const exg_weights_save_options options = {
        .size = sizeof(options), .file = stop_at, .user = &files, .resume = resume};
    exg_error err;

    assert_int_equal(exg_weights_save_ranks(ranks, 2, path, &options, &err), expected);
}

static float norm_in(const char *path)
{
    exg_weights *read = NULL;
    float norm = 0;
    exg_error err;

    assert_int_equal(exg_weights_open(path, NULL, &read, NULL, &err), EXG_OK);
    assert_int_equal(exg_weight_read(read, &read->items[3], &norm, sizeof(norm), &err), EXG_OK);
    exg_weights_release(read);
    return norm;
}

/* Says that the file was last written in 1970; was it written since? */
static void make_old(const char *path)
{
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{0, 0}, {0, 0}}, 0), 0);
}

static bool is_old(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim.tv_sec == 0;
}

typedef enum found {
    AS_IT_WAS,
    DAMAGED,
    OTHER_JOURNAL,
    OTHER_VALUES,
    NOT_ASKED_FOR,
    FOUND_COUNT
} found;

/* The first file is whole when the save stops: it is not written again, where it is the same. */
static void go_on_with_series(const char *root, const char *end, found what)
{
    exg_weights *ranks[] = {rank_of_model(0, 9), rank_of_model(1, 5)};
    char path[64];
    char part[64];
    char file[96];

    snprintf(path, sizeof(path), "%s/s/m.{rank}%s", root, end);
    snprintf(part, sizeof(part), "%s/s.part", root);
    save_until(ranks, path, 1, true, EXG_USAGE);
    snprintf(file, sizeof(file), "%s/m.17%s", part, end); /* of a save of more ranks */
    assert_int_equal(exg_file_write(file, "x", 1, NULL), EXG_OK);
    snprintf(file, sizeof(file), "%s/m.01%s", part, end); /* no link is followed */
    assert_int_equal(symlink("../outside", file), 0);
    snprintf(file, sizeof(file), "%s/m.00%s", part, end);
    if (what == DAMAGED) {
        struct stat st;
        FILE *opened = fopen(file, "r+b");

        assert_non_null(opened);
        assert_int_equal(fstat(fileno(opened), &st), 0);
        for (long i = strcmp(end, ".exg") == 0 ? st.st_size / 2 : 0; i < st.st_size; i++) {
            assert_int_equal(fseek(opened, i, SEEK_SET), 0);
            assert_int_equal(fputc('X', opened), 'X');
        }
        fclose(opened);
    }
    make_old(file);
    if (what == OTHER_JOURNAL) {
        snprintf(file, sizeof(file), "%s/m.00.exg.resume", part);
        assert_int_equal(truncate(file, 30), strcmp(end, ".exg") == 0 ? 0 : -1);
        snprintf(file, sizeof(file), "%s/s.resume", root);
        assert_int_equal(truncate(file, 44), 0);
    }
    if (what == OTHER_VALUES) {
        exg_weights_release(ranks[0]);
        ranks[0] = rank_of_model(0, 7);
    }
    save_until(ranks, path, 2, what != NOT_ASKED_FOR, EXG_OK);
    assert_int_equal(access(part, F_OK), -1);
    snprintf(file, sizeof(file), "%s/s.resume", root);
    unlink(file);
    for (int r = 0; r < 2; r++) {
        snprintf(file, sizeof(file), "%s/s/m.0%d%s", root, r, end);
        assert_int_equal(is_old(file), r == 0 && what == AS_IT_WAS);
        assert_true(norm_in(file) == (r == 1 ? 5.0F : what == OTHER_VALUES ? 7.0F : 9.0F));
        unlink(file);
    }
    snprintf(file, sizeof(file), "%s/s", root); /* nothing else was in it */
    assert_int_equal(rmdir(file), 0);
    exg_weights_release(ranks[0]);
    exg_weights_release(ranks[1]);
}

static void a_series_that_was_stopped_goes_on(void **state)
{
    static const char *const ends[] = {".pth", ".safetensors", ".exg"};
    char root[] = "/tmp/exg-ranks-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(root));
    for (size_t e = 0; e < sizeof(ends) / sizeof(ends[0]); e++) {
        for (found what = AS_IT_WAS; what < FOUND_COUNT; what++) {
            go_on_with_series(root, ends[e], what);
        }
    }
    assert_int_equal(rmdir(root), 0); /* and no "outside" */
}

/* What cannot be written leaves nothing, also of a save that could go on. */
static void a_series_that_never_began_leaves_nothing(void **state)
{
    exg_weights *ranks[] = {rank_of_model(0, 9), rank_of_model(1, 5)};
    char root[] = "/tmp/exg-ranks-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/s/m.{rank}.pth", root);
    save_until(ranks, path, 0, true, EXG_USAGE);
    assert_int_equal(rmdir(root), 0);
    exg_weights_release(ranks[0]);
    exg_weights_release(ranks[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_put_together),
        cmocka_unit_test(ranks_that_do_not_fit_are_refused),
        cmocka_unit_test(a_preset_puts_ranks_together),
        cmocka_unit_test(a_preset_joins_other_names),
        cmocka_unit_test(ranks_are_a_series_of_files),
        cmocka_unit_test(a_series_that_was_stopped_goes_on),
        cmocka_unit_test(a_series_that_never_began_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
