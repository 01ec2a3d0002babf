/* pairs.c - every pair of placement lists on a mesh: each rank's part and the whole are
 * what they are without a mesh.
 */
#include "tests/exec/dtensor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float value_at(int64_t index)
{
    return (float)(3 * index + 1);
}

/* This rank's summand of a value: their sum, mean, largest, smallest is the value, no two of
 * them are the same, so a missing or doubled one shows. */
static float summand(float value, const exg_device_mesh *mesh, const exg_placement *placements)
{
    uint32_t place = 0;
    uint32_t n = 1;
    exg_reduce_op op = EXG_REDUCE_OP_COUNT;

    for (uint32_t m = 0; m < exg_device_mesh_ndim(mesh); m++) {
        if (placements[m].kind == EXG_PARTIAL) {
            op = placements[m].op;
            place = place * exg_device_mesh_dim_size(mesh, m) + exg_device_mesh_coordinate(mesh, m);
            n *= exg_device_mesh_dim_size(mesh, m);
        }
    }
    switch (op) {
    case EXG_REDUCE_SUM:
        return place == 0 ? value - (float)(n * (n - 1)) / 2 * 8 : (float)place * 8;
    case EXG_REDUCE_AVG:
        return value + (float)(2 * (int)place - (int)n + 1);
    case EXG_REDUCE_MAX:
        return place == n / 2 ? value : value - 1 - (float)place;
    case EXG_REDUCE_MIN:
        return place == n / 2 ? value : value + 1 + (float)place;
    case EXG_REDUCE_PRODUCT:
        return place == 0 ? value / (float)(1u << (n - 1)) : 2;
    default:
        return value;
    }
}

/* torch.chunk's r-th of n chunks of a list, at `to`. */
static int64_t chunk_list(const int64_t *list, int64_t length, int64_t n, int64_t r, int64_t *to)
{
    int64_t full = (length + n - 1) / n;
    int64_t count = 0;

    for (int64_t i = r * full; i < length && i < (r + 1) * full; i++) {
        to[count++] = list[i];
    }
    return count;
}

int64_t places_of(const exg_device_mesh *mesh, const exg_placement *placements, int64_t length,
                  uint32_t dim, int64_t *places)
{
    int64_t cut[NUMEL_MAX], group[NUMEL_MAX];

    for (int64_t i = 0; i < length; i++) {
        places[i] = i;
    }
    for (uint32_t m = 0; m < exg_device_mesh_ndim(mesh); m++) {
        exg_placement p = placements[m];
        int64_t factor = p.kind == EXG_STRIDED_SHARD ? p.split_factor : 1;
        int64_t count = 0;

        if (!exg_placement_is_shard(p) || (uint32_t)p.dim != dim) {
            continue;
        }
        for (int64_t g = 0; g < factor; g++) {
            int64_t items = chunk_list(places, length, factor, g, group);

            count += chunk_list(group, items, exg_device_mesh_dim_size(mesh, m),
                                exg_device_mesh_coordinate(mesh, m), cut + count);
        }
        length = count;
        memcpy(places, cut, (size_t)length * sizeof(*places));
    }
    return length;
}

void fill_part(const exg_device_mesh *mesh, const exg_placement *placements, const int64_t *sizes,
               uint32_t rank, exg_tensor *local, float *data)
{
    int64_t places[3][NUMEL_MAX];
    int64_t index[EXG_RANK_MAX] = {0};

    *local = (exg_tensor){.data = data, .dtype = EXG_DTYPE_F32, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        local->sizes[d] = places_of(mesh, placements, sizes[d], d, places[d]);
    }
    exg_tensor_set_contiguous(local);
    for (int64_t i = 0; i < exg_tensor_numel(local); i++) {
        int64_t place = 0;

        for (uint32_t d = 0; d < rank; d++) {
            place = place * sizes[d] + places[d][index[d]];
        }
        data[i] = summand(value_at(place), mesh, placements);
        for (uint32_t d = rank; d-- > 0 && ++index[d] == local->sizes[d];) {
            index[d] = 0;
        }
    }
}

/* ---- all pairs ----------------------------------------------------------------------------- */

