/* call_rules.c - module calls and the trees of their arguments (MCG). */
#include "libexport/base/map.h"
#include "libexport/program/python.h"
#include "libexport/verify/tree.h"
#include "libexport/verify/verifier.h"

#include <string.h>

typedef struct tree {
    exg_verifier *v;
    const exg_model_path *path;
    uint32_t leaves;
} tree;

static bool string_is(exg_json value, const char *text)
{
    const char *have;

    return exg_json_type_of(value) == EXG_JSON_STRING &&
           exg_json_string(value, &have, NULL, NULL) == EXG_OK && strcmp(have, text) == 0;
}

/* Keys of a list; PyTorch makes one of two alike. UINT32_MAX: it is no list. */
static uint32_t count_list(exg_verifier *v, exg_json list, bool *twice)
{
    exg_map texts;
    exg_json item;
    exg_json_walk each;
    uint32_t count = 0;

    if (exg_json_type_of(list) != EXG_JSON_ARRAY || exg_json_array(list, &each, NULL) != EXG_OK) {
        return UINT32_MAX;
    }
    exg_map_init(&texts, v->arena);
    while (exg_json_next(&each, &item)) {
        const char *text;
        bool is_text = exg_json_type_of(item) == EXG_JSON_STRING &&
                       exg_json_string(item, &text, NULL, NULL) == EXG_OK;

        count++;
        *twice = *twice || (is_text && exg_map_find(&texts, text) != EXG_MAP_NONE);
        v->failed = v->failed || (is_text && !exg_map_put(&texts, text, 0));
    }
    return count;
}

/* Keys of a dict: a JSON list in a string, of a defaultdict a list in an object. UINT32_MAX: none
 * can be read. */
static uint32_t count_keys(exg_verifier *v, exg_json context, bool *twice)
{
    const char *text;
    size_t length;
    exg_json_doc *doc;
    uint32_t count;
    exg_json list;
    exg_status status;

    if (exg_json_type_of(context) == EXG_JSON_OBJECT) {
        return exg_json_find(context, "dict_context", &list) ? count_list(v, list, twice)
                                                             : UINT32_MAX;
    }
    if (exg_json_type_of(context) != EXG_JSON_STRING ||
        exg_json_string(context, &text, &length, NULL) != EXG_OK) {
        return UINT32_MAX;
    }
    status = exg_json_parse(text, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, NULL);
    v->failed = v->failed || status == EXG_NO_MEMORY;
    if (status != EXG_OK) {
        return UINT32_MAX;
    }
    count = count_list(v, exg_json_root(doc), twice);
    exg_json_free(doc);
    return count;
}

static void check_dict(tree *t, const char *type, exg_json context, uint32_t children)
{
    bool twice = false;
    uint32_t keys;

    if (strcmp(type, "builtins.dict") != 0 && strcmp(type, "collections.OrderedDict") != 0 &&
        strcmp(type, "collections.defaultdict") != 0) {
        return;
    }
    keys = count_keys(t->v, context, &twice);
    if (keys != children) {
        exg_found(t->v, "MCG-006", t->path, "a dict of %u children has %u keys", children,
                  keys == UINT32_MAX ? 0 : keys);
    } else if (twice) {
        exg_found(t->v, "MCG-006", t->path, "a dict has one of its keys twice");
    }
}

/* The module that PyTorch imports for what `item` says, or NULL: the class of a value of an enum
 * ("module:Class"), or what makes a defaultdict's values. */
static const char *imported(exg_json item)
{
    static const char *const keys[] = {"default_factory_module", "fqn"};
    const char *module = NULL;
    exg_json value;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (exg_json_type_of(item) == EXG_JSON_OBJECT && exg_json_find(item, keys[i], &value) &&
            exg_json_type_of(value) == EXG_JSON_STRING &&
            (i == 0 || exg_json_find(item, "__enum__", &value)) &&
            exg_json_find(item, keys[i], &value) &&
            exg_json_string(value, &module, NULL, NULL) == EXG_OK &&
            strcmp(module, "builtins") != 0 && strcmp(module, "collections") != 0) {
            return module;
        }
    }
    return NULL;
}

/* Of a context, and of the keys that it lists. */
static const char *imported_in(exg_json context)
{
    const char *module = imported(context);
    exg_json list = context;
    exg_json item;
    exg_json_walk each;

    if (exg_json_type_of(context) == EXG_JSON_OBJECT &&
        !exg_json_find(context, "dict_context", &list)) {
        return module;
    }
    if (module == NULL && exg_json_type_of(list) == EXG_JSON_ARRAY &&
        exg_json_array(list, &each, NULL) == EXG_OK) {
        while (module == NULL && exg_json_next(&each, &item)) {
            module = imported(item);
        }
    }
    return module;
}

