/* weights.c - long weights that a session reads frame by frame, or copies where they are mapped, by
 * several cores, on the host and to a device: x + weight, and x + a part of it that begins and ends
 * inside frames. */
#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 900001 /* floats: three frames and some of a fourth */
#define FIRST 300003
#define END   600005

static char path[64];
static exg_operators *operators;
static exg_program *program;

static float value(int64_t i)
{
    return (float)((i * 7919) % 251) / 8;
}

/* Written to a file, and opened from there. */
static void open_again(exg_program *written, const exg_save_options *save)
{
    exg_error err;

    assert_int_equal(exg_save(written, path, EXG_FORMAT_EXG, save, &err), EXG_OK);
    exg_program_destroy(written);
    assert_int_equal(exg_open(path, NULL, &program, NULL, &err), EXG_OK);
}

static void make(bool part, exg_compression compression)
{
    const int64_t sizes[] = {COUNT};
    const int64_t some[] = {part ? END - FIRST : COUNT};
    exg_save_options save = {.size = sizeof(save), .compression = compression};
    float *w = malloc(COUNT * sizeof(*w));
    exg_program *written;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument out;
    exg_ref x;
    exg_ref weight;
    exg_error err;

    assert_non_null(w);
    for (int64_t i = 0; i < COUNT; i++) {
        w[i] = value(i);
    }
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &written, &err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, written, &b, &err), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 1);
    weight = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, w);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, some, 1);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    if (part) {
        weight = EMIT(b, slice_Tensor, weight, 0, FIRST, END, 1);
    }
    out = exg_arg_ref(EMIT(b, add_Tensor, x, weight));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, &err), EXG_OK);
    free(w);
    open_again(written, &save);
}

static exg_status run(const exg_session_options *options, bool part, exg_error *err)
{
    int64_t first = part ? FIRST : 0;
    int64_t count = part ? END - FIRST : COUNT;
    float *x = malloc((size_t)count * sizeof(*x));
    exg_session_input input = {.name = "x",
                               .tensor = {.data = x, .dtype = EXG_DTYPE_F32, .rank = 1}};
    exg_session *session;
    exg_verified verified;
    exg_status status;

    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(i % 3);
    }
    input.tensor.sizes[0] = count;
    exg_tensor_set_contiguous(&input.tensor);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, options, &session, err), EXG_OK);
    status = exg_session_run(session, &input, 1, err);
    if (status == EXG_OK) {
        const float *y = exg_session_output_at(session, 0)->tensor.data;

        for (int64_t i = 0; i < count; i++) {
            assert_true(y[i] == (float)(i % 3) + value(first + i));
        }
    }
    exg_session_destroy(session);
    free(x);
    return status;
}

static exg_session_options options_of(uint32_t threads, bool on_device)
{
    const char *device = getenv("EXG_TEST_DEVICE");

    return (exg_session_options){.size = sizeof(exg_session_options),
                                 .thread_count = threads,
                                 .device = !on_device       ? NULL
                                           : device == NULL ? "strict"
                                                            : device};
}

/* A device that the environment names is emulated, which takes its time: one case is enough. */
static bool is_left_out(uint32_t number)
{
    return getenv("EXG_TEST_DEVICE") != NULL && number != 3;
}

static void what_is_read_by_many_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        make(i % 2 == 1, i < 2 ? EXG_COMPRESSION_ZSTD : EXG_COMPRESSION_NONE);
        for (uint32_t k = 0; k < 8; k++) {
            const exg_partition_options data = {.size = sizeof(data), .mode = EXG_PARTITION_DATA};
            exg_session_options options = options_of(1 + k / 2, k % 2 == 1);
            exg_error err;

            if (k >= 6) {
                options.mesh = (exg_mesh_shape){1, {2}};
                options.partition = &data;
            }

            if (is_left_out(k)) {
                continue;
            }
            assert_int_equal(run(&options, i % 2 == 1, &err), EXG_OK);
        }
        exg_program_destroy(program);
    }
}

/* A byte of the second frame is another. */
static void a_damaged_frame_ends_the_run(void **state)
{
    FILE *file;
    long at;

    (void)state;
    make(false, EXG_COMPRESSION_ZSTD);
    exg_program_destroy(program);
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    at = ftell(file) / 2;
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(fgetc(file) ^ 0x55, file) == EOF, 0);
    assert_int_equal(fclose(file), 0);
    for (uint32_t i = 0; i < 4; i++) {
        exg_session_options options = options_of(1 + i / 2, i % 2 == 1);
        exg_error err;

        assert_int_equal(exg_open(path, NULL, &program, NULL, &err), EXG_OK);
        assert_int_equal(run(&options, false, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "EXG-022");
        assert_non_null(strstr(err.where, "weights[\"w\"]"));
        exg_program_destroy(program);
    }
}

