/* tree.c - treespecs, read. */
#include "libexport/verify/tree.h"
#include "libexport/base/arena.h"
#include "libexport/program/python.h"

#include <exg/json_writer.h>
#include <string.h>

exg_status exg_tree_parse(const char *text, exg_json_doc **doc, exg_json *root, exg_error *err)
{
    exg_json protocol;
    exg_json_walk pair;
    int64_t number = 0;

    EXG_TRY(exg_json_parse(text, strlen(text), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, doc, err));
    if (exg_json_array(exg_json_root(*doc), &pair, NULL) == EXG_OK &&
        exg_json_next(&pair, &protocol) && exg_json_next(&pair, root) &&
        exg_json_int(protocol, &number, NULL) == EXG_OK && number == 1) {
        return EXG_OK;
    }
    exg_json_free(*doc);
    *doc = NULL;
    return EXG_FAIL(err, MALFORMED, "JSN-002", "a tree is [1, NODE]");
}

bool exg_tree_node_read(exg_json node, exg_tree_node *read)
{
    exg_json type;

    read->type = NULL;
    return exg_json_find(node, "type", &type) && exg_json_find(node, "context", &read->context) &&
           exg_json_find(node, "children_spec", &read->children) &&
           exg_json_type_of(read->children) == EXG_JSON_ARRAY &&
           (exg_json_is_null(type) || exg_json_string(type, &read->type, NULL, NULL) == EXG_OK);
}

/* ---- keys of children ----------------------------------------------------------------------- */

typedef struct keys {
    exg_json_doc *doc; /* of a context that is JSON in a string */
    exg_json_walk walk;
    const char *const *fields; /* of a named tuple, instead */
    uint32_t count;
    bool told;
} keys;

/* A dict's context is the list of its keys, a defaultdict's has it as "dict_context", a
 * dataclass's is [fields, fields that are None], other classes mostly list their fields. */
static void find_key_list(keys *k, exg_json context, uint32_t children)
{
    exg_json list = context;
    exg_json_walk walk;

    if (exg_json_type_of(context) == EXG_JSON_OBJECT &&
        !exg_json_find(context, "dict_context", &list)) {
        return;
    }
    if (exg_json_array(list, &walk, NULL) == EXG_OK) {
        exg_json first;
        exg_json_walk within = walk;

        if (exg_json_next(&within, &first) && exg_json_type_of(first) == EXG_JSON_ARRAY) {
            list = first;
        }
    }
    k->told = exg_json_type_of(list) == EXG_JSON_ARRAY && exg_json_count(list) == children &&
              exg_json_array(list, &k->walk, NULL) == EXG_OK;
}

static exg_status keys_of(const exg_program *program, const exg_tree_node *node, keys *k)
{
    const char *text;
    size_t length;

    *k = (keys){0};
    if (exg_json_string(node->context, &text, &length, NULL) != EXG_OK) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < program->named_tuple_count; i++) {
        if (strcmp(node->type, "collections.namedtuple") == 0 &&
            strcmp(program->named_tuples[i].type, text) == 0) {
            k->fields = program->named_tuples[i].field_names;
            k->count = program->named_tuples[i].field_count;
            return EXG_OK;
        }
    }
    if (exg_json_parse(text, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &k->doc, NULL) ==
        EXG_NO_MEMORY) {
        return EXG_NO_MEMORY;
    }
    if (k->doc != NULL) {
        find_key_list(k, exg_json_root(k->doc), exg_json_count(node->children));
    }
    return EXG_OK;
}

/* The step to child `i`; asked for one after the other. */
static void next_key(keys *k, const exg_tree_node *node, uint32_t i, exg_tree_step *step)
{
    exg_json key;

    step->key = EXG_TREE_UNKNOWN;
    step->index = i;
    if (k->fields != NULL) {
        step->key = i < k->count ? k->fields[i] : EXG_TREE_UNKNOWN;
    } else if (k->told && exg_json_next(&k->walk, &key)) {
        if (exg_json_int(key, &step->index, NULL) == EXG_OK) {
            step->key = NULL;
        } else {
            (void)exg_json_string(key, &step->key, NULL, NULL);
        }
    } else if (strcmp(node->type, "builtins.list") == 0 ||
               strcmp(node->type, "builtins.tuple") == 0 ||
               strcmp(node->type, "collections.deque") == 0) {
        step->key = NULL;
    }
}

/* ---- leaves --------------------------------------------------------------------------------- */

typedef struct walker {
    const exg_program *program;
    void (*on_leaf)(void *user, const exg_tree_step *step, uint32_t leaf);
    void *user;
    uint32_t leaf;
} walker;

