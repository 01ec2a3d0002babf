/* graph.c - pairs the nodes of two graphs, most alike first, and compares the pairs:
 *
 *   1. computed from the same, by the same   (hash of all above)
 *   2. used in the same way by the same      (hash of all below)
 *   3. same operator, constants and shapes, in order
 *   4. same operator, in order
 */
#include "libexport/diff/report.h"
#include "libexport/diff/side.h"
#include "libexport/program/print.h"

#include <stdio.h>
#include <string.h>

typedef struct matcher {
    exg_differ *d;
    exg_side *a, *b;
    const char *path;     /* "" or "nodes[3].true_graph." */
    uint32_t *partner;    /* of a's nodes */
    uint32_t *partner_b;  /* of b's nodes */
    bool *alike;          /* paired in step 1: arguments are the same */
    exg_value_id *origin; /* of b's values: a's value, or EXG_NO_VALUE */
    exg_graph common;     /* b with its values under the names of their origin */
} matcher;

static void compare_graphs(exg_differ *d, exg_side *a, exg_side *b, const char *path);

/* ---- pairing ---------------------------------------------------------------------------- */

/* Nodes without a partner, and their tokens. */
static uint32_t free_nodes(const exg_side *side, const uint32_t *partner, const uint64_t *tokens,
                           uint64_t *left, uint32_t *index)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < side->graph->node_count; n++) {
        if (partner[n] == EXG_NO_PARTNER) {
            left[count] = tokens[n];
            index[count++] = n;
        }
    }
    return count;
}

/* Pairs what is still free by one kind of token. */
static void pair_by(matcher *m, const uint64_t *a, const uint64_t *b, bool in_order, bool alike)
{
    exg_arena *arena = m->d->scratch;
    uint32_t nodes_a = m->a->graph->node_count;
    uint32_t nodes_b = m->b->graph->node_count;
    uint64_t *tokens_a = EXG_NEW_ARRAY(arena, uint64_t, nodes_a);
    uint64_t *tokens_b = EXG_NEW_ARRAY(arena, uint64_t, nodes_b);
    uint32_t *index_a = EXG_NEW_ARRAY(arena, uint32_t, nodes_a);
    uint32_t *index_b = EXG_NEW_ARRAY(arena, uint32_t, nodes_b);
    uint32_t *found = EXG_NEW_ARRAY(arena, uint32_t, nodes_a);
    uint32_t count_a;
    uint32_t count_b;

    if (tokens_a == NULL || tokens_b == NULL || index_a == NULL || index_b == NULL ||
        found == NULL) {
        m->d->failed = true;
        return;
    }
    count_a = free_nodes(m->a, m->partner, a, tokens_a, index_a);
    count_b = free_nodes(m->b, m->partner_b, b, tokens_b, index_b);
    memset(found, 0xff, nodes_a * sizeof(*found));
    (in_order ? exg_align : exg_pair_equal)(m->d, tokens_a, count_a, tokens_b, count_b, found);
    for (uint32_t i = 0; i < count_a; i++) {
        if (found[i] != EXG_NO_PARTNER) {
            m->partner[index_a[i]] = index_b[found[i]];
            m->partner_b[index_b[found[i]]] = index_a[i];
            m->alike[index_a[i]] = alike;
        }
    }
}

typedef struct value_list {
    exg_value_id *ids; /* NULL: only counted */
    uint32_t count;
} value_list;

static void collect(void *user, exg_value_id *id)
{
    value_list *list = user;

    if (list->ids != NULL) {
        list->ids[list->count] = *id;
    }
    list->count++;
}

static value_list values_of(exg_differ *d, const exg_argument *arg)
{
    value_list list = {NULL, 0};
    exg_argument copy = *arg;

    exg_argument_visit_values(&copy, collect, &list);
    list.ids = EXG_NEW_ARRAY(d->scratch, exg_value_id, list.count);
    list.count = 0;
    if (list.ids == NULL) {
        d->failed = true;
    } else {
        exg_argument_visit_values(&copy, collect, &list);
    }
    return list;
}

/* The values of two arguments correspond, one by one. */
static void join(matcher *m, const exg_argument *a, const exg_argument *b)
{
    value_list x = values_of(m->d, a);
    value_list y = values_of(m->d, b);

    for (uint32_t i = 0; i < x.count && i < y.count; i++) {
        if (x.ids[i] != EXG_NO_VALUE && y.ids[i] != EXG_NO_VALUE) {
            m->origin[y.ids[i]] = x.ids[i];
        }
    }
}

