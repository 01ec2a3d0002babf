/* device.c - DTensors in a device's memory: what is brought there, what is there already, who waits
 * and who closes it: rows of tests/seeds-003.md. On the strict device, or the kind that
 * EXG_TEST_DEVICE names.
 */
#include "libexec/device/shared_device.h"
#include "libexec/dtensor/mesh.h"
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <exg/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT 6

static exg_tensor numbers(float *data, int64_t length)
{
    for (int64_t i = 0; i < length; i++) {
        data[i] = (float)i;
    }
    return (exg_tensor){
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {length}, .strides = {1}};
}

static void *address_of(const exg_dtensor *t)
{
    return exg_dtensor_to_local(t)->data;
}

static bool is_there(const rank_context *c, const void *address)
{
    return c->mesh->device->table->holds(c->mesh->device, address);
}

/* ---- into the device's memory ---------------------------------------------------------------- */

static void bring(rank_context *c)
{
    float here[COUNT], back[COUNT] = {0};
    exg_tensor part = numbers(here, COUNT), there;
    exg_placement rows = exg_shard(0), whole = exg_replicate();
    exg_dtensor *t = NULL, *same = NULL, *again = NULL;
    exg_error err;

    EXPECT(c, exg_dtensor_from_local(c->mesh, &part, &rows, 1, NULL, &t, &err) == EXG_OK, "%s",
           err.message);
    memset(here, 0, sizeof(here)); /* the caller's once more */
    EXPECT(c, t != NULL && address_of(t) != here && is_there(c, address_of(t)), "not brought");
    there = *exg_dtensor_to_local(t);
    EXPECT(c, exg_dtensor_copy_to_host(t, NULL, back, &err) == EXG_OK && back[5] == 5, "%s",
           err.message);
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &there, &whole, 1, NULL, &same, &err) == EXG_OK &&
               address_of(same) == there.data,
           "copied what is there");
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &there, &rows, 1, 0, &again, &err) == EXG_OK &&
               exg_dtensor_copy_to_host(again, NULL, back, &err) == EXG_OK &&
               back[1] == (exg_device_mesh_rank(c->mesh) == 0 ? 1 : 4),
           "from the device");
    exg_dtensor_destroy(again);
    exg_dtensor_destroy(same);
    exg_dtensor_destroy(t);
}

/* Everything that makes DTensors, and what is made of them. */
static void bring_all(rank_context *c)
{
    float here[COUNT], back[COUNT];
    exg_tensor given = numbers(here, COUNT), part;
    int64_t size = COUNT;
    exg_placement rows = exg_shard(0);
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 1,
                             .sizes = &size,
                             .placements = &rows,
                             .placement_count = 1};
    exg_rng rng = {.seed = 1};
    exg_object result;
    exg_dtensor *t[8] = {NULL};
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_distribute_tensor(c->mesh, &given, &rows, 1, 0, &t[0], &e.err) == EXG_OK &&
               exg_dtensor_full(c->mesh, &like, exg_scalar_int(2), &t[1], &e.err) == EXG_OK &&
               exg_dtensor_randn(c->mesh, &like, &rng, &t[2], &e.err) == EXG_OK &&
               exg_dtensor_full_tensor(t[0], &t[3], &e.err) == EXG_OK &&
               exg_to_local(e.d, t[0], NULL, &t[4], &e.err) == EXG_OK,
           "%s", e.err.message);
    if (c->faults > 0) {
        return;
    }
    part = given;
    part.rank = 0;
    t[5] = CALL(&e, "aten.add.Tensor", T(t[0]), exg_object_tensor(&part)); /* the host's */
    part = *exg_dtensor_to_local(t[1]);
    part.rank = 0;
    t[6] = CALL(&e, "aten.mul.Tensor", T(t[0]), exg_object_tensor(&part)); /* the device's */
    t[7] = CALL(&e, "aten.sum.default", T(t[5]));
    for (int i = 0; i < 8; i++) {
        EXPECT(c, t[i] != NULL && is_there(c, address_of(t[i])), "the %d. is on the host", i);
    }
    EXPECT(c, address_of(t[4]) == address_of(t[0]), "its part");
    expect_values(&e, t[6], "S(0)", (const double[]){0, 2, 4, 6, 8, 10}, COUNT, "products");
    result = call(&e, "aten.item.default", (exg_object[]){T(t[7])}, 1);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && result.value.as_float == 15, "the sum");
    EXPECT(c,
           exg_dtensor_copy_from_host(t[1], NULL, here, &e.err) == EXG_OK &&
               exg_dtensor_copy_to_host(t[1], NULL, back, &e.err) == EXG_OK &&
               memcmp(here, back, 3 * sizeof(float)) == 0,
           "there and back");
    for (int i = 0; i < 8; i++) {
        exg_dtensor_destroy(t[i]);
    }
    eager_end(&e);
}