/* As deep as JSON nests, EXG_TREE_DEPTH_MAX. */
static exg_status walk(walker *w, exg_json json, const exg_tree_step *way)
{
    exg_tree_node node;
    exg_tree_step step = {.outer = way};
    exg_json_walk each;
    exg_json child;
    keys k;
    exg_status status = EXG_OK;

    if (!exg_tree_node_read(json, &node)) {
        return EXG_MALFORMED;
    }
    if (node.type == NULL) {
        w->on_leaf(w->user, way, w->leaf++);
        return EXG_OK;
    }
    if (keys_of(w->program, &node, &k) != EXG_OK) {
        return EXG_NO_MEMORY;
    }
    (void)exg_json_array(node.children, &each, NULL);
    for (uint32_t i = 0; status == EXG_OK && exg_json_next(&each, &child); i++) {
        next_key(&k, &node, i, &step);
        status = walk(w, child, &step);
    }
    exg_json_free(k.doc);
    return status;
}

/* The arguments are steps by name; the pair (args, kwargs) itself and args are none. */
static exg_status walk_call(walker *w, exg_json root, const char *const *names, uint32_t name_count)
{
    exg_tree_node call;
    exg_tree_node args;
    exg_json_walk pair;
    exg_json_walk each;
    exg_json json;
    exg_tree_step step = {0};

    if (!exg_tree_node_read(root, &call) || exg_json_array(call.children, &pair, NULL) != EXG_OK ||
        !exg_json_next(&pair, &json) || !exg_tree_node_read(json, &args) ||
        exg_json_array(args.children, &each, NULL) != EXG_OK) {
        return EXG_MALFORMED;
    }
    for (uint32_t i = 0; exg_json_next(&each, &json); i++) {
        step.key = i < name_count ? names[i] : EXG_TREE_UNKNOWN;
        EXG_TRY(walk(w, json, &step));
    }
    return exg_json_next(&pair, &json) ? walk(w, json, NULL) : EXG_OK;
}

exg_status exg_tree_leaves(const exg_program *program, const char *text, const char *const *names,
                           uint32_t name_count,
                           void (*on_leaf)(void *user, const exg_tree_step *step, uint32_t leaf),
                           void *user)
{
    walker w = {.program = program, .on_leaf = on_leaf, .user = user};
    exg_json_doc *doc;
    exg_json root;
    exg_status status;

    EXG_TRY(exg_tree_parse(text, &doc, &root, NULL));
    status = walk_call(&w, root, names, name_count);
    exg_json_free(doc);
    return status;
}

/* ---- a tree with more leaves ---------------------------------------------------------------- */

typedef struct grower {
    exg_tree_grow_fn of_leaf;
    void *user;
    exg_text made;
} grower;

/* Writes the node out again; false: it is none. */
static bool grow(grower *g, exg_json json)
{
    exg_tree_node node;
    exg_json child;
    exg_json_walk each;
    const char *context = NULL;

    if (!exg_tree_node_read(json, &node) ||
        (!exg_json_is_null(node.context) &&
         exg_json_string(node.context, &context, NULL, NULL) != EXG_OK)) {
        return false;
    }
    if (node.type == NULL) {
        exg_text other = EXG_TEXT_EMPTY;

        g->of_leaf(g->user, &other);
        exg_json_put_raw(&g->made, other.length == 0 ? EXG_TREE_LEAF : exg_text_string(&other));
        exg_text_free(&other);
        return true;
    }
    exg_json_put_open(&g->made, '{');
    exg_json_member_text(&g->made, "type", node.type);
    exg_json_member_text(&g->made, "context", context);
    exg_json_member_open(&g->made, "children_spec", '[');
    (void)exg_json_array(node.children, &each, NULL);
    while (exg_json_next(&each, &child)) {
        if (!grow(g, child)) {
            return false;
        }
    }
    exg_json_put_close(&g->made, ']');
    exg_json_put_close(&g->made, '}');
    return true;
}

exg_status exg_tree_grow(exg_arena *arena, const char **text, exg_tree_grow_fn of_leaf, void *user,
                         exg_error *err)
{
    grower g = {of_leaf, user, EXG_TEXT_EMPTY};
    exg_json_doc *doc;
    exg_json root;
    exg_status status = EXG_OK;

    EXG_TRY(exg_tree_parse(*text, &doc, &root, err));
    exg_json_put_open(&g.made, '[');
    exg_json_put_int(&g.made, 1);
    if (grow(&g, root)) {
        exg_json_put_close(&g.made, ']');
        *text = exg_text_string(&g.made) == NULL
                    ? NULL
                    : exg_arena_strdup(arena, exg_text_string(&g.made));
        status = *text == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    } else {
        status = EXG_FAIL(err, MALFORMED, "MCG-006", "a node lacks its type, context or children");
    }
    exg_text_free(&g.made);
    exg_json_free(doc);
    return status;
}