static void join_inputs(matcher *m)
{
    exg_map map;

    exg_map_init(&map, m->d->scratch);
    for (uint32_t i = 0; i < m->a->graph->input_count; i++) {
        if (!exg_map_put(&map, m->a->keys[i], i)) {
            m->d->failed = true;
            return;
        }
    }
    for (uint32_t i = 0; i < m->b->graph->input_count; i++) {
        uint32_t found = exg_map_find(&map, m->b->keys[i]);

        if (found != EXG_MAP_NONE) {
            join(m, &m->a->graph->inputs[found], &m->b->graph->inputs[i]);
        }
    }
}

static void pair(matcher *m)
{
    pair_by(m, m->a->up, m->b->up, false, true);
    pair_by(m, m->a->down, m->b->down, false, false);
    pair_by(m, m->a->labels, m->b->labels, true, false);
    pair_by(m, m->a->targets, m->b->targets, true, false);
    join_inputs(m);
    for (uint32_t n = 0; n < m->a->graph->node_count && !m->d->failed; n++) {
        const exg_node *x = &m->a->graph->nodes[n];

        if (m->partner[n] != EXG_NO_PARTNER) {
            const exg_node *y = &m->b->graph->nodes[m->partner[n]];

            for (uint32_t o = 0; o < x->output_count && o < y->output_count; o++) {
                join(m, &x->outputs[o], &y->outputs[o]);
            }
        }
    }
    for (uint32_t v = 0; v < m->b->graph->value_count; v++) {
        m->common.values[v].name =
            m->origin[v] == EXG_NO_VALUE
                ? exg_arena_printf(m->d->scratch, "+%s", m->b->graph->values[v].name)
                : m->a->graph->values[m->origin[v]].name;
        m->d->failed = m->d->failed || m->common.values[v].name == NULL;
    }
}

/* ---- comparing --------------------------------------------------------------------------- */

static const char *where(const matcher *m, const exg_side *side, uint32_t n)
{
    const exg_node *node = &side->graph->nodes[n];
    const char *name = node->name;
    exg_text out = EXG_TEXT_EMPTY;

    if (name == NULL && node->output_count > 0 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
        name = side->graph->values[node->outputs[0].as_tensor].name;
    }
    exg_text_printf(&out, "%snodes[%u]%s%s", m->path, n, name == NULL ? "" : " ",
                    name == NULL ? "" : name);
    return exg_differ_keep(m->d, &out);
}

static const char *short_target(const char *target)
{
    return strncmp(target, "torch.ops.", 10) == 0 ? target + 10 : target;
}

static const char *print(const matcher *m, const exg_graph *graph, const exg_argument *arg)
{
    exg_text out = EXG_TEXT_EMPTY;

    if (arg == NULL) {
        exg_text_puts(&out, "(not given)");
    } else {
        exg_print_argument(&out, graph, arg);
    }
    return exg_differ_keep(m->d, &out);
}

static const exg_argument *find_argument(const exg_node *node, uint32_t index, const char *name)
{
    for (uint32_t i = 0; name != NULL && name[0] != '\0' && i < node->input_count; i++) {
        if (node->inputs[i].name != NULL && strcmp(node->inputs[i].name, name) == 0) {
            return &node->inputs[i].arg;
        }
    }
    return (name == NULL || name[0] == '\0') && index < node->input_count ? &node->inputs[index].arg
                                                                          : NULL;
}

typedef struct comparison {
    const matcher *m;
    uint32_t a, b; /* nodes */
    bool differs;
} comparison;

static void found_in(comparison *c, const char *what)
{
    exg_difference found = {.room = EXG_DIFF_GRAPH,
                            .kind = EXG_DIFF_CHANGED,
                            .where_a = where(c->m, c->m->a, c->a),
                            .where_b = where(c->m, c->m->b, c->b),
                            .what = what};

    exg_differ_found(c->m->d, &found);
    c->differs = true;
}

static void changed(comparison *c, const char *part, const char *name, const char *from,
                    const char *to)
{
    exg_text out = EXG_TEXT_EMPTY;

    if (strcmp(from, to) == 0) { /* names are numbered in each program */
        exg_text_printf(&out, "%s %s: %s, which is another value in each", part, name, from);
    } else {
        exg_text_printf(&out, "%s %s: %s -> %s", part, name, from, to);
    }
    found_in(c, exg_differ_keep(c->m->d, &out));
}

static void compare_subgraphs(comparison *c, const exg_argument *x, const exg_argument *y)
{
    const matcher *m = c->m;
    exg_side a = {.graph = x->as_graph->graph, .symbols = m->a->symbols};
    exg_side b = {.graph = y->as_graph->graph, .symbols = m->b->symbols};
    const char *path =
        exg_arena_printf(m->d->scratch, "%snodes[%u].%s.", m->path, c->a, x->as_graph->name);
    uint32_t before = m->d->diff->count;

    exg_side_fill(m->d, &a);
    exg_side_fill(m->d, &b);
    if (path == NULL || m->d->failed) {
        m->d->failed = true;
        return;
    }
    compare_graphs(m->d, &a, &b, path);
    c->differs = c->differs || m->d->diff->count > before;
}

