/* words.h - calls written as rows of 64-bit words: equal calls have equal words. What the
 * cache is keyed by, and what the equality and hash of schemas are. */
#ifndef EXG_LIBEXEC_DISPATCH_WORDS_H
#define EXG_LIBEXEC_DISPATCH_WORDS_H

#include <exg/dispatch.h>

typedef struct exg_words {
    uint64_t *items;
    uint32_t count, capacity;
    bool failed; /* out of memory; sticks until emptied */
} exg_words;

void exg_words_empty(exg_words *w); /* keeps the memory */
void exg_words_free(exg_words *w);

void exg_words_put(exg_words *w, uint64_t word);

/* The value, tag first: 1, 1.0 and true differ, floats go by their bits. */
void exg_words_value(exg_words *w, const exg_argument *value);

/* Any object but TENSOR: DTENSORs by spec, the mesh by its ranks. */
void exg_words_object(exg_words *w, const exg_object *object);

/* A DTensor by spec and local strides, the mesh left out. */
void exg_words_dtensor(exg_words *w, const exg_dtensor *t);

/* The mesh as this rank sees it, its ranks left out: enough to reuse what was decided. */
void exg_words_mesh(exg_words *w, const exg_device_mesh *mesh);

uint64_t exg_words_hash(const exg_words *w);

#endif
