/* side.c - structural hashes of a graph: arguments are printed with values under
 * names that say where they come from, and the texts are hashed. */
#include "libexport/diff/side.h"
#include "libexport/diff/report.h"

#include "libexport/program/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#define HEX_BYTES 17

/* ---- symbols ------------------------------------------------------------------------- */

static bool is_symbol(const char *word, size_t length)
{
    size_t letters = 0;

    while (letters < length && isalpha((unsigned char)word[letters])) {
        letters++;
    }
    if (letters == length || !((letters == 1 && (word[0] == 's' || word[0] == 'u')) ||
                               (letters == 3 && memcmp(word, "zu", 2) == 0))) {
        return false;
    }
    for (size_t i = letters; i < length; i++) {
        if (!isdigit((unsigned char)word[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t number_of(exg_differ *d, exg_symbol_names *names, const char *word, size_t length)
{
    char *key = exg_arena_strndup(d->scratch, word, length);
    uint32_t number = key == NULL ? EXG_MAP_NONE : exg_map_find(&names->map, key);

    if (number == EXG_MAP_NONE) {
        number = names->map.count;
        if (key == NULL || !exg_map_put(&names->map, key, number)) {
            d->failed = true;
        }
    }
    return number;
}

typedef struct numberer {
    exg_differ *differ;
    exg_symbol_names *names;
} numberer;

static void put_number(void *user, const exg_term *symbol, exg_text *out)
{
    numberer *n = user;

    if (is_symbol(symbol->text, symbol->length)) {
        exg_text_printf(out, "<%u>", number_of(n->differ, n->names, symbol->text, symbol->length));
    } else {
        exg_text_add(out, symbol->text, symbol->length);
    }
}

const char *exg_symbols_numbered(exg_differ *d, exg_symbol_names *names, const char *text)
{
    exg_text out = EXG_TEXT_EMPTY;

    exg_print_renamed(&out, text, put_number, &(numberer){d, names});
    return exg_differ_keep(d, &out);
}

const char *exg_side_annotation(exg_differ *d, const exg_side *side, exg_value_id id, bool numbered)
{
    exg_text out = EXG_TEXT_EMPTY;
    const char *text;

    exg_print_annotation(&out, &side->graph->values[id], numbered ? put_number : NULL,
                         &(numberer){d, side->symbols});
    text = exg_differ_keep(d, &out);
    text += strncmp(text, ": \"", 3) == 0 ? 3 : 0;
    if (numbered) {
        return text;
    }
    out = EXG_TEXT_EMPTY;
    exg_text_add(&out, text, strlen(text) > 0 ? strlen(text) - 1 : 0); /* the last quote */
    return exg_differ_keep(d, &out);
}

/* ---- inputs and outputs --------------------------------------------------------------- */

/* A weight by the name it has in B. */
static const char *common_name(const exg_side *side, const char *target)
{
    uint32_t index = side->renamed == NULL ? EXG_MAP_NONE : exg_map_find(side->renamed, target);

    return index == EXG_MAP_NONE ? target : side->renamed_to->weights->items[index].fqn;
}

static const char *input_key(exg_differ *d, const exg_side *side, uint32_t index, uint32_t *users)
{
    const exg_input_spec *spec = side->signature == NULL ? NULL : &side->signature->inputs[index];
    exg_text out = EXG_TEXT_EMPTY;

    if (spec != NULL && spec->target != NULL) {
        exg_text_puts(&out, common_name(side, spec->target));
    } else if (spec != NULL && spec->kind != EXG_INPUT_USER) {
        exg_text_printf(&out, "%s %u", exg_input_kind_name(spec->kind), index);
    } else {
        exg_text_printf(&out, "user input %u", (*users)++);
    }
    return exg_differ_keep(d, &out);
}

/* `places`: of the next output of each kind. */
static const char *output_key(exg_differ *d, const exg_side *side, uint32_t index, uint32_t *places)
{
    const exg_output_spec *spec = side->signature == NULL ? NULL : &side->signature->outputs[index];
    const char *kind = spec == NULL ? "USER_OUTPUT" : exg_output_kind_name(spec->kind);
    exg_text out = EXG_TEXT_EMPTY;

    exg_text_printf(&out, "%s ", kind);
    if (spec != NULL && spec->target != NULL) {
        exg_text_puts(&out, common_name(side, spec->target));
    } else {
        exg_text_printf(&out, "%u", places[spec == NULL ? EXG_OUTPUT_USER : spec->kind]);
    }
    places[spec == NULL ? EXG_OUTPUT_USER : spec->kind]++;
    return exg_differ_keep(d, &out);
}

/* The visitors here write nothing. */
static void visit(const exg_argument *arg, void (*with)(void *user, exg_value_id *id), void *user)
{
    exg_argument copy = *arg;

    exg_argument_visit_values(&copy, with, user);
}

/* ---- names and hashes ------------------------------------------------------------------ */

static uint64_t hash_text(const char *text)
{
    return XXH3_64bits(text, strlen(text));
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t pair[2] = {a, b};

    return XXH3_64bits(pair, sizeof(pair));
}

static void name_value(exg_side *side, exg_value_id id, uint64_t hash)
{
    static const char digits[] = "0123456789abcdef";
    char *name = (char *)(uintptr_t)side->view.values[id].name;

    for (int i = 0; i < HEX_BYTES - 1; i++) {
        name[i] = digits[hash >> (60 - 4 * i) & 15];
    }
}

typedef struct output_namer {
    exg_side *side;
    uint64_t hash;
    uint32_t next;
} output_namer;

static void name_output(void *user, exg_value_id *id)
{
    output_namer *n = user;

    if (*id != EXG_NO_VALUE) {
        name_value(n->side, *id, mix(n->hash, n->next));
    }
    n->next++;
}

/* What a subgraph computes from its inputs. */
static uint64_t hash_graph(exg_differ *d, const exg_side *outer, const exg_graph *graph)
{
    exg_side inner = {.graph = graph, .symbols = outer->symbols};
    exg_text out = EXG_TEXT_EMPTY;

    exg_side_fill(d, &inner);
    for (uint32_t i = 0; !d->failed && i < graph->output_count; i++) {
        exg_print_argument(&out, &inner.view, &graph->outputs[i]);
        exg_text_putc(&out, ',');
    }
    return hash_text(exg_differ_keep(d, &out));
}

static void put_node(exg_differ *d, const exg_side *side, const exg_node *node, exg_text *out)
{
    exg_text_puts(out, node->target);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        exg_text_printf(out, ", %s=", node->inputs[i].name == NULL ? "" : node->inputs[i].name);
        if (arg->kind == EXG_ARGUMENT_GRAPH) {
            exg_text_printf(out, "%016" PRIx64, hash_graph(d, side, arg->as_graph->graph));
        } else {
            exg_print_argument(out, &side->view, arg);
        }
    }
}

static void put_annotation(void *user, exg_value_id *id)
{
    void **both = user;
    exg_side *side = both[1];

    if (*id != EXG_NO_VALUE) {
        const char *text = exg_side_annotation(both[0], side, *id, true);
        uint64_t *hash = both[2];

        *hash = mix(*hash, hash_text(text));
    }
}

static uint64_t hash_outputs(exg_differ *d, exg_side *side, const exg_node *node)
{
    uint64_t hash = node->output_count;
    void *all[3] = {d, side, &hash};

    for (uint32_t o = 0; o < node->output_count; o++) {
        visit(&node->outputs[o], put_annotation, all);
    }
    return hash;
}

/* From what is above. A node's text with "%" for every value is its label. */
static void hash_forward(exg_differ *d, exg_side *side)
{
    exg_graph plain = side->view;

    for (uint32_t n = 0; n < side->graph->node_count && !d->failed; n++) {
        const exg_node *node = &side->graph->nodes[n];
        output_namer namer = {.side = side};
        exg_text out = EXG_TEXT_EMPTY;
        uint64_t outputs = hash_outputs(d, side, node);

        put_node(d, side, node, &out);
        side->up[n] = mix(hash_text(exg_differ_keep(d, &out)), outputs);
        side->view.values = side->blank;
        out = EXG_TEXT_EMPTY;
        put_node(d, side, node, &out);
        side->labels[n] = mix(hash_text(exg_differ_keep(d, &out)), outputs);
        side->view = plain;
        side->targets[n] = hash_text(node->target);
        namer.hash = side->up[n];
        for (uint32_t o = 0; o < node->output_count; o++) {
            visit(&node->outputs[o], name_output, &namer);
        }
    }
}

typedef struct use {
    uint64_t *values; /* by value: sum over its uses */
    uint64_t hash;
    uint32_t next;
} use;

static void add_use(void *user, exg_value_id *id)
{
    use *u = user;

    if (*id != EXG_NO_VALUE) {
        u->values[*id] += mix(u->hash, u->next);
    }
    u->next++;
}

static void read_use(void *user, exg_value_id *id)
{
    use *u = user;

    u->hash = mix(u->hash, *id == EXG_NO_VALUE ? 0 : u->values[*id]);
}

/* From what is below: the label and every use of the results. */
static void hash_backward(exg_differ *d, exg_side *side)
{
    uint64_t *values = EXG_NEW_ARRAY(d->scratch, uint64_t, side->graph->value_count);

    if (values == NULL) {
        d->failed = true;
        return;
    }
    for (uint32_t o = 0; o < side->graph->output_count; o++) {
        use u = {.values = values, .hash = hash_text(side->output_keys[o])};

        visit(&side->graph->outputs[o], add_use, &u);
    }
    for (uint32_t n = side->graph->node_count; n-- > 0;) {
        const exg_node *node = &side->graph->nodes[n];
        use u = {.values = values, .hash = side->labels[n]};

        for (uint32_t o = 0; o < node->output_count; o++) {
            visit(&node->outputs[o], read_use, &u);
        }
        side->down[n] = u.hash;
        for (uint32_t i = 0; i < node->input_count; i++) {
            u.next = i << 16;
            visit(&node->inputs[i].arg, add_use, &u);
        }
    }
}

static bool reserve(exg_differ *d, exg_side *side)
{
    uint32_t nodes = side->graph->node_count;
    uint32_t values = side->graph->value_count;
    char *names = EXG_NEW_ARRAY(d->scratch, char, (size_t)values *HEX_BYTES);

    side->targets = EXG_NEW_ARRAY(d->scratch, uint64_t, nodes);
    side->labels = EXG_NEW_ARRAY(d->scratch, uint64_t, nodes);
    side->up = EXG_NEW_ARRAY(d->scratch, uint64_t, nodes);
    side->down = EXG_NEW_ARRAY(d->scratch, uint64_t, nodes);
    side->keys = EXG_NEW_ARRAY(d->scratch, const char *, side->graph->input_count);
    side->output_keys = EXG_NEW_ARRAY(d->scratch, const char *, side->graph->output_count);
    side->blank = EXG_NEW_ARRAY(d->scratch, exg_value, values);
    side->view = *side->graph;
    side->view.values = EXG_NEW_ARRAY(d->scratch, exg_value, values);
    if (names == NULL || side->targets == NULL || side->labels == NULL || side->up == NULL ||
        side->down == NULL || side->keys == NULL || side->output_keys == NULL ||
        side->blank == NULL || side->view.values == NULL) {
        d->failed = true;
        return false;
    }
    for (uint32_t i = 0; i < values; i++) {
        side->blank[i].name = "%";
        side->view.values[i].name = names + (size_t)i * HEX_BYTES;
    }
    return true;
}

void exg_side_fill(exg_differ *d, exg_side *side)
{
    uint32_t users = 0;
    uint32_t places[EXG_OUTPUT_TOKEN + 1] = {0};

    if (!reserve(d, side)) {
        return;
    }
    for (uint32_t i = 0; i < side->graph->input_count; i++) {
        output_namer namer = {.side = side};
        uint64_t outputs = 0;
        void *all[3] = {d, side, &outputs};

        side->keys[i] = input_key(d, side, i, &users);
        visit(&side->graph->inputs[i], put_annotation, all);
        namer.hash = hash_text(side->keys[i]); /* its dtype and shape are its own difference */
        visit(&side->graph->inputs[i], name_output, &namer);
    }
    for (uint32_t o = 0; o < side->graph->output_count; o++) {
        side->output_keys[o] = output_key(d, side, o, places);
    }
    hash_forward(d, side);
    if (!d->failed) {
        hash_backward(d, side);
    }
}