static void compare_argument(comparison *c, const char *name, const exg_argument *x,
                             const exg_argument *y)
{
    const matcher *m = c->m;

    if (x != NULL && y != NULL && x->kind == EXG_ARGUMENT_GRAPH && y->kind == EXG_ARGUMENT_GRAPH) {
        compare_subgraphs(c, x, y);
    } else if (strcmp(print(m, m->a->graph, x), print(m, &m->common, y)) != 0) {
        changed(c, "argument", name, print(m, m->a->graph, x), print(m, m->b->graph, y));
    }
}

static void compare_arguments(comparison *c, const exg_node *x, const exg_node *y)
{
    char place[16];

    for (uint32_t i = 0; i < x->input_count || i < y->input_count; i++) {
        const char *name = i < x->input_count ? x->inputs[i].name : NULL;

        snprintf(place, sizeof(place), "%u", i);
        if (i < x->input_count) {
            compare_argument(c, name == NULL || name[0] == '\0' ? place : name, &x->inputs[i].arg,
                             find_argument(y, i, name));
        }
        name = i < y->input_count ? y->inputs[i].name : NULL;
        if (i < y->input_count && find_argument(x, i, name) == NULL) {
            compare_argument(c, name == NULL || name[0] == '\0' ? place : name, NULL,
                             &y->inputs[i].arg);
        }
    }
}

static void compare_annotations(comparison *c, const char *place, exg_value_id x, exg_value_id y)
{
    const matcher *m = c->m;

    if (x != EXG_NO_VALUE && y != EXG_NO_VALUE &&
        strcmp(exg_side_annotation(m->d, m->a, x, true),
               exg_side_annotation(m->d, m->b, y, true)) != 0) {
        changed(c, "result", place, exg_side_annotation(m->d, m->a, x, false),
                exg_side_annotation(m->d, m->b, y, false));
    }
}

/* Does an argument of the pair differ in dtype or shape? Then so may the results. */
static bool arguments_differ(const comparison *c, const exg_node *y)
{
    const matcher *m = c->m;

    for (uint32_t i = 0; i < y->input_count; i++) {
        value_list list = values_of(m->d, &y->inputs[i].arg);

        for (uint32_t k = 0; k < list.count; k++) {
            exg_value_id id = list.ids[k];

            if (id != EXG_NO_VALUE && m->origin[id] != EXG_NO_VALUE &&
                strcmp(exg_side_annotation(m->d, m->a, m->origin[id], true),
                       exg_side_annotation(m->d, m->b, id, true)) != 0) {
                return true;
            }
        }
    }
    return false;
}

static void compare_results(comparison *c, const exg_node *x, const exg_node *y)
{
    const matcher *m = c->m;
    char place[16];

    for (uint32_t o = 0; o < x->output_count && o < y->output_count; o++) {
        value_list list_a = values_of(m->d, &x->outputs[o]);
        value_list list_b = values_of(m->d, &y->outputs[o]);

        snprintf(place, sizeof(place), "%u", o);
        if (list_a.count != list_b.count) {
            changed(c, "result", place, print(m, m->a->graph, &x->outputs[o]),
                    print(m, m->b->graph, &y->outputs[o]));
        }
        for (uint32_t i = 0; i < list_a.count && i < list_b.count; i++) {
            compare_annotations(c, place, list_a.ids[i], list_b.ids[i]);
        }
    }
}

static void compare_pair(matcher *m, uint32_t a)
{
    comparison c = {.m = m, .a = a, .b = m->partner[a]};
    const exg_node *x = &m->a->graph->nodes[a];
    const exg_node *y = &m->b->graph->nodes[c.b];
    exg_diff_counts *counts = &m->d->diff->counts[EXG_DIFF_GRAPH];

    if (!m->alike[a]) {
        compare_arguments(&c, x, y);
        if (!c.differs && arguments_differ(&c, y)) {
            counts->following += m->path[0] == '\0';
            return;
        }
        compare_results(&c, x, y);
    }
    if (m->path[0] == '\0') {
        counts->same += !c.differs;
        counts->changed += c.differs;
    }
}

