/* cache.c - entries by the key of their call, the least recently used going first. */
#include "libexec/dispatch/dispatcher.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>

void exg_entry_destroy(exg_entry *entry)
{
    if (entry != NULL) {
        exg_plan_executor_destroy(entry->rank);
        exg_shared_device_release(entry->shared_device);
        exg_program_destroy(entry->program);
        exg_arena_destroy(entry->arena);
    }
}

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

exg_entry *exg_cache_find(exg_cache *cache, const exg_cache_key *key, uint64_t hash)
{
    for (exg_entry *e = *slot_of(cache, hash); e != NULL; e = e->chain) {
        if (e->hash == hash && e->key_length == key->count &&
            memcmp(e->key, key->items, key->count * sizeof(*key->items)) == 0) {
            if (e != cache->newest) {
                unlink_use(cache, e);
                link_newest(cache, e);
            }
            return e;
        }
    }
    return NULL;
}

exg_status exg_cache_put(exg_cache *cache, exg_entry *entry, const exg_cache_key *key,
                         uint64_t hash, exg_error *err)
{
    entry->hash = hash;
    entry->key_length = key->count;
    entry->key = exg_arena_memdup(entry->arena, key->items, key->count, sizeof(*key->items));
    if (entry->key == NULL) {
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

void exg_call_cache_key(const exg_call *call, exg_cache_key *w)
{
    const exg_function_schema *f = call->op->schema;
    uint32_t next = 0;

    exg_cache_key_empty(w);
    exg_cache_key_put(w, (uint64_t)call->op_entry->index << 32 |
                             (uint64_t)call->d->options.fallback << 8 |
                             (uint64_t)exg_call_wants_gradient(call) << 2 |
                             (uint64_t)call->d->options.first_suggestion << 1 |
                             (uint64_t)call->d->options.implicit_replication);
    exg_cache_key_put_mesh(w, call->mesh);
    for (uint32_t i = 0; i < f->argument_count; i++) {
        const exg_object *object = call->at[i];

        exg_cache_key_put(w, object == NULL ? UINT64_MAX
                                            : (uint64_t)object->kind << 32 | object->count);
        if (object == NULL || f->arguments[i].type.base != EXG_TYPE_TENSOR) {
            if (object != NULL && object->kind == EXG_OBJECT_VALUE) {
                exg_cache_key_put_value(w, &object->value);
            }
            next += object == NULL && f->arguments[i].type.base == EXG_TYPE_TENSOR;
            continue;
        }
        for (; next < call->operand_count && call->operands[next].position == i; next++) {
            const exg_object *operand = call->operands[next].object;

            if (operand->kind == EXG_OBJECT_DTENSOR) {
                exg_cache_key_put_dtensor(w, operand->dtensor);
            } else {
                exg_cache_key_put_object(w, operand);
            }
        }
    }
}

exg_status exg_entry_find(exg_call *call, exg_entry_maker *make, const void *user,
                          exg_entry **entry)
{
    exg_dispatcher *d = call->d;
    uint64_t hash;
    exg_cache_key kept;
    exg_status status;

    if (d->key.failed) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    hash = exg_cache_key_hash(&d->key);
    *entry = exg_cache_find(&d->cache, &d->key, hash);
    if (*entry != NULL) {
        d->stats.hits++;
        exg_log_decision(call, *entry, true);
        return EXG_OK;
    }
    d->stats.misses++;
    kept = d->key; /* deciding may dispatch */
    d->key = (exg_cache_key){0};
    status = make(call, user, entry);
    exg_cache_key_free(&d->key);
    d->key = kept;
    EXG_TRY(status);
    status = exg_cache_put(&d->cache, *entry, &d->key, hash, call->err);
    if (status != EXG_OK) {
        exg_entry_destroy(*entry);
        return status;
    }
    exg_log_decision(call, *entry, false);
    return EXG_OK;
}