/* S003-14, S003-88 */
static void local_parts_are_brought_unless_they_are_there(void **state)
{
    (void)state;
    on_mesh("2", bring, NULL);
}

/* S003-88 */
static void what_is_made_lies_on_the_device(void **state)
{
    (void)state;
    on_mesh("2", bring_all, NULL);
}

static void part_of_a_mesh(rank_context *c)
{
    float here[COUNT];
    exg_tensor given = numbers(here, COUNT), there;
    exg_mesh_shape pair = {.ndim = 1, .sizes = {2}}, other = pair;
    exg_placement whole = exg_replicate();
    bool inside = exg_device_mesh_rank(c->mesh) < 2;
    exg_device_mesh *two = NULL, *none = NULL;
    exg_dtensor *t = NULL, *same = NULL;
    exg_error err;

    other.device_type = "cpu";
    EXPECT(c,
           exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &other, &none, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-021") == 0 &&
               strstr(err.message, "a part of type 'cpu' of a mesh") != NULL,
           "%s", err.message);
    EXPECT(c,
           exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, &err) == EXG_OK &&
               strcmp(exg_device_mesh_device_type(two), exg_device_mesh_device_type(c->mesh)) == 0,
           "%s", err.message);
    EXPECT(c, two->device == (inside ? c->mesh->device : NULL), "another device");
    EXPECT(c, exg_distribute_tensor(c->mesh, &given, &whole, 1, 0, &t, &err) == EXG_OK, "%s",
           err.message);
    there = *exg_dtensor_to_local(t);
    EXPECT(c,
           exg_dtensor_from_local(two, &there, &whole, 1, NULL, &same, &err) == EXG_OK &&
               address_of(same) == there.data,
           "copied to the same device");
    exg_dtensor_destroy(same);
    exg_dtensor_destroy(t);
    exg_device_mesh_destroy(two);
}

static void parts_of_a_mesh_share_its_device(void **state)
{
    (void)state;
    on_mesh("3", part_of_a_mesh, NULL);
}

static void other_devices(rank_context *c)
{
    exg_mesh_shape alone = {
        .ndim = 1, .sizes = {1}, .device_type = exg_device_mesh_device_type(c->mesh)};
    exg_placement whole = exg_replicate();
    int64_t size = COUNT;
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = &size};
    exg_device_mesh *other = NULL, *self;
    exg_dtensor *t = NULL, *local = NULL, *made = NULL;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_local_mesh_create(&alone, &other, &e.err) == EXG_OK &&
               !exg_device_mesh_equal(other, c->mesh) &&
               exg_dtensor_ones(other, &like, &t, &e.err) == EXG_OK &&
               exg_dispatcher_self(e.d, &self, &e.err) == EXG_OK &&
               exg_dtensor_ones(self, &like, &local, &e.err) == EXG_OK,
           "%s", e.err.message);
    if (c->faults == 0) {
        EXPECT(c,
               exg_to_local(e.d, t, NULL, &made, &e.err) == EXG_USAGE && made == NULL &&
                   strcmp(e.err.code, "DTN-021") == 0,
               "to_local from another device");
        EXPECT(c,
               exg_from_local(e.d, local, other, &whole, 1, NULL, NULL, &made, &e.err) ==
                       EXG_USAGE &&
                   strcmp(e.err.code, "DTN-021") == 0,
               "from_local");
        EXPECT(c,
               exg_distribute(e.d, local, other, &whole, 1, 0, &made, &e.err) == EXG_USAGE &&
                   strcmp(e.err.code, "DTN-021") == 0,
               "distribute");
    }
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(t);
    exg_device_mesh_destroy(other);
    eager_end(&e);
}

static void no_address_is_taken_for_another_devices(void **state)
{
    (void)state;
    on_mesh("1", other_devices, NULL);
}

