/* strided.c - strided shards, and what else of the placements is rare: rows of
 * tests/seeds-003.md.
 */
#include "tests/exec/dispatch/eager.h"
#include "tests/exec/dtensor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- where parts lie ------------------------------------------------------------------------- */

/* A vector 0, 1, ... and what of it each rank has. */
typedef struct golden {
    const char *mesh, *placements;
    int64_t length;
    const char *parts;
} golden;

static exg_tensor numbers(int64_t *data, int64_t length)
{
    exg_tensor t = {
        .data = data, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {length}, .strides = {1}};

    for (int64_t i = 0; i < length; i++) {
        data[i] = i;
    }
    return t;
}

static void print_part(const exg_tensor *local, char *text, size_t room)
{
    size_t used = 0;

    text[0] = '\0';
    for (int64_t i = 0; i < local->sizes[0]; i++) {
        used += (size_t)snprintf(text + used, room - used, "%s%d", i > 0 ? " " : "",
                                 (int)((const int64_t *)local->data)[i]);
    }
}

static void check_golden(rank_context *c)
{
    const golden *g = c->user;
    const char *expected = g->parts;
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(g->placements, to);
    int64_t data[NUMEL_MAX], offset, size;
    exg_tensor whole = numbers(data, g->length);
    exg_dtensor *t = NULL, *full = NULL, *range = NULL;
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_I64, 1, &g->length, to, count, false};
    char text[100];
    exg_error err;

    for (uint32_t r = 0; r < exg_device_mesh_rank(c->mesh); r++) {
        expected = strchr(expected, '|') + 1;
    }
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &whole, to, count, 0, &t, &err) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, &err) == EXG_OK &&
               exg_dtensor_arange(c->mesh, &like, 0, 1, &range, &err) == EXG_OK &&
               exg_dtensor_chunk(t, &offset, &size, &err) == EXG_OK,
           "%s", err.message);
    if (c->faults == 0) {
        print_part(on_host(t), text, sizeof(text));
        EXPECT(c,
               strlen(text) == strcspn(expected, "|") && strncmp(text, expected, strlen(text)) == 0,
               "%s of %d: '%s'", g->placements, (int)g->length, text);
        EXPECT(c,
               size == exg_dtensor_to_local(t)->sizes[0] &&
                   offset == (size > 0 ? ((const int64_t *)on_host(t)->data)[0] : g->length),
               "offset %d", (int)offset);
        EXPECT(c, memcmp(on_host(full)->data, data, (size_t)g->length * sizeof(*data)) == 0,
               "%s: another whole", g->placements);
        EXPECT(c, memcmp(on_host(range)->data, on_host(t)->data, (size_t)size * sizeof(*data)) == 0,
               "made where it lies");
    }
    exg_dtensor_destroy(range);
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
}

