/* region.c - what a rank holds of a whole: the pieces that its shards leave. */
#include "libexec/dtensor/region.h"

#include <exg/dtensor.h>
#include <stdlib.h>
#include <string.h>

/* ---- one dim ---------------------------------------------------------------------------- */

/* How a strided shard cuts a dim: `groups` of `length` elements, and what is left over. The
 * rank takes `size` from `start` on of each, `last_size` from `last_start` on of the rest. */
typedef struct stride {
    int64_t groups, length;
    int64_t start, size, last_start, last_size;
} stride;

static stride stride_of(exg_placement p, int64_t length, uint32_t n, uint32_t place)
{
    int64_t factor = p.kind == EXG_STRIDED_SHARD && n > 1 ? p.split_factor : 1;
    stride s = {.length = length / factor + (length % factor != 0)};

    s.groups = s.length == 0 ? 0 : length / s.length;
    exg_chunk(s.length, n, place, &s.start, &s.size);
    exg_chunk(length - s.groups * s.length, n, place, &s.last_start, &s.last_size);
    return s;
}

int64_t exg_shard_size(exg_placement p, int64_t length, uint32_t n, uint32_t place)
{
    stride s = stride_of(p, length, n, place);

    return s.groups * s.size + s.last_size;
}

/* Element `at` of the shard in what was cut; *run at most as many as follow it there. */
static int64_t place_in(const stride *s, int64_t at, int64_t *run)
{
    int64_t in_groups = s->groups * s->size;
    int64_t group = at < in_groups ? at / s->size : s->groups;
    int64_t within = at < in_groups ? at % s->size : at - in_groups;
    int64_t left = (at < in_groups ? s->size : s->last_size) - within;

    *run = left < *run ? left : *run;
    return group * s->length + (at < in_groups ? s->start : s->last_start) + within;
}

int64_t exg_local_place(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                        int64_t length, uint32_t dim, int64_t at, int64_t *run)
{
    stride cuts[EXG_MESH_DIMS_MAX];
    uint32_t count = 0;

    for (uint32_t m = 0; m < mesh->ndim; m++) {
        if (exg_placement_is_shard(placements[m]) && (uint32_t)placements[m].dim == dim) {
            stride s = stride_of(placements[m], length, mesh->sizes[m],
                                 exg_mesh_coordinate(mesh, rank, m));

            cuts[count++] = s;
            length = s.groups * s.size + s.last_size;
        }
    }
    *run = length - at;
    while (count > 0) {
        at = place_in(&cuts[--count], at, run);
    }
    return at;
}

/* ---- all dims --------------------------------------------------------------------------- */

void exg_local_chunk(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                     const int64_t *sizes, uint32_t dims, int64_t *offsets, int64_t *local_sizes)
{
    int64_t run;

    memcpy(local_sizes, sizes, dims * sizeof(*sizes));
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        uint32_t d = exg_placement_is_shard(placements[m]) ? (uint32_t)placements[m].dim : dims;

        if (d < dims) {
            local_sizes[d] = exg_shard_size(placements[m], local_sizes[d], mesh->sizes[m],
                                            exg_mesh_coordinate(mesh, rank, m));
        }
    }
    for (uint32_t d = 0; d < dims; d++) {
        offsets[d] = local_sizes[d] == 0
                         ? sizes[d]
                         : exg_local_place(mesh, rank, placements, sizes[d], d, 0, &run);
    }
}

/* What the pieces are laid out by. */
typedef struct layout {
    const exg_device_mesh *mesh;
    const exg_placement *placements;
    const int64_t *sizes;
    uint32_t rank; /* of the tensor */
    uint32_t holder;
} layout;

static uint32_t runs_of(const layout *l, uint32_t dim, int64_t local)
{
    uint32_t count = 0;
    int64_t run;

    for (int64_t at = 0; at < local; at += run, count++) {
        (void)exg_local_place(l->mesh, l->holder, l->placements, l->sizes[dim], dim, at, &run);
    }
    return count;
}

static size_t pieces_of(const layout *l, exg_region *region)
{
    int64_t offsets[EXG_RANK_MAX];
    size_t count = 1;

    exg_local_chunk(l->mesh, l->holder, l->placements, l->sizes, l->rank, offsets, region->sizes);
    for (uint32_t d = 0; d < l->rank && count > 0; d++) {
        count *= runs_of(l, d, region->sizes[d]);
    }
    return count;
}

/* The pieces in the order of the local part. */
static void fill(const layout *l, exg_region *region)
{
    int64_t at[EXG_RANK_MAX] = {0};

    for (uint32_t i = 0; i < region->count; i++) {
        exg_piece *piece = &region->pieces[i];
        uint32_t d;

        for (d = 0; d < l->rank; d++) {
            piece->box.offset[d] = exg_local_place(l->mesh, l->holder, l->placements, l->sizes[d],
                                                   d, at[d], &piece->box.size[d]);
            piece->origin[d] = piece->box.offset[d] - at[d];
        }
        for (d = l->rank; d-- > 0;) {
            at[d] += piece->box.size[d];
            if (at[d] < region->sizes[d]) {
                break;
            }
            at[d] = 0;
        }
    }
}

exg_region *exg_regions_create(const exg_device_mesh *mesh, const exg_placement *placements,
                               const int64_t *sizes, uint32_t rank)
{
    static const exg_placement whole[EXG_MESH_DIMS_MAX]; /* Replicate, all of them */
    layout l = {mesh, placements == NULL ? whole : placements, sizes, rank, 0};
    size_t head = mesh->size * sizeof(exg_region);
    exg_region *regions = calloc(mesh->size, sizeof(*regions));
    exg_region *all;
    exg_piece *piece;
    size_t count = 0;

    for (uint32_t r = 0; regions != NULL && r < mesh->size; r++) {
        size_t own;

        l.holder = r;
        own = pieces_of(&l, &regions[r]);
        regions[r].count = (uint32_t)own;
        count =
            own > UINT32_MAX || count > SIZE_MAX / 4 / sizeof(*piece) ? SIZE_MAX / 2 : count + own;
    }
    all = count > SIZE_MAX / 4 / sizeof(*piece) ? NULL
                                                : realloc(regions, head + count * sizeof(*piece));
    if (regions == NULL || all == NULL) {
        free(regions);
        return NULL;
    }
    piece = (exg_piece *)(void *)(all + mesh->size);
    for (uint32_t r = 0; r < mesh->size; r++) {
        l.holder = r;
        all[r].pieces = piece;
        piece += all[r].count;
        fill(&l, &all[r]);
    }
    return all;
}

void exg_region_cut(exg_region *region, uint32_t rank, const exg_box *box)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < region->count; i++) {
        exg_piece piece = region->pieces[i];
        exg_box of_whole = *box;

        for (uint32_t d = 0; d < rank; d++) {
            of_whole.offset[d] += piece.origin[d];
        }
        if (exg_box_meet(&piece.box, &of_whole, rank, &region->pieces[kept].box)) {
            memcpy(region->pieces[kept++].origin, of_whole.offset, sizeof(of_whole.offset));
        }
    }
    region->count = kept;
    memcpy(region->sizes, box->size, sizeof(region->sizes));
}
