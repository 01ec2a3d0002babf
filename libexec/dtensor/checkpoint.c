/* checkpoint.c - what of a whole a rank's part is, for saving it and for loading it. */
#include "libexec/dtensor/box.h"
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/require.h"

#include <stdlib.h>
#include <string.h>

exg_status exg_dtensor_check_chunks(const exg_dtensor *t, exg_error *err)
{
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        if (t->placements[m].kind == EXG_PARTIAL) {
            return EXG_FAIL(err, USAGE, "DTN-014", "a Partial has no chunks: redistribute it");
        }
    }
    return EXG_OK;
}

exg_status exg_dtensor_chunk(const exg_dtensor *t, int64_t *offsets, int64_t *sizes, exg_error *err)
{
    EXG_REQUIRE(err, t, offsets, sizes);
    EXG_TRY(exg_dtensor_check_chunks(t, err));
    if (t->mesh->communicator == NULL) {
        memset(offsets, 0, t->rank * sizeof(*offsets));
        memset(sizes, 0, t->rank * sizeof(*sizes));
    } else {
        exg_local_chunk(t->mesh, exg_device_mesh_rank(t->mesh), t->placements, t->sizes, t->rank,
                        offsets, sizes);
    }
    return EXG_OK;
}

/* This rank's region, after the block of all of them. */
static exg_status own_region(const exg_dtensor *t, exg_region **all, const exg_region **own,
                             exg_error *err)
{
    *all = exg_regions_create(t->mesh, t->placements, t->sizes, t->rank);
    *own = *all == NULL ? NULL : &(*all)[exg_device_mesh_rank(t->mesh)];
    return *all == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_dtensor_shard_at(const exg_dtensor *t, const int64_t *offsets, exg_tensor *local,
                                exg_error *err)
{
    EXG_REQUIRE(err, t, offsets, local);
    size_t bytes = t->rank * sizeof(*offsets);
    int64_t own[EXG_RANK_MAX], sizes[EXG_RANK_MAX];
    const exg_piece *piece = NULL;
    const exg_region *region;
    exg_region *all;

    *local = t->local;
    EXG_TRY(exg_dtensor_wait(t, err));
    EXG_TRY(exg_dtensor_chunk(t, own, sizes, err));
    EXG_TRY(own_region(t, &all, &region, err));
    for (uint32_t i = 0; t->mesh->communicator != NULL && i < region->count; i++) {
        bool here = memcmp(region->pieces[i].box.offset, offsets, bytes) == 0;

        piece = here ? &region->pieces[i] : piece;
    }
    for (uint32_t d = 0; piece != NULL && d < t->rank; d++) {
        int64_t skipped = (piece->box.offset[d] - piece->origin[d]) * local->strides[d];

        local->sizes[d] = piece->box.size[d];
        local->data =
            t->meta ? NULL
                    : (uint8_t *)local->data + skipped * (int64_t)exg_dtype_bytes(local->dtype);
    }
    free(all);
    return piece != NULL || memcmp(own, offsets, bytes) == 0
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "DTN-014", "this rank's part does not begin there");
}

/* Does `view` stay in the memory of `part`? */
static bool is_view_of(const exg_tensor *part, const exg_tensor *view)
{
    int64_t bytes = exg_dtype_bytes(part->dtype);
    intptr_t skipped = (intptr_t)view->data - (intptr_t)part->data;
    int64_t room = 0;

    if (view->rank != part->rank || view->dtype != part->dtype || skipped < 0 ||
        skipped % bytes != 0) {
        return false;
    }
    for (uint32_t d = 0; d < part->rank; d++) {
        if (view->sizes[d] < 0 || view->sizes[d] > part->sizes[d] ||
            view->strides[d] != part->strides[d]) {
            return false;
        }
        room += (part->sizes[d] - view->sizes[d]) * part->strides[d];
    }
    return exg_tensor_numel(view) == 0 || skipped / bytes <= room;
}