/* Computed by the split functions of PyTorch 2.13's _StridedShard and Shard. S003-35 */
static void strided_parts_lie_where_pytorch_puts_them(void **state)
{
    static const golden rows[] = {
        {"2x2", "_S(0,2) S(0)", 8, "0 1|4 5|2 3|6 7"},
        {"2x2", "_S(0,2) S(0)", 5, "0 1|3|2|4"},
        {"2x2", "_S(0,2) S(0)", 3, "0|2|1|"},
        {"2x2", "S(0) _S(0,2)", 9, "0 1 3|2 4|5 7|6 8"},
        {"2x2", "_S(0,2) _S(0,2)", 13, "0 1 7 8|2 3 9|4 5 10 11|6 12"},
        {"2x3", "_S(0,3) S(0)", 13, "0 1 2|5 6 7|10 11|3 4|8 9|12"},
        {"2x3", "_S(0,3) R", 7, "0 1 3 4 6|0 1 3 4 6|0 1 3 4 6|2 5|2 5|2 5"},
        {"2x3", "R _S(0,2)", 11, "0 1 6 7|2 3 8 9|4 5 10|0 1 6 7|2 3 8 9|4 5 10"},
        {"4", "_S(0,2)", 9, "0 1 5|2 3 6|4 7|8"},
        {"2", "_S(0,4)", 3, "0 1 2|"},
        {"2", "_S(0,3)", 7, "0 1 3 4 6|2 5"},
        {"2", "_S(0,2)", 0, "|"},
        {"2x2x2", "_S(0,4) _S(0,2) S(0)", 17, "0 1 2|7 10 11|5 6|12 15|3 4|13 14|8 9|16"},
        {"2x2x2", "_S(0,2) S(0) S(0)", 8, "0|1|4|5|2|3|6|7"},
        {"2x2x2", "_S(0,2) R S(0)", 10, "0 1 2|5 6 7|0 1 2|5 6 7|3 4|8 9|3 4|8 9"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        on_mesh(rows[i].mesh, check_golden, &rows[i]);
    }
}

/* Every pair of lists with strided ones among them. */
static void every_strided_pair_gives_the_whole(void **state)
{
    static const char *const meshes[] = {"2", "3", "2x2", "2x3"};

    (void)state;
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){5, 3}, 2, EXG_REDUCE_SUM, 2});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){13, 4}, 2, EXG_REDUCE_SUM, 3});
        on_mesh(meshes[m], check_pairs, &(pairs){(int64_t[]){0, 3}, 2, EXG_REDUCE_MAX, 2});
    }
    on_mesh("2x2x2", check_pairs, &(pairs){(int64_t[]){13}, 1, EXG_REDUCE_SUM, 2});
    on_mesh("2x2x2", check_pairs, &(pairs){(int64_t[]){16}, 1, EXG_REDUCE_SUM, 4});
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static _Atomic uint32_t marks[2][12]; /* by holder: any, the writers */
static float file[12];

/* Each chunk to its place in a file of the whole, by its first holder; then another mesh reads. */
static void save_chunks(rank_context *c)
{
    const char *text = c->user;
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t ndim = placements_of(text, to), count = 0;
    exg_write_item items[8];
    float data[12];
    exg_tensor whole = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {6, 2}, .strides = {2, 1}};
    bool wanted = text[0] == 'S'; /* of some the gradient is */
    exg_dtensor *t = NULL;
    exg_error err;

    for (int i = 0; i < 12; i++) {
        data[i] = (float)i;
    }
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &whole, to, ndim, 0, &t, &err) == EXG_OK &&
               exg_dtensor_set_requires_grad(t, wanted, &err) == EXG_OK &&
               exg_dtensor_write_items(t, "a.weight", items, 8, &count, &err) == EXG_OK,
           "%s", err.message);
    for (uint32_t k = 0; c->faults == 0 && k < count; k++) {
        const exg_write_item *item = &items[k];
        exg_tensor part;
        float chunk[12];

        EXPECT(c,
               strcmp(item->fqn, "a.weight") == 0 && item->rank == 2 &&
                   item->dtype == EXG_DTYPE_F32 && item->layout == EXG_LAYOUT_STRIDED &&
                   item->memory_format == EXG_MEMORY_FORMAT_CONTIGUOUS && !item->pin_memory &&
                   item->requires_grad == wanted && item->global_sizes[0] == 6 &&
                   item->global_sizes[1] == 2,
               "properties");
        EXPECT(c,
               exg_dtensor_shard_at(t, item->offsets, &part, &err) == EXG_OK &&
                   memcmp(part.sizes, item->sizes, 2 * sizeof(int64_t)) == 0,
               "%s", err.message);
        EXPECT(c, exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_OK, "%s", err.message);
        for (int64_t i = 0; c->faults == 0 && i < item->sizes[0] * item->sizes[1]; i++) {
            int64_t row = i / item->sizes[1], column = i % item->sizes[1];
            int64_t at = (item->offsets[0] + row) * 2 + item->offsets[1] + column;
            bool writes = item->writer == exg_device_mesh_rank(c->mesh);

            marks[0][at]++;
            marks[1][at] += writes;
            if (writes) {
                file[at] = chunk[i];
            }
        }
    }
    exg_dtensor_destroy(t);
}