static void check_imports(tree *t, exg_json context)
{
    const char *text;
    const char *module;
    size_t length;
    exg_json_doc *doc = NULL;
    exg_json root = context;

    if (exg_json_type_of(context) == EXG_JSON_STRING) { /* JSON again */
        exg_status status = exg_json_string(context, &text, &length, NULL);

        if (status == EXG_OK) {
            status = exg_json_parse(text, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, NULL);
        }
        t->v->failed = t->v->failed || status == EXG_NO_MEMORY;
        if (status != EXG_OK) {
            return;
        }
        root = exg_json_root(doc);
    }
    module = imported_in(root);
    if (module != NULL) {
        exg_found(t->v, "MCG-007", t->path, "'%s' is imported to read the tree", module);
    }
    exg_json_free(doc);
}

static void check_named_tuple(tree *t, const char *type, exg_json context)
{
    const exg_program *p = t->v->program;
    const char *name;

    if (strcmp(type, "collections.namedtuple") != 0 ||
        exg_json_type_of(context) != EXG_JSON_STRING ||
        exg_json_string(context, &name, NULL, NULL) != EXG_OK) {
        return;
    }
    for (uint32_t i = 0; i < p->named_tuple_count; i++) {
        if (strcmp(p->named_tuples[i].type, name) == 0) {
            return;
        }
    }
    exg_found(t->v, "MCG-005", t->path, "the fields of '%s' are not recorded", name);
}

/* JSON does not nest deeper than EXG_JSON_DEPTH_MAX, so this does not either. */
static bool walk(tree *t, exg_json json)
{
    exg_tree_node node;
    exg_json child;
    exg_json_walk each;

    if (!exg_tree_node_read(json, &node)) {
        return false;
    }
    if (node.type == NULL) {
        t->leaves++;
        return true;
    }
    check_dict(t, node.type, node.context, exg_json_count(node.children));
    check_named_tuple(t, node.type, node.context);
    check_imports(t, node.context);
    (void)exg_json_array(node.children, &each, NULL);
    while (exg_json_next(&each, &child)) {
        if (!walk(t, child)) {
            return false;
        }
    }
    return true;
}

static bool is_call(exg_json node)
{
    exg_json type;
    exg_json children;
    exg_json_walk each;
    exg_json args = {0};
    exg_json kwargs = {0};

    return exg_json_find(node, "type", &type) && string_is(type, "builtins.tuple") &&
           exg_json_find(node, "children_spec", &children) &&
           exg_json_array(children, &each, NULL) == EXG_OK && exg_json_count(children) == 2 &&
           exg_json_next(&each, &args) && exg_json_next(&each, &kwargs) &&
           exg_json_find(args, "type", &type) && string_is(type, "builtins.tuple") &&
           exg_json_find(kwargs, "type", &type) && string_is(type, "builtins.dict");
}

/* Arguments of a call: those of its tuple and of its dict. */
static uint32_t count_arguments(exg_json call)
{
    exg_json children;
    exg_json child;
    exg_json_walk each;
    uint32_t count = 0;

    if (exg_json_find(call, "children_spec", &children) &&
        exg_json_array(children, &each, NULL) == EXG_OK) {
        while (exg_json_next(&each, &child)) {
            exg_tree_node node;

            count += exg_tree_node_read(child, &node) ? exg_json_count(node.children) : 0;
        }
    }
    return count;
}

/* What PyTorch calls the arguments of the module that it makes. */
static void check_forward_names(exg_verifier *v, exg_json call)
{
    const exg_module_call *root = &v->program->module_calls[0];
    const exg_model_path *path =
        EXG_AT(EXG_AT_INDEX(NULL, "module_call_graph", 0), "signature.forward_arg_names");
    exg_map names;

    exg_map_init(&names, v->arena);
    for (uint32_t i = 0; i < root->forward_arg_name_count; i++) {
        const char *name = root->forward_arg_names[i];
        bool is_twice = exg_map_find(&names, name) != EXG_MAP_NONE;

        if (!exg_is_python_name(name) || is_twice) {
            exg_found(v, "MCG-008", path,
                      is_twice ? "two arguments are called '%s'" : "no argument can be called '%s'",
                      name);
            return;
        }
        v->failed = v->failed || !exg_map_put(&names, name, i);
    }
    if (root->forward_arg_names != NULL && root->forward_arg_name_count != count_arguments(call)) {
        exg_found(v, "MCG-008", path, "%u names for the %u arguments of the call",
                  root->forward_arg_name_count, count_arguments(call));
    }
}

