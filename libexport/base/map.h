/* map.h - from a name to an index.
 *
 * Open addressing over xxh3 hashes; keys are borrowed and must outlive the map.
 * Memory comes from an arena, so a map is never freed alone.
 */
#ifndef EXG_LIBEXPORT_BASE_MAP_H
#define EXG_LIBEXPORT_BASE_MAP_H

#include "libexport/base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define EXG_MAP_NONE UINT32_MAX

typedef struct exg_map_slot {
    const char *key;
    uint32_t hash;
    uint32_t index;
} exg_map_slot;

typedef struct exg_map {
    exg_arena *arena;
    exg_map_slot *slots;
    uint32_t capacity; /* power of two, or 0 */
    uint32_t count;
} exg_map;

void exg_map_init(exg_map *map, exg_arena *arena);

/* Room for `count` keys in all, so that putting them moves nothing. false: out of
 * memory. */
bool exg_map_reserve(exg_map *map, uint32_t count);

/* The index stored under `key`, or EXG_MAP_NONE. */
uint32_t exg_map_find(const exg_map *map, const char *key);

/* Stores `index` under `key`, replacing what was there. false: out of memory. */
bool exg_map_put(exg_map *map, const char *key, uint32_t index);

/* `name`, or the first of "<name>_1" and larger numbers that is no key; in `arena` where it is
 * made. NULL: out of memory. */
const char *exg_map_free_name(const exg_map *map, exg_arena *arena, const char *name);

#endif
