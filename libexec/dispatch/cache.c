/* cache.c - entries by the words of their call, the least recently used going first. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>

exg_status exg_cache_init(exg_cache *cache, uint32_t capacity, exg_error *err)
{
    *cache = (exg_cache){.capacity = capacity, .slot_count = 16};
    while (cache->slot_count < capacity * 2 && cache->slot_count < 1u << 30) {
        cache->slot_count *= 2;
    }
    cache->slots = calloc(cache->slot_count, sizeof(*cache->slots));
    return cache->slots == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_entry **slot_of(exg_cache *cache, uint64_t hash)
{
    return &cache->slots[hash & (cache->slot_count - 1)];
}

static void unlink_use(exg_cache *cache, exg_entry *entry)
{
    *(entry->newer == NULL ? &cache->newest : &entry->newer->older) = entry->older;
    *(entry->older == NULL ? &cache->oldest : &entry->older->newer) = entry->newer;
}

static void link_newest(exg_cache *cache, exg_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest == NULL ? &cache->oldest : &cache->newest->newer) = entry;
    cache->newest = entry;
}

static void drop(exg_cache *cache, exg_entry *entry)
{
    exg_entry **at = slot_of(cache, entry->hash);

    while (*at != entry) {
        at = &(*at)->chain;
    }
    *at = entry->chain;
    unlink_use(cache, entry);
    cache->entry_count--;
    exg_entry_destroy(entry);
}

void exg_cache_empty(exg_cache *cache)
{
    while (cache->oldest != NULL) {
        drop(cache, cache->oldest);
    }
}

void exg_cache_free(exg_cache *cache)
{
    if (cache->slots != NULL) {
        exg_cache_empty(cache);
        free(cache->slots);
    }
}

exg_entry *exg_cache_find(exg_cache *cache, const exg_words *words, uint64_t hash)
{
    for (exg_entry *e = *slot_of(cache, hash); e != NULL; e = e->chain) {
        if (e->hash == hash && e->word_count == words->count &&
            memcmp(e->words, words->items, words->count * sizeof(*words->items)) == 0) {
            if (e != cache->newest) {
                unlink_use(cache, e);
                link_newest(cache, e);
            }
            return e;
        }
    }
    return NULL;
}

exg_status exg_cache_put(exg_cache *cache, exg_entry *entry, const exg_words *words, uint64_t hash,
                         exg_error *err)
{
    entry->hash = hash;
    entry->word_count = words->count;
    entry->words =
        exg_arena_memdup(entry->arena, words->items, words->count, sizeof(*words->items));
    if (entry->words == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (exg_entry *e = cache->oldest; cache->entry_count >= cache->capacity && e != NULL;) {
        exg_entry *newer = e->newer;

        if (e->runs == 0) {
            drop(cache, e);
        }
        e = newer;
    }
    entry->chain = *slot_of(cache, hash);
    *slot_of(cache, hash) = entry;
    link_newest(cache, entry);
    cache->entry_count++;
    return EXG_OK;
}