/* What a device lacks is its own fault, and nothing is left. */
static void meshes_are_of_kinds_that_there_are(void **state)
{
    exg_mesh_shape shape = {.ndim = 1, .sizes = {2}, .device_type = "xla"};
    exg_device_mesh *meshes[2];
    uint32_t count;
    exg_error err;
    exg_status cuda = exg_device_count("cuda", &count, &err);

    (void)state;
    assert_int_equal(exg_local_mesh_create(&shape, meshes, &err), EXG_USAGE);
    assert_string_equal(err.code, "DEV-001");
    shape.device_type = "cuda";
    assert_int_equal(exg_local_mesh_create(&shape, meshes, &err), cuda);
    assert_true(cuda == EXG_OK || strncmp(err.code, "DEV-", 4) == 0);
    for (int r = 0; r < 2 && cuda == EXG_OK; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
}

/* ---- who waits, who closes ------------------------------------------------------------------- */

static exg_device_table watched; /* of one rank's device at a time */
static int waits, given, left;   /* allocations not given back; until one is refused */
static bool for_good;            /* all that follow are, too */

static exg_status count_wait(exg_accelerator *device, exg_error *err)
{
    waits++;
    return exg_device_strict.wait(device, err);
}

static exg_status count_memory(exg_accelerator *device, uint64_t bytes, void **address,
                               exg_error *err)
{
    *address = NULL;
    if (left == 0) {
        left -= !for_good;
        return EXG_FAIL(err, NO_MEMORY, "MEM-004", "%llu bytes", (unsigned long long)bytes);
    }
    left--;
    given++;
    return exg_device_strict.allocate(device, bytes, address, err);
}

static void count_release(exg_accelerator *device, void *address)
{
    given -= address != NULL;
    exg_device_strict.release(device, address);
}

static int closed;

static void count_close(exg_accelerator *device)
{
    closed++;
    exg_device_strict.close(device);
}

static exg_device_mesh *watched_mesh(void)
{
    exg_mesh_shape shape = {.ndim = 1, .sizes = {1}, .device_type = "strict"};
    exg_device_mesh *mesh;

    assert_int_equal(exg_local_mesh_create(&shape, &mesh, NULL), EXG_OK);
    watched = exg_device_strict;
    watched.wait = count_wait;
    watched.allocate = count_memory;
    watched.release = count_release;
    watched.close = count_close;
    mesh->device->table = &watched;
    left = -1;
    return mesh;
}

static void only_values_are_waited_for(void **state)
{
    rank_context c = {.mesh = watched_mesh()};
    int64_t turned[2] = {1, 0}, eight = 8;
    exg_dtensor *x, *y, *rows;
    exg_scalar number;
    eager e;

    (void)state;
    eager_begin(&e, &c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "R");
    for (int k = 0; k < 2; k++) { /* the first time decides */
        waits = 0;
        exg_dtensor_destroy(CALL(&e, "aten.add.Tensor", T(x), T(x)));
        y = CALL(&e, "aten.permute.default", T(x), of_ints(turned, 2));
        rows = CALL(&e, "aten.view.default", T(y), of_ints(&eight, 1)); /* row-major */
        exg_dtensor_destroy(y);
        assert_true(k == 0 || waits == 0);
        expect_values(&e, rows, "R", (const double[]){0, 2, 4, 6, 1, 3, 5, 7}, 8, "a view");
        exg_dtensor_destroy(rows);
    }
    waits = 0;
    for (int k = 0; k < 10; k++) { /* the same plan, again before it is done */
        y = CALL(&e, "aten.add.Tensor", T(x), T(x));
        exg_dtensor_destroy(x);
        x = y;
    }
    assert_int_equal(waits, 0);
    y = CALL(&e, "aten.sum.default", T(x));
    assert_int_equal(exg_dtensor_item(y, &number, &e.err), EXG_OK);
    assert_true(number.as_float == 28 * 1024 && waits > 0);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
    exg_device_mesh_destroy(c.mesh);
    assert_int_equal(c.faults, 0);
}

/* Faults of the data are told by the call that finds them, and the next is well. */
static void choose_rows(rank_context *c)
{
    exg_dtensor *x, *index, *rows;
    exg_object args[3];
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "R");
    index = counted(&e, EXG_DTYPE_I64, "2", "R");
    args[0] = T(x);
    args[1] = of_int(0);
    args[2] = T(index);
    for (int k = 0; k < 3; k++) {
        int64_t chosen[2] = {3, k == 1 ? 4 : 0};

        EXPECT(c, exg_dtensor_copy_from_host(index, NULL, chosen, &e.err) == EXG_OK, "%s",
               e.err.message);
        if (k == 1) {
            EXPECT(c,
                   refusal(&e, "aten.index_select.default", args, 3) == EXG_MALFORMED &&
                       strcmp(e.err.code, "RUN-001") == 0 &&
                       strstr(e.err.message, "index 4") != NULL,
                   "%s", e.err.message);
            continue;
        }
        rows = call1(&e, "aten.index_select.default", args, 3);
        expect_values(&e, rows, "R", (const double[]){6, 7, 0, 1}, 4, "rows");
        exg_dtensor_destroy(rows);
    }
    exg_dtensor_destroy(index);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void a_call_tells_its_own_faults(void **state)
{
    (void)state;
    on_mesh("2", choose_rows, NULL);
}

/* One that a rank finds in its part ends the wait of the others, long before their deadline. */
static void choose_rows_of_parts(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    double chosen = rank == 1 ? 4 : 3;
    exg_dtensor *x, *index, *whole;
    exg_dtensor *rows = NULL;
    exg_object args[3];
    eager e;

    eager_begin(&e, c, NULL);
    exg_device_mesh_set_deadline(c->mesh, UINT64_C(5000000000));
    x = counted(&e, EXG_DTYPE_F32, "4x2", "R");
    index = parts(&e, EXG_DTYPE_I64, "2", "S(0)", &chosen);
    args[0] = T(x);
    args[1] = of_int(0);
    args[2] = T(index);
    if (rank == 1) {
        EXPECT(c,
               refusal(&e, "aten.index_select.default", args, 3) == EXG_MALFORMED &&
                   strcmp(e.err.code, "RUN-001") == 0,
               "%s", e.err.message);
    } else {
        rows = call1(&e, "aten.index_select.default", args, 3);
        EXPECT(c,
               exg_dtensor_full_tensor(rows, &whole, &e.err) == EXG_PEER &&
                   strcmp(e.err.code, "COM-003") == 0,
               "%s %s", e.err.code, e.err.message);
    }
    exg_dtensor_destroy(rows);
    exg_dtensor_destroy(index);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void a_fault_of_a_part_is_told_to_all(void **state)
{
    (void)state;
    on_mesh("2", choose_rows_of_parts, NULL);
}

/* What has the device's memory keeps it open. */
static void the_last_closes_the_device(void **state)
{
    exg_device_mesh *mesh = watched_mesh(), *part;
    int64_t size = COUNT;
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = &size};
    exg_dtensor *t;

    (void)state;
    closed = 0;
    assert_int_equal(exg_device_mesh_self(mesh, &part, NULL), EXG_OK);
    assert_int_equal(exg_dtensor_ones(part, &like, &t, NULL), EXG_OK);
    exg_device_mesh_destroy(mesh);
    exg_device_mesh_destroy(part);
    assert_int_equal(closed, 0);
    exg_dtensor_destroy(t);
    assert_int_equal(closed, 1);
    assert_int_equal(given, 0);
}

static exg_status no_memory(exg_accelerator *device, uint64_t bytes, void **address, exg_error *err)
{
    (void)device;
    *address = NULL;
    return EXG_FAIL(err, NO_MEMORY, "MEM-004", "%llu bytes", (unsigned long long)bytes);
}

/* A rank without memory ends the call of the others where they wait for a source, and only its own
 * where each takes what it has. */
static void distribute_poorly(rank_context *c)
{
    static const struct {
        uint32_t source;
        bool is_poor; /* rank 1, which has too little left of what others were made in */
        exg_status status[2];
        int64_t length;
    } rows[] = {
        {EXG_NO_RANK, true, {EXG_OK, EXG_NO_MEMORY}, COUNT},
        {1, false, {EXG_OK, EXG_OK}, COUNT},
        {1, true, {EXG_PEER, EXG_NO_MEMORY}, 1 << 20},
    };
    const exg_device_table *rich = c->mesh->device->table;
    exg_device_table poor = *rich;
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_placement placement = exg_shard(0);
    float *here = malloc(sizeof(*here) << 20), *part = malloc(sizeof(*part) << 20);
    exg_error err;

    EXPECT(c, here != NULL && part != NULL, "no memory");
    poor.allocate = no_memory;
    exg_device_mesh_set_deadline(c->mesh, UINT64_C(5000000000));
    for (size_t i = 0; c->faults == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_tensor whole = numbers(here, rows[i].length);
        exg_dtensor *t = NULL;
        exg_status status;

        c->mesh->device->table = rows[i].is_poor && rank == 1 ? &poor : rich;
        status = exg_distribute_tensor(c->mesh, &whole, &placement, 1, rows[i].source, &t, &err);
        EXPECT(c, (t != NULL) == (status == EXG_OK), "%zu: %s", i, exg_status_name(status));
        status = t == NULL ? status : exg_dtensor_copy_to_host(t, NULL, part, &err);
        EXPECT(c,
               status == rows[i].status[rank] &&
                   (status != EXG_PEER || strcmp(err.code, "COM-003") == 0), /* at once */
               "%zu: %s %s", i, exg_status_name(status), status == EXG_OK ? "" : err.message);
        exg_dtensor_destroy(t);
    }
    c->mesh->device->table = rich;
    free(here);
    free(part);
}

static void a_rank_without_memory_ends_a_call_that_waits_for_it(void **state)
{
    (void)state;
    on_mesh("2", distribute_poorly, NULL);
}

/* The gradient of a leaf, which is there where the call says so; it has no memory yet. */
static exg_status learn(exg_dispatcher *d, exg_device_mesh *mesh, exg_error *err)
{
    int64_t size = 1 << 16;
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 1,
                             .sizes = &size,
                             .requires_grad = true};
    exg_dtensor *leaf = NULL;
    exg_object sum = exg_object_none();
    exg_status status = exg_dtensor_ones(mesh, &like, &leaf, err);

    if (status == EXG_OK) {
        status =
            exg_dispatch(d, "aten.sum.default", (exg_object[]){T(leaf)}, 1, NULL, 0, &sum, err);
    }
    status = status == EXG_OK ? exg_backward(d, &sum.dtensor, NULL, 1, NULL, err) : status;
    assert_true(leaf == NULL || (exg_dtensor_grad(leaf) != NULL) == (status == EXG_OK));
    exg_object_clear(&sum, true);
    exg_dtensor_destroy(leaf);
    return status;
}