static void load_chunks(rank_context *c)
{
    exg_placement rows = exg_shard(0);
    float data[12] = {0};
    exg_tensor local = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 2};
    int64_t whole[2] = {6, 2}, strides[2] = {2, 1}, offsets[2];
    exg_from_local_options options = {.size = sizeof(options), .shape = whole, .strides = strides};
    exg_dtensor *t = NULL, *full = NULL;
    exg_error err;

    exg_local_chunk(c->mesh, exg_device_mesh_rank(c->mesh), &rows, whole, 2, offsets, local.sizes);
    exg_tensor_set_contiguous(&local);
    memcpy(data, file + (local.sizes[0] > 0 ? offsets[0] * 2 : 0),
           (size_t)local.sizes[0] * 2 * sizeof(float));
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &local, &rows, 1, &options, &t, &err) == EXG_OK &&
               exg_dtensor_full_tensor(t, &full, &err) == EXG_OK,
           "%s", err.message);
    for (int i = 0; c->faults == 0 && i < 12; i++) {
        EXPECT(c, ((const float *)on_host(full)->data)[i] == (float)i, "loaded");
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(t);
}

/* S003-76, S003-79, S003-81: each element once, whatever holds it; saved on 2 x 2, loaded on 4. */
static void strided_chunks_cover_each_element_once(void **state)
{
    static const struct {
        const char *placements;
        uint32_t holders; /* of each element */
    } rows[] = {
        {"_S(0,2) S(0)", 1}, {"_S(0,3) S(1)", 1}, {"R _S(0,2)", 2}, {"S(0) R", 2}, {"R R", 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset((void *)marks, 0, sizeof(marks));
        memset(file, 0, sizeof(file));
        on_mesh("2x2", save_chunks, rows[i].placements);
        for (int k = 0; k < 12; k++) {
            assert_int_equal(marks[0][k], rows[i].holders);
            assert_int_equal(marks[1][k], 1);
        }
        on_mesh("4", load_chunks, NULL);
    }
}

static void ask_for_chunks(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    int64_t data[8], shape = 8, stride = 1;
    exg_tensor whole = numbers(data, 8), part;
    exg_placement strided = exg_strided_shard(0, 2), sum = exg_partial(EXG_REDUCE_SUM);
    exg_from_local_options options = {sizeof(options), &shape, &stride, false, false};
    exg_write_item items[1];
    int64_t chunk[8];
    exg_dtensor *t = NULL;
    char *text = NULL;
    uint32_t count;
    exg_error err;

    EXPECT(c, exg_distribute_tensor(c->mesh, &whole, &strided, 1, 0, &t, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c,
           exg_dtensor_write_items(t, "x", items, 1, &count, &err) == EXG_OK && count == 2 &&
               items[0].offsets[0] == 2 * rank && items[0].sizes[0] == 2,
           "two chunks");
    EXPECT(c,
           exg_dtensor_shard_at(t, (const int64_t[]){4 + 2 * rank}, &part, &err) == EXG_OK &&
               exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_OK && part.sizes[0] == 2 &&
               chunk[1] == 5 + 2 * rank,
           "the second");
    part.rank = 2; /* no view of it: more dims, another dtype, past its end, before its begin */
    EXPECT(c, exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_USAGE, "two dims");
    part.rank = 1;
    part.dtype = EXG_DTYPE_F64;
    EXPECT(c, exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_USAGE, "another dtype");
    part.dtype = EXG_DTYPE_I64;
    part.data = (int64_t *)part.data + 1;
    EXPECT(c, exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_USAGE, "past the end");
    part.data = (int64_t *)part.data - 4;
    EXPECT(c, exg_dtensor_copy_to_host(t, &part, chunk, &err) == EXG_USAGE, "before the begin");
    EXPECT(c,
           exg_dtensor_shard_at(t, (const int64_t[]){2 - 2 * rank}, &part, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-014") == 0,
           "another's chunk");
    EXPECT(c, exg_dtensor_print(t, &text, &err) == EXG_OK && strstr(text, "(_S(0, 2))") != NULL,
           "%s", text);
    free(text);
    exg_dtensor_destroy(t);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &whole, &sum, 1, &options, &t, &err) == EXG_OK &&
               exg_dtensor_write_items(t, "x", items, 1, &count, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-014") == 0,
           "chunks of a Partial");
    exg_dtensor_destroy(t);
    strided.split_factor = 0;
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &whole, &strided, 1, 0, &t, &err) == EXG_UNSUPPORTED &&
               strcmp(err.code, "DTN-019") == 0,
           "factor 0");
    strided = (exg_placement){.kind = EXG_PLACEMENT_KIND_COUNT};
    EXPECT(c, exg_distribute_tensor(c->mesh, &whole, &strided, 1, 0, &t, &err) == EXG_UNSUPPORTED,
           "a placement of no kind");
}