/* The part, or the view of it, which is made row-major at `data`, or filled from there. */
static exg_status copy_view(const exg_dtensor *t, const exg_tensor *view, void *data, bool in,
                            exg_error *err)
{
    const exg_tensor *part = view == NULL ? &t->local : view;
    exg_box box = {{0}, {0}};
    exg_tensor whole;
    exg_host_copy m;
    exg_status status = EXG_OK;

    EXG_TRY(exg_dtensor_wait(t, err));
    if (t->meta) {
        return EXG_FAIL(err, USAGE, "DTN-003", "a meta tensor has no data");
    }
    if (view != NULL && !is_view_of(&t->local, view)) {
        return EXG_FAIL(err, USAGE, "DTN-014", "no window on this rank's part");
    }
    EXG_REQUIRE(err, EXG_IF_ANY(exg_tensor_numel(part), data));
    EXG_TRY(exg_host_copy_open(&m, t->mesh->device, part, !in, err));
    memcpy(box.size, part->sizes, sizeof(box.size));
    whole = exg_box_tensor(&box, part->dtype, part->rank, data);
    if (in) {
        exg_box_copy(&box, &whole, box.offset, &m.here, box.offset);
        status = exg_host_copy_write(&m, err);
        exg_block_touch(t->owned);
    } else {
        exg_box_copy(&box, &m.here, box.offset, &whole, box.offset);
    }
    exg_host_copy_close(&m);
    return status;
}

exg_status exg_dtensor_copy_to_host(const exg_dtensor *t, const exg_tensor *view, void *data,
                                    exg_error *err)
{
    EXG_REQUIRE(err, t);
    return copy_view(t, view, data, false, err);
}

exg_status exg_dtensor_copy_from_host(exg_dtensor *t, const exg_tensor *view, const void *data,
                                      exg_error *err)
{
    EXG_REQUIRE(err, t);
    return copy_view(t, view, (void *)(uintptr_t)data, true, err);
}

uint32_t exg_dtensor_first_holder(const exg_dtensor *t, uint32_t rank)
{
    uint32_t first = 0;

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        bool copy = t->placements[m].kind == EXG_REPLICATE;

        first = first * t->mesh->sizes[m] + (copy ? 0 : exg_mesh_coordinate(t->mesh, rank, m));
    }
    return first;
}

exg_status exg_dtensor_write_items(const exg_dtensor *t, const char *fqn, exg_write_item *items,
                                   uint32_t room, uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, t, fqn, EXG_IF_ANY(room, items), count);
    exg_write_item item = {.fqn = fqn,
                           .rank = t->rank,
                           .dtype = t->local.dtype,
                           .layout = EXG_LAYOUT_STRIDED,
                           .memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS,
                           .requires_grad = t->history != NULL};
    const exg_region *region;
    exg_region *all;

    *count = 0;
    EXG_TRY(exg_dtensor_check_chunks(t, err));
    if (t->mesh->communicator == NULL) {
        return EXG_OK;
    }
    EXG_TRY(own_region(t, &all, &region, err));
    item.writer = exg_dtensor_first_holder(t, exg_device_mesh_rank(t->mesh));
    memcpy(item.global_sizes, t->sizes, t->rank * sizeof(*t->sizes));
    *count = region->count > 0 ? region->count : 1; /* an empty part is a chunk too */
    for (uint32_t i = 0; i < *count && i < room; i++) {
        exg_local_chunk(t->mesh, exg_device_mesh_rank(t->mesh), t->placements, t->sizes, t->rank,
                        item.offsets, item.sizes);
        if (region->count > 0) {
            memcpy(item.offsets, region->pieces[i].box.offset, sizeof(item.offsets));
            memcpy(item.sizes, region->pieces[i].box.size, sizeof(item.sizes));
        }
        items[i] = item;
    }
    free(all);
    return EXG_OK;
}