/* A few calls, of which one allocation is refused, or all from one on. */
static exg_status work(exg_device_mesh *mesh, exg_error *err)
{
    exg_dispatch_options options = {.size = sizeof(options), .mesh = mesh};
    float here[COUNT];
    exg_tensor part = numbers(here, COUNT), number = part;
    exg_dtensor *x = NULL, *y = NULL, *whole = NULL;
    exg_object sum = exg_object_none(), result = exg_object_none();
    exg_dispatcher *d;
    exg_status status;

    number.rank = 0;
    assert_int_equal(exg_dispatcher_create(all_operators(), &options, &d, err), EXG_OK);
    status = exg_dtensor_from_local(mesh, &part, NULL, 0, NULL, &x, err);
    status = status == EXG_OK ? exg_distribute_tensor(mesh, &part, NULL, 0, 0, &y, err) : status;
    if (status == EXG_OK) {
        exg_object args[] = {T(x), T(y)}, plain[] = {T(x), exg_object_tensor(&number)};

        status = exg_dispatch(d, "aten.add.Tensor", args, 2, NULL, 0, &sum, err);
        status = status == EXG_OK
                     ? exg_dispatch(d, "aten.mul_.Tensor", plain, 2, NULL, 0, &result, err)
                     : status;
    }
    status = status == EXG_OK ? exg_dtensor_full_tensor(x, &whole, err) : status;
    status = status == EXG_OK ? learn(d, mesh, err) : status;
    exg_dtensor_destroy(whole);
    exg_object_clear(&sum, true);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    exg_dispatcher_destroy(d);
    return status;
}