/* Reads the tree of `text`; `leaves` is what it must have (UINT32_MAX: any number). */
static void check_tree(exg_verifier *v, const char *text, const char *code, bool of_call,
                       uint32_t leaves, const exg_model_path *path)
{
    tree t = {.v = v, .path = path};
    exg_json_doc *doc;
    exg_json node;
    exg_error err;

    if (exg_tree_parse(text, &doc, &node, &err) != EXG_OK) {
        v->failed = v->failed || err.status == EXG_NO_MEMORY;
        exg_found(v, code, path, "%s", err.message);
        return;
    }
    if (of_call && !is_call(node)) {
        exg_found(v, code, path, "the tree is not a pair of a tuple and a dict");
    } else if (!walk(&t, node)) {
        exg_found(v, "MCG-006", path, "a node lacks its type, context or children");
    } else if (leaves != UINT32_MAX && t.leaves != leaves) {
        exg_found(v, code, path, "%u leaves for %u values of the signature%s", t.leaves, leaves,
                  !of_call && t.leaves > 0 && t.leaves < leaves
                      ? "; a result that is a tensor subclass was taken apart, and PyTorch cannot "
                        "call it either: give the tensors inside of it"
                      : "");
    } else if (of_call && v->tells_all) {
        check_forward_names(v, node);
    }
    exg_json_free(doc);
}

static void check_value(exg_verifier *v, const exg_argument *arg, const exg_model_path *path)
{
    exg_value_id id = EXG_NO_VALUE;

    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
        id = arg->as_tensor;
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        id = arg->as_sym.value;
        break;
    case EXG_ARGUMENT_CUSTOM_OBJ:
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_STRING:
        return;
    default:
        exg_found(v, "MCG-004", path, "%s as a value of a call", exg_argument_tag(arg->kind));
        return;
    }
    if (id != EXG_NO_VALUE && !v->defined[id]) {
        exg_found(v, "MCG-004", path, "'%s' is no value of the graph",
                  v->program->graph->values[id].name);
    }
}

static void check_entry(exg_verifier *v, uint32_t i)
{
    const exg_module_call *entry = &v->program->module_calls[i];
    const exg_model_path *path = EXG_AT_INDEX(NULL, "module_call_graph", i);
    const exg_model_path *signature = EXG_AT(path, "signature");

    for (uint32_t k = 0; k < entry->input_count; k++) {
        check_value(v, &entry->inputs[k], EXG_AT_INDEX(signature, "inputs", k));
    }
    for (uint32_t k = 0; k < entry->output_count; k++) {
        check_value(v, &entry->outputs[k], EXG_AT_INDEX(signature, "outputs", k));
    }
    if (i > 0 && v->tells_all && entry->in_spec != NULL && entry->out_spec != NULL) {
        check_tree(v, entry->in_spec, "MCG-006", false, UINT32_MAX, EXG_AT(signature, "in_spec"));
        check_tree(v, entry->out_spec, "MCG-006", false, UINT32_MAX, EXG_AT(signature, "out_spec"));
    }
}

static uint32_t count_user_inputs(const exg_signature *s)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->input_count; i++) {
        count += s->inputs[i].kind == EXG_INPUT_USER;
    }
    return count;
}

static uint32_t count_user_outputs(const exg_signature *s)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < s->output_count; o++) {
        count += s->outputs[o].kind == EXG_OUTPUT_USER || s->outputs[o].kind == EXG_OUTPUT_LOSS;
    }
    return count;
}

void exg_verify_calls(exg_verifier *v)
{
    const exg_program *p = v->program;
    const exg_module_call *root = p->module_call_count > 0 ? &p->module_calls[0] : NULL;
    const exg_model_path *path = EXG_AT_INDEX(NULL, "module_call_graph", 0);

    for (uint32_t i = 0; i < p->module_call_count; i++) {
        check_entry(v, i);
    }
    if (root == NULL && p->origin == EXG_ORIGIN_EARLY) {
        return; /* the early schema knows of no calls */
    }
    if (root == NULL || root->fqn == NULL || root->fqn[0] != '\0' || !root->has_signature) {
        exg_found(v, "MCG-001", path, "no root entry with a signature");
        return;
    }
    if (root->in_spec != NULL) {
        check_tree(v, root->in_spec, "MCG-002", true,
                   v->inputs_paired ? count_user_inputs(&p->signature) : UINT32_MAX,
                   EXG_AT(path, "signature.in_spec"));
    }
    if (root->out_spec != NULL) {
        check_tree(v, root->out_spec, "MCG-003", false,
                   v->outputs_paired ? count_user_outputs(&p->signature) : UINT32_MAX,
                   EXG_AT(path, "signature.out_spec"));
    }
}
