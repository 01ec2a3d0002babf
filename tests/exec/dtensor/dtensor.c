/* dtensor.c - DTensors on local meshes, every rank a thread, against the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <exg/dtensor.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_job {
    exg_device_mesh *mesh;
    int64_t rows, columns;
    exg_placement from, to;
    uint32_t faults;
    uint64_t exchanges;
} rank_job;

static float value_at(int64_t i, int64_t j, int64_t columns)
{
    return (float)(i * columns + j + 1);
}

/* This rank's part of the value under a placement. Summands differ by rank, so that
 * a missing or doubled one shows: rank 0 has value + (n - 1), the others -1. */
static float *make_local(const rank_job *job, exg_tensor *local)
{
    uint32_t n = exg_device_mesh_size(job->mesh);
    uint32_t r = exg_device_mesh_rank(job->mesh);
    int64_t start[2] = {0, 0};
    int64_t size[2] = {job->rows, job->columns};
    float *data;

    if (job->from.kind == EXG_SHARD) {
        exg_chunk(size[job->from.dim], n, r, &start[job->from.dim], &size[job->from.dim]);
    }
    data = malloc((size_t)(size[0] * size[1]) * sizeof(float) + 1);
    for (int64_t i = 0; i < size[0]; i++) {
        for (int64_t j = 0; j < size[1]; j++) {
            float v = value_at(start[0] + i, start[1] + j, job->columns);

            if (job->from.kind == EXG_PARTIAL) {
                v = r == 0 ? v + (float)(n - 1) : -1.0f;
            }
            data[i * size[1] + j] = v;
        }
    }
    memset(local, 0, sizeof(*local));
    local->data = data;
    local->dtype = EXG_DTYPE_F32;
    local->rank = 2;
    local->sizes[0] = size[0];
    local->sizes[1] = size[1];
    exg_tensor_set_contiguous(local);
    return data;
}

static void check_local(rank_job *job, const exg_dtensor *t)
{
    const exg_tensor *local = exg_dtensor_to_local(t);
    int64_t start[2] = {0, 0};
    int64_t size[2] = {job->rows, job->columns};

    if (job->to.kind == EXG_SHARD) {
        exg_chunk(size[job->to.dim], exg_device_mesh_size(job->mesh),
                  exg_device_mesh_rank(job->mesh), &start[job->to.dim], &size[job->to.dim]);
    }
    job->faults += local->sizes[0] != size[0] || local->sizes[1] != size[1];
    for (int64_t i = 0; i < size[0]; i++) {
        for (int64_t j = 0; j < size[1]; j++) {
            job->faults += ((const float *)local->data)[i * size[1] + j] !=
                           value_at(start[0] + i, start[1] + j, job->columns);
        }
    }
}

static void *redistribute_rank(void *argument)
{
    rank_job *job = argument;
    int64_t shape[] = {job->rows, job->columns};
    exg_tensor local;
    float *data = make_local(job, &local);
    exg_dtensor *source = NULL;
    exg_dtensor *result = NULL;
    exg_error err;

    if (exg_dtensor_from_local(job->mesh, &local, job->from, shape, &source, &err) != EXG_OK ||
        exg_dtensor_redistribute(source, job->to, &result, &err) != EXG_OK) {
        job->faults++;
    } else {
        check_local(job, result);
    }
    job->exchanges = exg_device_mesh_exchanges(job->mesh);
    exg_dtensor_destroy(result);
    exg_dtensor_destroy(source);
    free(data);
    return NULL;
}

static uint64_t run_ranks(uint32_t n, rank_job plan, void *(*body)(void *))
{
    exg_device_mesh *meshes[8];
    rank_job jobs[8];
    pthread_t threads[8];
    exg_error err;

    assert_int_equal(exg_local_mesh_create(n, meshes, &err), EXG_OK);
    for (uint32_t r = 0; r < n; r++) {
        jobs[r] = plan;
        jobs[r].mesh = meshes[r];
        assert_int_equal(pthread_create(&threads[r], NULL, body, &jobs[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++) {
        pthread_join(threads[r], NULL);
    }
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(jobs[r].faults, 0);
        exg_device_mesh_destroy(meshes[r]);
    }
    return jobs[0].exchanges;
}

/* S003-60..66: every pair of placements, uneven and empty chunks included. */
static void every_redistribution_gives_the_whole(void **state)
{
    const exg_placement from[] = {exg_replicate(), exg_shard(0), exg_shard(1),
                                  exg_partial(EXG_REDUCE_SUM)};
    const exg_placement to[] = {exg_replicate(), exg_shard(0), exg_shard(1)};
    const int64_t sizes[][2] = {{0, 3}, {1, 1}, {2, 5}, {5, 3}, {8, 8}, {9, 4}};

    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        for (size_t f = 0; f < 4; f++) {
            for (size_t t = 0; t < 3; t++) {
                for (size_t s = 0; s < 6; s++) {
                    (void)run_ranks(n,
                                    (rank_job){.rows = sizes[s][0], .columns = sizes[s][1],
                                               .from = from[f], .to = to[t]},
                                    redistribute_rank);
                }
            }
        }
    }
}

/* S003-58, S003-62: no message where none is needed. */
static void equal_placements_and_local_chunks_send_nothing(void **state)
{
    rank_job job = {.rows = 4, .columns = 4, .from = exg_shard(0), .to = exg_shard(0)};

    (void)state;
    assert_int_equal(run_ranks(4, job, redistribute_rank), 0);
    job.from = exg_replicate();
    job.to = exg_shard(1);
    assert_int_equal(run_ranks(4, job, redistribute_rank), 0);
    job.from = exg_shard(0);
    job.to = exg_replicate();
    assert_int_equal(run_ranks(4, job, redistribute_rank), 1);
}

static void *distribute_rank(void *argument)
{
    rank_job *job = argument;
    exg_tensor global;
    float *data;
    exg_dtensor *t = NULL;
    exg_error err;

    job->from = exg_replicate();
    data = make_local(job, &global);
    for (int64_t i = 0; exg_device_mesh_rank(job->mesh) != 0 && i < job->rows * job->columns; i++) {
        data[i] = -100.0f; /* only rank 0's values are the truth */
    }
    if (exg_distribute_tensor(job->mesh, &global, job->to, 0, &t, &err) != EXG_OK) {
        job->faults++;
    } else {
        check_local(job, t);
    }
    exg_dtensor_destroy(t);
    free(data);
    return NULL;
}

/* S003-83, S003-93, S003-97 */
static void distribute_tensor_takes_the_source_ranks_values(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        run_ranks(n, (rank_job){.rows = 5, .columns = 3, .to = exg_shard(0)}, distribute_rank);
        run_ranks(n, (rank_job){.rows = 5, .columns = 3, .to = exg_shard(1)}, distribute_rank);
        run_ranks(n, (rank_job){.rows = 5, .columns = 3, .to = exg_replicate()}, distribute_rank);
    }
}