/* ---- weights that steps make others of ------------------------------------------------------- */

#define ROWS    512
#define COLUMNS 1024

/* x @ w.t(), of which a packed form is made, and with `tied` x[0] + v[1] too, which reads v in
 * every run: the same bytes in the file. */
static void make_product(bool tied)
{
    const int64_t sizes[] = {ROWS, COLUMNS};
    const int64_t some[] = {64, COLUMNS};
    exg_save_options save = {
        .size = sizeof(save), .compression = EXG_COMPRESSION_ZSTD, .deduplicate = true};
    float *w = malloc(ROWS * COLUMNS * sizeof(*w));
    exg_program *written;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument out;
    exg_ref weight;
    exg_ref x;
    exg_ref other = {0};
    exg_error err;

    assert_non_null(w);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        w[i] = value(i);
    }
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &written, &err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, written, &b, &err), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 2);
    weight = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, w);
    if (tied) {
        other = exg_builder_weight(b, "v", &meta, EXG_INPUT_PARAMETER, w);
    }
    meta = exg_builder_meta(b, EXG_DTYPE_F32, some, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    out = exg_arg_ref(EMIT(b, mm_default, x, EMIT(b, t_default, weight)));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    if (tied) {
        out = exg_arg_ref(
            EMIT(b, add_Tensor, EMIT(b, select_int, x, 0, 0), EMIT(b, select_int, other, 0, 1)));
        exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    }
    assert_int_equal(exg_builder_finish(b, &err), EXG_OK);
    free(w);
    open_again(written, &save);
}

/* x is row r of the unit matrix, 64 of them: columns of w. */
static void check_product(const exg_session_options *options, bool tied, uint64_t most)
{
    static float x[64 * COLUMNS];
    exg_session_input input = {.name = "x",
                               .tensor = {.data = x, .dtype = EXG_DTYPE_F32, .rank = 2}};
    const exg_session_stats *stats;
    exg_session *session;
    exg_verified verified;
    exg_error err;

    for (int64_t i = 0; i < 64; i++) {
        x[i * COLUMNS + i] = 1;
    }
    input.tensor.sizes[0] = 64;
    input.tensor.sizes[1] = COLUMNS;
    exg_tensor_set_contiguous(&input.tensor);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, options, &session, &err), EXG_OK);
    for (int again = 0; again < 2; again++) {
        const float *y;

        assert_int_equal(exg_session_run(session, &input, 1, &err), EXG_OK);
        y = exg_session_output_at(session, 0)->tensor.data;
        for (int64_t i = 0; i < 64; i++) {
            for (int64_t j = 0; j < ROWS; j++) {
                assert_true(y[i * ROWS + j] == value(j * COLUMNS + i));
            }
        }
        y = tied ? exg_session_output_at(session, 1)->tensor.data : NULL;
        for (int64_t j = 0; tied && j < COLUMNS; j++) {
            assert_true(y[j] == (j == 0 ? 1 : 0) + value(COLUMNS + j));
        }
    }
    stats = exg_session_statistics(session);
    if (stats->memory_bytes > most) {
        fail_msg("%llu bytes, %llu are enough", (unsigned long long)stats->memory_bytes,
                 (unsigned long long)most);
    }
    exg_session_destroy(session);
}

/* What was packed is there once: its own bytes went when they had been read, unless something else
 * reads them in every run. */
static void what_was_packed_is_there_once(void **state)
{
    const uint64_t weight = ROWS * COLUMNS * sizeof(float);

    (void)state;
    if (getenv("EXG_TEST_DEVICE") != NULL) { /* which packs nothing */
        skip();
    }
    for (int tied = 0; tied <= 1; tied++) {
        make_product(tied == 1);
        for (uint32_t i = 0; i < 6; i++) {
            exg_session_options options = options_of(3, i % 2 == 1);

            options.mesh = (exg_mesh_shape){1, {1 + i / 2}};
            options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                         .mode = i < 2 ? EXG_PARTITION_REPLICATE
                                                                       : EXG_PARTITION_TENSOR};
            check_product(&options, tied == 1,
                          weight * (1 + (uint64_t)tied) * 11 / 10 + (1 << 20) * (1 + i / 2));
        }
        exg_program_destroy(program);
    }
}

static int set_up(void **state)
{
    int file;

    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/exg-weights-XXXXXX");
    file = mkstemp(path);
    (void)close(file);
    return file < 0 ? -1 : exg_operators_create(&operators, NULL) == EXG_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    exg_operators_destroy(operators);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_by_many_is_whole),
        cmocka_unit_test(a_damaged_frame_ends_the_run),
        cmocka_unit_test(what_was_packed_is_there_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
