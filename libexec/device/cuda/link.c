/* link.c - which devices can be joined, and through what. */
#include "libexec/device/cuda/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What ranks tell each other of themselves. */
typedef struct introduction {
    uint8_t uuid[16]; /* of the device */
    int32_t version;  /* of NCCL; 0: there is none */
} introduction;

/* Of the first rank's communicator. */
typedef struct invitation {
    bool is_there;
    nccl_id id;
    exg_nccl_clique *clique; /* of all ranks, where they are threads of a process */
} invitation;

static exg_status need_stream(exg_cuda_device *d, exg_error *err)
{
    const exg_cuda_driver *c = &d->driver;

    EXG_TRY(exg_cuda_enter(d, err));
    if (d->beside != NULL) {
        return EXG_OK;
    }
    for (int i = 0; i < EXG_CUDA_ASKED; i++) {
        EXG_TRY(exg_cuda_check(c, c->event_create(&d->asked[i].ready, CUDA_EVENT_NO_TIMING),
                               "making an event", err));
        EXG_TRY(exg_cuda_check(c, c->event_create(&d->asked[i].done, CUDA_EVENT_NO_TIMING),
                               "making an event", err));
    }
    return exg_cuda_check(c, c->stream_create(&d->beside, CUDA_STREAM_NON_BLOCKING),
                          "making a stream", err);
}

void exg_cuda_close_links(exg_cuda_device *d)
{
    if (d->beside != NULL) { /* and nothing is under way */
        (void)d->driver.stream_destroy(d->beside);
    }
    for (int i = 0; i < EXG_CUDA_ASKED; i++) {
        if (d->asked[i].ready != NULL) {
            (void)d->driver.event_destroy(d->asked[i].ready);
        }
        if (d->asked[i].done != NULL) {
            (void)d->driver.event_destroy(d->asked[i].done);
        }
    }
}

/* Tells all ranks `own`; `all` gets what each told. */
static exg_status tell(exg_cuda_link *link, const void *own, void *all, size_t bytes,
                       exg_error *err)
{
    uint32_t size = link->c->size;
    char *to_each = calloc(size, bytes);
    exg_status status;

    if (to_each == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < size; r++) {
        memcpy(to_each + r * bytes, own, bytes);
    }
    status = exg_exchange_each(link->c, to_each, all, bytes, err);
    free(to_each);
    return status;
}

static bool is_same_device(const introduction *a, const introduction *b)
{
    return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* Every rank decides the same, by what all said. `why`: of this rank's, that NCCL is not. */
static exg_status decide(exg_cuda_link *link, const introduction *all, const char *why,
                         exg_error *err)
{
    uint32_t size = link->c->size;
    uint32_t alike = 0;

    for (uint32_t r = 0; r < size; r++) {
        alike += is_same_device(&all[r], &all[0]);
    }
    link->is_shared = alike == size && link->c->ops->lends;
    if (alike == size && !link->is_shared) {
        return EXG_FAIL(err, UNSUPPORTED, "DEV-011",
                        "ranks are processes that share a device, and NCCL takes one each");
    }
    for (uint32_t r = 0; r < size && !link->is_shared; r++) {
        if (all[r].version == 0) {
            return EXG_FAIL(err, UNSUPPORTED, "DEV-011", "%s",
                            all[link->c->rank].version == 0 ? why : "another rank has no NCCL");
        }
        if (all[r].version != all[0].version) {
            return EXG_FAIL(err, UNSUPPORTED, "DEV-011", "ranks have NCCL of several versions");
        }
        for (uint32_t other = 0; other < r; other++) {
            if (is_same_device(&all[r], &all[other])) {
                return EXG_FAIL(err, UNSUPPORTED, "DEV-011",
                                "ranks %u and %u share a device, others do not", other, r);
            }
        }
    }
    return EXG_OK;
}

/* An id is asked for only where ranks will meet by it: NCCL waits for them in a thread, at a
 * socket, for ever. */
static exg_status join_by_nccl(exg_cuda_link *link, exg_error *err)
{
    uint32_t size = link->c->size;
    bool together = link->c->ops->lends;
    invitation own = {.is_there = false};
    invitation *all = calloc(size, sizeof(*all));
    exg_status status;

    if (all == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (link->c->rank == 0 || !together) {
        own.clique = exg_nccl_clique_create(together ? size : 1);
    }
    if (link->c->rank == 0 && own.clique != NULL) {
        own.is_there = link->nccl.get_id(&own.id) == NCCL_SUCCESS;
    }
    status = tell(link, &own, all, sizeof(own), err);
    if (status == EXG_OK && all[0].is_there) {
        link->clique = together ? all[0].clique : own.clique;
        status = link->clique == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    } else {
        free(own.clique);
        status =
            status != EXG_OK ? status : EXG_FAIL(err, UNSUPPORTED, "DEV-011", "NCCL gives no id");
    }
    if (status == EXG_OK) {
        exg_nccl_name(&link->nccl, link->head.name, sizeof(link->head.name));
        status = exg_nccl_join(link, &all[0].id, err);
    }
    free(all);
    return status;
}

static exg_status join(exg_cuda_link *link, introduction *all, exg_error *err)
{
    exg_cuda_device *d = link->device;
    introduction own = {.version = 0};
    exg_error why;

    exg_error_clear(&why);
    EXG_TRY(need_stream(d, err));
    EXG_TRY(exg_cuda_check(&d->driver, d->driver.device_uuid(own.uuid, d->ordinal),
                           "describing a device", err));
    if (exg_nccl_open(&link->nccl, &why) == EXG_OK) {
        own.version = link->nccl.version;
    }
    EXG_TRY(tell(link, &own, all, sizeof(own), err));
    EXG_TRY(decide(link, all, why.message, err));
    link->head.records = !link->is_shared;
    if (link->is_shared) {
        (void)snprintf(link->head.name, sizeof(link->head.name), "the device's memory");
        return EXG_OK;
    }
    return join_by_nccl(link, err);
}

exg_status exg_cuda_join(exg_accelerator *device, exg_communicator *c, exg_device_link **link,
                         exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_link *l = calloc(1, sizeof(*l));
    introduction *all = calloc(c->size, sizeof(*all));
    exg_status status = EXG_OK;

    *link = NULL;
    if (l == NULL || all == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    } else {
        l->device = d;
        l->c = c;
        status = join(l, all, err);
    }
    free(all);
    if (status != EXG_OK) {
        if (l != NULL) {
            exg_nccl_leave(l);
        }
        free(l);
        return status;
    }
    l->next = d->links;
    d->links = l;
    *link = &l->head;
    return EXG_OK;
}

/* What others may still read is not freed before they have, and what was asked for is done; or
 * given up. */
void exg_cuda_leave(exg_accelerator *device, exg_device_link *link)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_cuda_link **at = &d->links;
    exg_cuda_link *l = (exg_cuda_link *)link;

    (void)exg_cuda_enter(d, NULL);
    (void)exg_cuda_watch(d, NULL);
    (void)exg_cuda_watch_beside(d, NULL);
    exg_nccl_leave(l);
    while (*at != NULL && *at != l) {
        at = &(*at)->next;
    }
    if (*at == l) {
        *at = l->next;
    }
    free(l);
}
