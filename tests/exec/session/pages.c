/* pages.c - of a file of weights a rank brings in its own parts alone: counted in the system's page
 * cache, from which the file was dropped before. */
#include "libexec/comm/grid.h"
#include "libexec/executor/weight_bindings.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WIDTH 32
#define HIDDEN                                                                                     \
    131072 /* parts of rows are many pages: those at their ends hold others' bytes too             \
            */
#define ROWS  65536
#define BYTES ((uint64_t)WIDTH * HIDDEN * 4)

/* A table, of which rows are looked up, and two products, which `tensor` splits by column and by
 * row. */
static void save_model(const char *path, const exg_operators *operators)
{
    static const char *const names[] = {"table", "up", "down"};
    static const int64_t sizes[][2] = {{ROWS, WIDTH}, {HIDDEN, WIDTH}, {WIDTH, HIDDEN}};
    float *zeros = calloc(HIDDEN, WIDTH * sizeof(float));
    exg_program *program;
    exg_builder *b;
    exg_ref w[3], x;
    exg_argument y;
    exg_tensor_meta meta;
    exg_error err;

    assert_non_null(zeros);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    for (int i = 0; i < 3; i++) {
        meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes[i], 2);
        w[i] = exg_builder_weight(b, names[i], &meta, EXG_INPUT_PARAMETER, zeros);
    }
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (const int64_t[]){2}, 1);
    x = exg_builder_input(b, "ids", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    x = EMIT(b, embedding_default, w[0], x);
    x = EMIT(b, relu_default, EMIT(b, linear_default, x, w[1]));
    y = exg_arg_ref(EMIT(b, linear_default, x, w[2]));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    if (exg_builder_finish(b, &err) != EXG_OK ||
        exg_save(program, path, EXG_FORMAT_PT2, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    exg_program_destroy(program);
    free(zeros);
}

static uint64_t resident_bytes(const char *path)
{
    int descriptor = open(path, O_RDONLY);
    struct stat st;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t count = 0;

    assert_true(descriptor >= 0 && fstat(descriptor, &st) == 0);
    size_t pages = ((size_t)st.st_size + page - 1) / page;
    unsigned char *there = calloc(pages, 1);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, descriptor, 0);

    assert_true(there != NULL && map != MAP_FAILED);
    assert_int_equal(mincore(map, (size_t)st.st_size, there), 0);
    for (size_t i = 0; i < pages; i++) {
        count += there[i] & 1;
    }
    munmap(map, (size_t)st.st_size);
    close(descriptor);
    free(there);
    return count * page;
}

static void drop_pages(const char *path)
{
    int descriptor = open(path, O_RDONLY);

    assert_true(descriptor >= 0);
    assert_int_equal(fsync(descriptor), 0);
    (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    close(descriptor);
}

/* Binds rank `rank` of `ranks`, and brings what its first steps read. */
static void bind(const exg_program *program, const exg_operators *operators,
                 exg_partition_mode mode, uint32_t ranks, uint32_t rank)
{
    exg_partition_options place = {.size = sizeof(place), .mode = mode};
    exg_mesh_shape mesh = {1, {ranks}};
    exg_program *functional = NULL, *local = NULL;
    exg_weight_bindings bindings = {.is_of_mesh = true};
    exg_weight_store *store = NULL;
    exg_plan *plan = NULL;
    exg_grid grid;
    exg_error err;

    if (exg_functionalize(program, operators, &functional, &err) != EXG_OK ||
        exg_partition(functional, operators, &place, NULL, &mesh, rank, &local, NULL, NULL, &err) !=
            EXG_OK ||
        exg_paper_grid(&mesh, rank, false, &grid, &err) != EXG_OK ||
        exg_plan_rank(local, operators, NULL, &grid, NULL, NULL, &plan, &err) != EXG_OK ||
        exg_weight_store_create(program->weights, NULL, &store, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    exg_weight_store_compare(store, 0, 0);
    bindings.plan = plan;
    bindings.store = store;
    bindings.inputs = calloc(plan->input_count, sizeof(*bindings.inputs));
    assert_int_equal(exg_weight_bindings_bind(&bindings, 0, &err), EXG_OK);
    for (uint32_t s = 0; s < plan->folded_count; s++) {
        assert_int_equal(exg_weight_bindings_fetch(&bindings, &plan->steps[s], &err), EXG_OK);
    }
    exg_weight_bindings_release(&bindings);
    free(bindings.inputs);
    exg_weight_store_destroy(store);
    exg_plan_destroy(plan);
    exg_grid_close(&grid);
    exg_program_destroy(local);
    exg_program_destroy(functional);
}

/* A while without another page: what is on its way has come. */
static uint64_t settled_bytes(const char *path)
{
    uint64_t now = resident_bytes(path), before;
    int same = 0;

    while (same < 4) {
        before = now;
        nanosleep(&(struct timespec){0, 50 * 1000 * 1000}, NULL);
        now = resident_bytes(path);
        same = now == before ? same + 1 : 0;
    }
    return now;
}

typedef struct model {
    char path[300];
    exg_operators *operators;
} model;

static int make_model(void **state)
{
    const char *folder = getenv("TMPDIR");
    static model m;
    int descriptor;

    snprintf(m.path, sizeof(m.path), "%s/exg-pages.XXXXXX.pt2", folder == NULL ? "/tmp" : folder);
    descriptor = mkstemps(m.path, 4);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(exg_operators_create(&m.operators, NULL), EXG_OK);
    *state = &m;
    save_model(m.path, m.operators);
    return 0;
}

static int drop_model(void **state)
{
    model *m = *state;

    unlink(m->path);
    exg_operators_destroy(m->operators);
    return 0;
}

/* A rank's share of both products, and of the table nothing before rows are looked up. */
static void a_rank_brings_its_own_parts_alone(void **state)
{
    static const struct {
        exg_partition_mode mode;
        uint32_t ranks, rank;
        uint64_t bytes; /* read by steps that read all of what they see */
    } rows[] = {
        {EXG_PARTITION_TENSOR, 4, 1, 2 * BYTES / 4},
        {EXG_PARTITION_TENSOR, 2, 0, 2 * BYTES / 2},
        {EXG_PARTITION_PIPELINE, 2, 1, BYTES},
    };
    const model *m = *state;
    const char *path = m->path;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *program;
        uint64_t opened, read;
        exg_error err;

        drop_pages(path);
        if (resident_bytes(path) != 0) { /* a file system that is memory */
            skip();
        }
        if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        opened = settled_bytes(path);
        bind(program, m->operators, rows[i].mode, rows[i].ranks, rows[i].rank);
        read = settled_bytes(path);
        if (read < rows[i].bytes || read - opened > rows[i].bytes + rows[i].bytes / 20) {
            fail_msg("row %zu: %llu bytes to open it, then %llu for %llu", i,
                     (unsigned long long)opened, (unsigned long long)(read - opened),
                     (unsigned long long)rows[i].bytes);
        }
        exg_program_destroy(program);
    }
}

/* Of weights in pieces those that few rows are for stay where they are: the rows go round. */
static void few_rows_go_to_the_pieces(void **state)
{
    const model *m = *state;
    exg_partition_options place = {.size = sizeof(place), .mode = EXG_PARTITION_FSDP};
    exg_partition_summary *placed = NULL;
    exg_program *program, *functional = NULL, *local = NULL;
    exg_error err;

    if (exg_open(m->path, NULL, &program, NULL, &err) != EXG_OK ||
        exg_functionalize(program, m->operators, &functional, &err) != EXG_OK ||
        exg_partition(functional, m->operators, &place, NULL, &(exg_mesh_shape){1, {4}}, 1, &local,
                      &placed, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    assert_in_range(placed->value_bytes, 1, BYTES / 4);
    assert_in_range(placed->moved_bytes, 1, BYTES / 4);
    free(placed);
    exg_program_destroy(local);
    exg_program_destroy(functional);
    exg_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_brings_its_own_parts_alone),
        cmocka_unit_test(few_rows_go_to_the_pieces),
    };

    return cmocka_run_group_tests(tests, make_model, drop_model);
}