/* Of four numbers each rank has two. */
static void note_halves(rank_context *c)
{
    int64_t rank = exg_device_mesh_rank(c->mesh), size = 4;
    exg_placement shard = exg_shard(0);
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_BF16,
                             .rank = 1,
                             .sizes = &size,
                             .placements = &shard,
                             .placement_count = 1,
                             .requires_grad = true};
    exg_write_item item = {0};
    uint32_t count = 0;
    exg_dtensor *t;
    exg_error err;

    EXPECT(c,
           exg_dtensor_zeros(c->mesh, &like, &t, &err) == EXG_OK &&
               exg_dtensor_write_items(t, "b", &item, 1, &count, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           count == 1 && strcmp(item.fqn, "b") == 0 && item.offsets[0] == 2 * rank &&
               item.sizes[0] == 2 && item.global_sizes[0] == 4 && item.rank == 1,
           "the chunk");
    EXPECT(c,
           item.requires_grad && item.dtype == EXG_DTYPE_BF16 &&
               item.layout == EXG_LAYOUT_STRIDED && !item.pin_memory && item.writer == rank,
           "its properties");
    exg_dtensor_destroy(t);
}

/* S003-36, S003-76, S003-78, S003-80, S003-99 */
static void chunks_are_asked_for_by_their_place(void **state)
{
    (void)state;
    on_mesh("2", ask_for_chunks, NULL);
    on_mesh("2", note_halves, NULL);
}

/* ---- operators ------------------------------------------------------------------------------- */