static void found_alone(matcher *m, const exg_side *side, uint32_t n, exg_diff_kind kind)
{
    const exg_node *node = &side->graph->nodes[n];
    exg_difference found = {.room = EXG_DIFF_GRAPH, .kind = kind};
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s(", short_target(node->target));
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_text_puts(&out, i > 0 ? ", " : "");
        exg_print_argument(&out, side->graph, &node->inputs[i].arg);
    }
    exg_text_putc(&out, ')');
    found.what = exg_differ_keep(m->d, &out);
    *(kind == EXG_DIFF_REMOVED ? &found.where_a : &found.where_b) = where(m, side, n);
    exg_differ_found(m->d, &found);
    if (m->path[0] == '\0') {
        exg_diff_counts *counts = &m->d->diff->counts[EXG_DIFF_GRAPH];

        counts->removed += kind == EXG_DIFF_REMOVED;
        counts->added += kind == EXG_DIFF_ADDED;
    }
}

/* What b has of its own, up to node `end`. */
static void found_added(matcher *m, uint32_t *next, uint32_t end)
{
    for (; *next < end && !m->d->failed; (*next)++) {
        if (m->partner_b[*next] == EXG_NO_PARTNER) {
            found_alone(m, m->b, *next, EXG_DIFF_ADDED);
        }
    }
}

/* Which values leave the graph. */
static void compare_outputs(matcher *m)
{
    exg_map map;

    exg_map_init(&map, m->d->scratch);
    for (uint32_t i = 0; i < m->a->graph->output_count; i++) {
        const char *key = m->a->output_keys[i];

        m->d->failed = m->d->failed || !exg_map_put(&map, key, i);
    }
    for (uint32_t i = 0; i < m->b->graph->output_count && !m->d->failed; i++) {
        const char *key = m->b->output_keys[i];
        uint32_t at = exg_map_find(&map, key);
        const exg_argument *y = &m->b->graph->outputs[i];
        const exg_argument *x = at == EXG_MAP_NONE ? NULL : &m->a->graph->outputs[at];

        if (x != NULL && strcmp(print(m, m->a->graph, x), print(m, &m->common, y)) != 0) {
            exg_text out = EXG_TEXT_EMPTY;
            exg_difference found = {.room = EXG_DIFF_GRAPH, .kind = EXG_DIFF_CHANGED};

            exg_text_printf(&out, "%s is another value: %s -> %s", key, print(m, m->a->graph, x),
                            print(m, m->b->graph, y));
            found.what = exg_differ_keep(m->d, &out);
            found.where_a = exg_arena_printf(m->d->scratch, "%soutputs[%u]", m->path, at);
            found.where_b = exg_arena_printf(m->d->scratch, "%soutputs[%u]", m->path, i);
            exg_differ_found(m->d, &found);
        }
    }
}

static void compare_graphs(exg_differ *d, exg_side *a, exg_side *b, const char *path)
{
    uint32_t nodes_a = a->graph->node_count;
    uint32_t nodes_b = b->graph->node_count;
    uint32_t next = 0;
    matcher m = {.d = d, .a = a, .b = b, .path = path, .common = *b->graph};

    m.partner = EXG_NEW_ARRAY(d->scratch, uint32_t, nodes_a);
    m.partner_b = EXG_NEW_ARRAY(d->scratch, uint32_t, nodes_b);
    m.alike = EXG_NEW_ARRAY(d->scratch, bool, nodes_a);
    m.origin = EXG_NEW_ARRAY(d->scratch, exg_value_id, b->graph->value_count);
    m.common.values = EXG_NEW_ARRAY(d->scratch, exg_value, b->graph->value_count);
    if (m.partner == NULL || m.partner_b == NULL || m.alike == NULL || m.origin == NULL ||
        m.common.values == NULL) {
        d->failed = true;
        return;
    }
    memset(m.partner, 0xff, nodes_a * sizeof(*m.partner));
    memset(m.partner_b, 0xff, nodes_b * sizeof(*m.partner_b));
    memset(m.origin, 0xff, b->graph->value_count * sizeof(*m.origin));
    pair(&m);
    if (path[0] == '\0' && d->options->partners != NULL) {
        memcpy(d->options->partners, m.partner, nodes_a * sizeof(*m.partner));
    }
    for (uint32_t n = 0; n < nodes_a && !d->failed; n++) {
        if (m.partner[n] == EXG_NO_PARTNER) {
            found_alone(&m, a, n, EXG_DIFF_REMOVED);
        } else {
            found_added(&m, &next, m.partner[n]);
            compare_pair(&m, n);
        }
    }
    found_added(&m, &next, nodes_b);
    if (!d->failed) {
        compare_outputs(&m);
    }
}

void exg_diff_graphs(exg_differ *d, exg_side *a, exg_side *b)
{
    compare_graphs(d, a, b, "");
}
