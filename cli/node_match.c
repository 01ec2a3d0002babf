/* node_match.c - which value of one graph is which of another. Names say little where graphs
 * differ, since nodes of a kind are numbered: values are matched that nodes of one operator give in
 * one module, from one line of the user's, in their order. */
#include "cli/cli.h"

#include <exg/module.h>
#include <stdlib.h>
#include <string.h>

/* A value, and all that is alike of those that may be it. */
typedef struct entry {
    const char *name, *key;
    uint32_t order; /* among those of its key, once sorted */
    uint32_t place; /* in the graph */
    uint32_t count; /* of its key */
} entry;

typedef struct entries {
    entry *items;
    uint32_t count;
    const exg_graph *graph;
    exg_arena *arena;
    const exg_node *node; /* whose outputs are listed */
    uint32_t output;
    bool failed;
} entries;

/* "module|code" and with `full` "|operator|output". */
static const char *key_of(entries *e, bool full)
{
    const exg_module_frame module = exg_node_module(e->node);
    exg_source_line source;
    char tail[24];

    snprintf(tail, sizeof(tail), "|%u", e->output);
    (void)exg_node_source_line(e->node, &source);
    return exg_arena_printf(e->arena, "%.*s|%.*s%s%s%s", (int)module.path_length, module.path,
                            (int)source.code_length, source.code, full ? "|" : "",
                            full ? e->node->target : "", full ? tail : "");
}

static void list_value(void *user, exg_value_id *id)
{
    entries *e = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &e->graph->values[*id];

    if (value != NULL && value->tensor != NULL) {
        e->items[e->count] = (entry){value->name, key_of(e, true), 0, e->count, 0};
        e->failed = e->failed || e->items[e->count].key == NULL;
        e->count++;
    }
    e->output++;
}

static int by_key(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    int order = strcmp(x->key, y->key);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static bool list_values(const exg_program *program, exg_arena *arena, entries *e)
{
    *e = (entries){.graph = program->graph, .arena = arena};
    e->items = EXG_NEW_ARRAY(arena, entry, program->graph->value_count);
    for (uint32_t n = 0; e->items != NULL && n < program->graph->node_count; n++) {
        e->node = &program->graph->nodes[n];
        e->output = 0;
        for (uint32_t o = 0; o < e->node->output_count; o++) {
            exg_argument_visit_values(&e->node->outputs[o], list_value, e);
        }
    }
    if (e->items == NULL || e->failed) {
        return false;
    }
    qsort(e->items, e->count, sizeof(*e->items), by_key);
    for (uint32_t i = 0; i < e->count; i++) {
        bool follows = i > 0 && strcmp(e->items[i - 1].key, e->items[i].key) == 0;

        e->items[i].order = follows ? e->items[i - 1].order + 1 : 0;
    }
    for (uint32_t i = e->count; i-- > 0;) {
        bool is_last = i + 1 == e->count || e->items[i + 1].order == 0;

        e->items[i].count = is_last ? e->items[i].order + 1 : e->items[i + 1].count;
    }
    return true;
}

static const entry *find_name(const entries *e, const char *name)
{
    for (uint32_t i = 0; i < e->count; i++) {
        if (strcmp(e->items[i].name, name) == 0) {
            return &e->items[i];
        }
    }
    return NULL;
}

static int compare_key(const void *key, const void *item)
{
    return strcmp(key, ((const entry *)item)->key);
}

static const entry *find_key(const entries *e, const char *key)
{
    return e->count == 0 ? NULL : bsearch(key, e->items, e->count, sizeof(*e->items), compare_key);
}

/* The same module and line, where a step on the way wrote the operator out and kept the name. */
static bool is_written_out(const exg_program *a, const exg_program *b, const char *name,
                           exg_arena *arena)
{
    entries x = {.arena = arena, .node = cli_node_of(a, name, NULL, NULL)};
    entries y = {.arena = arena, .node = cli_node_of(b, name, NULL, NULL)};
    const char *p = x.node == NULL ? NULL : key_of(&x, false);
    const char *q = y.node == NULL ? NULL : key_of(&y, false);

    return p != NULL && q != NULL && strcmp(p, q) == 0;
}

static const char *match(const entries *a, const entries *b, const exg_program *of_a,
                         const exg_program *of_b, const char *name)
{
    const entry *own = find_name(a, name);
    const entry *other = own == NULL ? NULL : find_key(b, own->key);

    if (own == NULL) {
        return NULL;
    }
    if (other == NULL) {
        return is_written_out(of_a, of_b, name, a->arena) ? name : NULL;
    }
    while (other->order > own->order) {
        other--;
    }
    while (other->order < own->order && other->order + 1 < other->count) {
        other++;
    }
    return other->count == own->count ? other->name : NULL;
}

exg_status cli_match_nodes(const exg_program *a, const cli_nodes *nodes, const exg_program *b,
                           exg_arena *arena, const char ***names, exg_error *err)
{
    entries of_a;
    entries of_b;

    *names = EXG_NEW_ARRAY(arena, const char *, nodes->count);
    if (*names == NULL || !list_values(a, arena, &of_a) || !list_values(b, arena, &of_b)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < nodes->count; i++) {
        (*names)[i] = match(&of_a, &of_b, a, b, nodes->names[i]);
    }
    return EXG_OK;
}
