/* symbols.c - numbers for symbols. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"

#include <exg/symint.h>
#include <string.h>

#define SYMBOLS_MANY     17 /* from here on found by a map */
#define SYMBOL_BYTES_MAX 64

const exg_symbol *exg_symbols_find(const exg_symbols *symbols, const char *name, size_t length)
{
    char key[SYMBOL_BYTES_MAX];

    if (symbols == NULL) {
        return NULL;
    }
    if (symbols->by_name != NULL && length < sizeof(key)) {
        uint32_t index;

        memcpy(key, name, length);
        key[length] = '\0';
        index = exg_map_find(symbols->by_name, key);
        return index == EXG_MAP_NONE ? NULL : &symbols->items[index];
    }
    for (uint32_t i = 0; i < symbols->count; i++) {
        if (strncmp(symbols->items[i].name, name, length) == 0 &&
            symbols->items[i].name[length] == '\0') {
            return &symbols->items[i];
        }
    }
    return NULL;
}

static bool index_symbols(exg_symbols *symbols, exg_arena *arena)
{
    uint32_t from = symbols->count - 1;

    if (symbols->by_name == NULL) {
        if (symbols->count < SYMBOLS_MANY) {
            return true;
        }
        symbols->by_name = EXG_NEW(arena, exg_map);
        if (symbols->by_name == NULL) {
            return false;
        }
        exg_map_init(symbols->by_name, arena);
        from = 0;
    }
    for (uint32_t i = from; i < symbols->count; i++) {
        if (!exg_map_put(symbols->by_name, symbols->items[i].name, i)) {
            return false;
        }
    }
    return true;
}

exg_status exg_symbols_add(exg_symbols *symbols, exg_arena *arena, const char *name, size_t length,
                           int64_t value, exg_error *err)
{
    EXG_REQUIRE(err, symbols, arena, name);
    const char *copy = exg_arena_strndup(arena, name, length);

    if (copy == NULL || !exg_arena_reserve(arena, &symbols->items, symbols->count,
                                           &symbols->capacity, sizeof(exg_symbol))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    symbols->items[symbols->count++] = (exg_symbol){copy, value};
    return index_symbols(symbols, arena) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}
