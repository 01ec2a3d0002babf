/* map.c - open addressing, linear probing, at most half full. */
#include "libexport/base/map.h"

#include <string.h>
#include <xxhash.h>

void exg_map_init(exg_map *map, exg_arena *arena)
{
    *map = (exg_map){.arena = arena};
}

static uint32_t hash_of(const char *key)
{
    return (uint32_t)XXH3_64bits(key, strlen(key));
}

/* The slot that holds `key`, or the free one where it belongs. */
static exg_map_slot *slot_of(const exg_map *map, const char *key, uint32_t hash)
{
    uint32_t mask = map->capacity - 1;
    uint32_t i = hash & mask;

    while (map->slots[i].key != NULL &&
           (map->slots[i].hash != hash || strcmp(map->slots[i].key, key) != 0)) {
        i = (i + 1) & mask;
    }
    return &map->slots[i];
}

uint32_t exg_map_find(const exg_map *map, const char *key)
{
    const exg_map_slot *slot;

    if (map->capacity == 0 || key == NULL) {
        return EXG_MAP_NONE;
    }
    slot = slot_of(map, key, hash_of(key));
    return slot->key == NULL ? EXG_MAP_NONE : slot->index;
}

static bool resize(exg_map *map, uint32_t capacity)
{
    exg_map bigger = *map;

    bigger.capacity = capacity;
    bigger.slots = EXG_NEW_ARRAY(map->arena, exg_map_slot, bigger.capacity);
    if (bigger.slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != NULL) {
            *slot_of(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
        }
    }
    *map = bigger;
    return true;
}

bool exg_map_reserve(exg_map *map, uint32_t count)
{
    uint32_t capacity = map->capacity == 0 ? 16 : map->capacity;

    while (capacity / 2 < count) {
        if (capacity > UINT32_MAX / 2) {
            return false;
        }
        capacity *= 2;
    }
    return capacity == map->capacity || resize(map, capacity);
}

bool exg_map_put(exg_map *map, const char *key, uint32_t index)
{
    uint32_t hash = hash_of(key);
    exg_map_slot *slot;

    if (map->count + 1 > map->capacity / 2 && !exg_map_reserve(map, map->count + 1)) {
        return false;
    }
    slot = slot_of(map, key, hash);
    if (slot->key == NULL) {
        map->count++;
    }
    *slot = (exg_map_slot){key, hash, index};
    return true;
}

const char *exg_map_free_name(const exg_map *map, exg_arena *arena, const char *name)
{
    const char *made = name;

    for (uint32_t i = 1; made != NULL && exg_map_find(map, made) != EXG_MAP_NONE; i++) {
        /* past the second the count: many of one name take no longer */
        made = exg_arena_printf(arena, "%s_%u", name, i == 1 ? 1 : map->count + i);
    }
    return made;
}