static void compute_strided(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *z;
    uint64_t before;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "5x2", "_S(0,2)");
    y = counted(&e, EXG_DTYPE_F32, "2", "R");
    before = exg_device_mesh_exchanges(c->mesh);
    z = CALL(&e, "aten.mul.Tensor", T(x), T(y));
    EXPECT(c, lies(z, "_S(0,2)") && exg_device_mesh_exchanges(c->mesh) == before,
           "element by element nothing moves");
    expect_values(&e, z, "_S(0,2)", (const double[]){0, 1, 0, 3, 0, 5, 0, 7, 0, 9}, 10, "product");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.sum.dim_IntList", T(z), of_ints((int64_t[]){0}, 1));
    expect_values(&e, y, "", (const double[]){0, 25}, 2, "sum");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.flip.default", T(x), of_ints((int64_t[]){0}, 1));
    expect_values(&e, y, "", (const double[]){8, 9, 6, 7, 4, 5, 2, 3, 0, 1}, 10, "flip");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.add_.Scalar", T(x), of_int(1));
    EXPECT(c, y == x, "in place");
    expect_values(&e, x, "_S(0,2)", (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, "add_");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void operators_run_on_strided_shards(void **state)
{
    (void)all_operators();
    (void)state;
    on_mesh("2", compute_strided, NULL);
    free_operators();
}

/* ---- bits ------------------------------------------------------------------------------------ */

static void reduce_bits(rank_context *c)
{
    static const exg_reduce_op ops[] = {EXG_REDUCE_BAND, EXG_REDUCE_BOR, EXG_REDUCE_BXOR};
    static const int64_t expected[3][2] = {{6, 0}, {7, 7}, {1, 7}};
    static const bool truths[3][4] = {
        {true, false, false, false}, {true, true, true, false}, {false, true, true, false}};
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    int64_t whole[2] = {rank == 0 ? 6 : 7, rank == 0 ? 3 : 4};
    bool bools[4] = {true, rank == 0, rank == 1, false};
    float real[2] = {1, 2};
    exg_error err;

    for (int k = 0; k < 3; k++) {
        exg_placement bits = exg_partial(ops[k]);
        exg_tensor local = {
            .data = whole, .dtype = EXG_DTYPE_I64, .rank = 1, .sizes = {2}, .strides = {1}};
        exg_dtensor *t = NULL, *full = NULL;

        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &bits, 1, NULL, &t, &err) == EXG_OK &&
                   exg_dtensor_full_tensor(t, &full, &err) == EXG_OK,
               "%s", err.message);
        EXPECT(c,
               c->faults > 0 || memcmp(on_host(full)->data, expected[k], sizeof(expected[k])) == 0,
               "%s of integers", exg_reduce_op_name(ops[k]));
        exg_dtensor_destroy(full);
        exg_dtensor_destroy(t);
        local = (exg_tensor){
            .data = bools, .dtype = EXG_DTYPE_B8, .rank = 1, .sizes = {4}, .strides = {1}};
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &bits, 1, NULL, &t, &err) == EXG_OK &&
                   exg_dtensor_full_tensor(t, &full, &err) == EXG_OK,
               "%s", err.message);
        EXPECT(c, c->faults > 0 || memcmp(on_host(full)->data, truths[k], 4) == 0, "%s of bools",
               exg_reduce_op_name(ops[k]));
        exg_dtensor_destroy(full);
        exg_dtensor_destroy(t);
        local = (exg_tensor){
            .data = real, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {2}, .strides = {1}};
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &local, &bits, 1, NULL, &t, &err) == EXG_OK &&
                   exg_dtensor_full_tensor(t, &full, &err) == EXG_USAGE &&
                   strcmp(err.code, "DTN-006") == 0,
               "bits of floats");
        exg_dtensor_destroy(t);
        EXPECT(c,
               exg_distribute_tensor(c->mesh, &local, &bits, 1, 0, &t, &err) == EXG_USAGE &&
                   strcmp(err.code, "DTN-007") == 0,
               "%s", err.message);
        local.data = whole;
        local.dtype = EXG_DTYPE_I64;
        bits = exg_partial(EXG_REDUCE_SUM);
        EXPECT(c,
               exg_distribute_tensor(c->mesh, &local, &bits, 1, 0, &t, &err) == EXG_USAGE &&
                   strcmp(err.code, "DTN-007") == 0 &&
                   strstr(err.message, "would not be whole") != NULL,
               "%s", err.message);
    }
}

/* S003-35, S003-37 */
static void bits_are_reduced_one_by_one(void **state)
{
    (void)state;
    on_mesh("2", reduce_bits, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strided_parts_lie_where_pytorch_puts_them),
        cmocka_unit_test(every_strided_pair_gives_the_whole),
        cmocka_unit_test(strided_chunks_cover_each_element_once),
        cmocka_unit_test(chunks_are_asked_for_by_their_place),
        cmocka_unit_test(operators_run_on_strided_shards),
        cmocka_unit_test(bits_are_reduced_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