static void a_device_that_has_not_enough_is_left_as_it_was(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) { /* what is refused once may be there without what is kept */
        exg_status status = EXG_NO_MEMORY;
        int refused = 0;
        exg_error err;

        for_good = k == 1;
        for (; status != EXG_OK; refused++) {
            exg_device_mesh *mesh = watched_mesh();

            given = 0;
            left = refused;
            status = work(mesh, &err);
            assert_true(status == EXG_OK ||
                        (status == EXG_NO_MEMORY && strcmp(err.code, "MEM-004") == 0));
            exg_device_mesh_destroy(mesh);
            assert_int_equal(given, 0);
        }
        assert_true(refused > (for_good ? 10 : 5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_parts_are_brought_unless_they_are_there),
        cmocka_unit_test(what_is_made_lies_on_the_device),
        cmocka_unit_test(parts_of_a_mesh_share_its_device),
        cmocka_unit_test(no_address_is_taken_for_another_devices),
        cmocka_unit_test(meshes_are_of_kinds_that_there_are),
        cmocka_unit_test(only_values_are_waited_for),
        cmocka_unit_test(a_call_tells_its_own_faults),
        cmocka_unit_test(a_fault_of_a_part_is_told_to_all),
        cmocka_unit_test(a_rank_without_memory_ends_a_call_that_waits_for_it),
        cmocka_unit_test(the_last_closes_the_device),
        cmocka_unit_test(a_device_that_has_not_enough_is_left_as_it_was),
    };
    int status;

    (void)setenv("EXG_TEST_DEVICE", "strict", 0);
    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
