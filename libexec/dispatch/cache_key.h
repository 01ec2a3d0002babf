/* cache_key.h - calls written as 64-bit words: equal calls have equal words. What the cache is
 * keyed by, and what the equality and hash of schemas are. */
#ifndef EXG_LIBEXEC_DISPATCH_CACHE_KEY_H
#define EXG_LIBEXEC_DISPATCH_CACHE_KEY_H

#include <exg/dispatch.h>

typedef struct exg_cache_key {
    uint64_t *items;
    uint32_t count, capacity;
    bool failed; /* out of memory; sticks until emptied */
} exg_cache_key;

void exg_cache_key_empty(exg_cache_key *w); /* keeps the memory */
void exg_cache_key_free(exg_cache_key *w);

void exg_cache_key_put(exg_cache_key *w, uint64_t word);

/* The value, tag first: 1, 1.0 and true differ, floats go by their bits. */
void exg_cache_key_put_value(exg_cache_key *w, const exg_argument *value);

/* Any object but TENSOR: DTENSORs by spec, the mesh by its ranks. */
void exg_cache_key_put_object(exg_cache_key *w, const exg_object *object);

/* A DTensor by spec and local strides, the mesh left out. */
void exg_cache_key_put_dtensor(exg_cache_key *w, const exg_dtensor *t);

/* The mesh as this rank sees it, its ranks left out: enough to reuse what was decided. */
void exg_cache_key_put_mesh(exg_cache_key *w, const exg_device_mesh *mesh);

uint64_t exg_cache_key_hash(const exg_cache_key *w);

#endif
