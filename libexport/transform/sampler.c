/* sampler.c - draws numbers within the ranges of a program. */
#include "libexport/transform/sampler.h"
#include "libexport/transform/size_fit.h"

#include <string.h>

#define LEAST_SIZE 2 /* what 0 and 1 give is not what others do, as in torch.export */
#define USUAL_SIZE 11
#define USUAL_SPAN 64
#define DATA_SPAN  8 /* of a number that the data decide: smaller than most sizes */

static void add_symbol(void *user, const char *name, size_t length)
{
    exg_sampler *s = user;
    exg_sampled symbol = {.least = 0, .most = INT64_MAX};

    symbol.name = exg_arena_strndup(s->arena, name, length);
    if (symbol.name == NULL || exg_map_find(&s->by_name, symbol.name) != EXG_MAP_NONE) {
        return;
    }
    for (uint32_t i = 0; i < s->program->range_constraint_count; i++) {
        const exg_range_constraint *range = &s->program->range_constraints[i];

        if (strcmp(range->symbol, symbol.name) == 0) {
            symbol.least = range->has_min && range->min_val > 0 ? range->min_val : 0;
            symbol.most = range->has_max ? range->max_val : INT64_MAX;
        }
    }
    if (symbol.least < LEAST_SIZE && symbol.most >= LEAST_SIZE) {
        symbol.least = LEAST_SIZE;
    }
    if (exg_arena_reserve(s->arena, &s->symbols, s->count, &s->capacity, sizeof(*s->symbols)) &&
        exg_map_put(&s->by_name, symbol.name, s->count)) {
        s->symbols[s->count++] = symbol;
    }
}

static exg_status add_symbols(void *user, const char *text, exg_error *err)
{
    return exg_symint_visit(text, add_symbol, user, err);
}

exg_status exg_sampler_begin(exg_sampler *s, const exg_program *program, const exg_graph *graph,
                             exg_arena *arena, exg_error *err)
{
    *s = (exg_sampler){.arena = arena, .program = program};
    exg_map_init(&s->by_name, arena);
    EXG_TRY(exg_graph_visit_sizes(graph, add_symbols, s, err));
    return exg_arena_is_dry(arena) ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* A number that looks like chance (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int64_t draw(const exg_sampled *symbol, uint32_t sample, uint32_t attempt, uint32_t index)
{
    bool from_data = symbol->name[0] == 'u';
    bool small = from_data || (sample == 0 && attempt == 0);
    int64_t step = (int64_t)1 << (attempt / 4);
    int64_t least = !small && symbol->least < USUAL_SIZE && symbol->most >= USUAL_SIZE
                        ? USUAL_SIZE
                        : symbol->least;
    int64_t span = sample == 0 && attempt == 0 ? 1 : from_data ? DATA_SPAN : USUAL_SPAN * step;
    int64_t value;

    if (symbol->most - least < span) {
        span = symbol->most < least ? 1 : symbol->most - least + 1;
    }
    value = least + (int64_t)(mix(mix(mix(sample) + attempt) + index) % (uint64_t)span);
    if (!from_data && value - value % step >= symbol->least) {
        value -= value % step;
    }
    return value;
}

exg_status exg_sampler_draw(const exg_sampler *s, uint32_t sample, uint32_t attempt,
                            exg_symbols *symbols, exg_error *err)
{
    *symbols = (exg_symbols){0};
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_sampled *symbol = &s->symbols[i];

        EXG_TRY(exg_symbols_add(symbols, s->arena, symbol->name, strlen(symbol->name),
                                draw(symbol, sample, attempt, i), err));
    }
    return EXG_OK;
}