/* S003-93 and reference 1.1 */
static void chunks_are_those_of_torch_chunk(void **state)
{
    static const struct {
        int64_t length;
        uint32_t n;
        int64_t sizes[8];
    } rows[] = {{5, 4, {2, 2, 1, 0}},  {6, 4, {2, 2, 2, 0}},           {9, 4, {3, 3, 3, 0}},
                {10, 4, {3, 3, 3, 1}}, {17, 8, {3, 3, 3, 3, 3, 2, 0, 0}}, {1, 4, {1, 0, 0, 0}}};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int64_t sum = 0;

        for (uint32_t i = 0; i < rows[r].n; i++) {
            int64_t offset;
            int64_t size;

            exg_chunk(rows[r].length, rows[r].n, i, &offset, &size);
            assert_int_equal(size, rows[r].sizes[i]);
            assert_int_equal(offset, size == 0 ? rows[r].length : sum);
            sum += size;
        }
    }
}

static void *late_rank(void *argument)
{
    rank_job *job = argument;
    exg_tensor local;
    float *data;
    exg_dtensor *t = NULL;
    exg_dtensor *out = NULL;
    exg_error err;

    if (exg_device_mesh_rank(job->mesh) == 1) {
        return NULL; /* never arrives */
    }
    exg_device_mesh_set_deadline(job->mesh, 200 * 1000 * 1000);
    data = make_local(job, &local);
    if (exg_dtensor_from_local(job->mesh, &local, job->from, NULL, &t, &err) != EXG_OK) {
        job->faults++;
    } else {
        job->faults += exg_dtensor_full_tensor(t, &out, &err) != EXG_PEER;
    }
    exg_dtensor_destroy(out);
    exg_dtensor_destroy(t);
    free(data);
    return NULL;
}

static void a_missing_rank_ends_the_collective_on_all(void **state)
{
    (void)state;
    (void)run_ranks(3, (rank_job){.rows = 3, .columns = 2, .from = exg_shard(0)}, late_rank);
}

/* S003-16, S003-17, S003-26, S003-55 */
static void placements_that_do_not_fit_are_refused(void **state)
{
    exg_device_mesh *mesh;
    exg_tensor local = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {2, 3}, .strides = {3, 1}};
    float data[6] = {0};
    int64_t wrong[] = {5, 3};
    exg_dtensor *t;
    exg_dtensor *out;
    exg_error err;

    (void)state;
    local.data = data;
    assert_int_equal(exg_local_mesh_create(1, &mesh, &err), EXG_OK);
    assert_int_equal(exg_dtensor_from_local(mesh, &local, exg_shard(5), NULL, &t, &err), EXG_USAGE);
    assert_int_equal(exg_dtensor_from_local(mesh, &local, exg_shard(0), wrong, &t, &err), EXG_USAGE);
    assert_int_equal(exg_dtensor_from_local(mesh, &local, exg_shard(-1), NULL, &t, &err), EXG_OK);
    assert_int_equal(exg_dtensor_placement(t).dim, 1);
    assert_int_equal(exg_dtensor_redistribute(t, exg_partial(EXG_REDUCE_SUM), &out, &err), EXG_USAGE);
    exg_dtensor_destroy(t);
    exg_device_mesh_destroy(mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_redistribution_gives_the_whole),
        cmocka_unit_test(equal_placements_and_local_chunks_send_nothing),
        cmocka_unit_test(distribute_tensor_takes_the_source_ranks_values),
        cmocka_unit_test(chunks_are_those_of_torch_chunk),
        cmocka_unit_test(a_missing_rank_ends_the_collective_on_all),
        cmocka_unit_test(placements_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