/* The n-th list of placements: R, P, the shards, and the strided ones. */
static bool list_at(uint32_t n, uint32_t ndim, const pairs *p, exg_placement *list)
{
    uint32_t kinds = 2 + p->rank * (p->split_factor > 0 ? 2 : 1);

    for (uint32_t m = 0; m < ndim; m++) {
        uint32_t kind = n % kinds;

        n /= kinds;
        list[m] = kind == 0   ? exg_replicate()
                  : kind == 1 ? exg_partial(p->op)
                  : kind < 2 + p->rank
                      ? exg_shard((int32_t)kind - 2)
                      : exg_strided_shard((int32_t)(kind - 2 - p->rank), p->split_factor);
    }
    return n == 0;
}

static bool may_become(uint32_t ndim, const exg_placement *from, const exg_placement *to)
{
    for (uint32_t m = 0; m < ndim; m++) {
        if (to[m].kind == EXG_PARTIAL && !exg_placement_equal(from[m], to[m])) {
            return false;
        }
    }
    return true;
}

static char *text_of(uint32_t ndim, const exg_placement *from, const exg_placement *to, char *text)
{
    size_t used = 0;

    for (uint32_t m = 0; m < 2 * ndim; m++) {
        char one[EXG_PLACEMENT_TEXT];

        exg_placement_print(m < ndim ? from[m] : to[m - ndim], one);
        used += (size_t)snprintf(text + used, 100 - used, "%s%s", m == ndim ? " => " : " ", one);
    }
    return text;
}

static void check_pair(rank_context *c, const pairs *p, const exg_placement *from,
                       const exg_placement *to)
{
    float data[NUMEL_MAX];
    float expected[NUMEL_MAX];
    float before[NUMEL_MAX];
    size_t bytes;
    uint32_t ndim = exg_device_mesh_ndim(c->mesh);
    exg_placement all[EXG_MESH_DIMS_MAX] = {{0}};
    int64_t strides[EXG_RANK_MAX];
    exg_from_local_options options = {.size = sizeof(options), .shape = p->sizes};
    exg_dtensor *source = NULL;
    exg_dtensor *moved = NULL;
    exg_dtensor *whole = NULL;
    exg_tensor local;
    exg_error err = {0};
    char text[100];

    fill_part(c->mesh, all, p->sizes, p->rank, &local, expected); /* for its strides */
    memcpy(strides, local.strides, sizeof(strides));
    options.strides = strides;
    fill_part(c->mesh, from, p->sizes, p->rank, &local, data);
    bytes = (size_t)exg_tensor_numel(&local) * sizeof(float);
    memcpy(before, data, bytes);
    if (exg_dtensor_from_local(c->mesh, &local, from, ndim, &options, &source, &err) != EXG_OK ||
        exg_dtensor_redistribute(source, to, ndim, &moved, &err) != EXG_OK ||
        exg_dtensor_full_tensor(moved, &whole, &err) != EXG_OK) {
        EXPECT(c, false, "%s: %s", text_of(ndim, from, to, text), err.message);
    } else {
        bool partial = false;

        for (uint32_t m = 0; m < ndim; m++) {
            partial = partial || to[m].kind == EXG_PARTIAL;
        }
        fill_part(c->mesh, to, p->sizes, p->rank, &local, expected);
        EXPECT(c,
               partial || memcmp(on_host(moved)->data, expected,
                                 (size_t)exg_tensor_numel(&local) * sizeof(float)) == 0,
               "%s: another part", text_of(ndim, from, to, text));
        fill_part(c->mesh, all, p->sizes, p->rank, &local, expected);
        EXPECT(c,
               memcmp(on_host(whole)->data, expected,
                      (size_t)exg_tensor_numel(&local) * sizeof(float)) == 0,
               "%s: another whole", text_of(ndim, from, to, text));
        EXPECT(c, memcmp(before, data, bytes) == 0, "%s: the source is changed",
               text_of(ndim, from, to, text));
    }
    exg_dtensor_destroy(whole);
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(source);
}

void check_pairs(rank_context *c)
{
    const pairs *p = c->user;
    uint32_t ndim = exg_device_mesh_ndim(c->mesh);
    exg_placement from[EXG_MESH_DIMS_MAX];
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t every = one_in();
    uint32_t pair = 0;

    for (uint32_t f = 0; list_at(f, ndim, p, from); f++) {
        for (uint32_t t = 0; list_at(t, ndim, p, to); t++) {
            if (may_become(ndim, from, to) && pair++ % every == 0) {
                check_pair(c, p, from, to);
            }
        }
    }
}
