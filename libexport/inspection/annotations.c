/* annotations.c - what runs and plans say of nodes: of the JSON of `exg run --profile --json`
 * times, of that of `exg plan --mesh N --json` predicted times and placements. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"

#include <exg/inspection.h>
#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The way to such a file. */
static const char way[] =
    "exg run FILE --profile --json, or exg plan FILE --mesh N --json, prints such a file";

#define JSON_FORMAT 1 /* of what commands print */

typedef struct annotating {
    const char *path;
    const exg_program *program;
    exg_arena *arena;
    exg_map nodes; /* by the names of what they give: their numbers */
    exg_annotations *made;
    uint32_t capacity, found;
    uint32_t copies; /* rows that are of no node of any program: of what is around it */
    exg_error *err;
} annotating;

static exg_status foreign(annotating *a, const char *why)
{
    return exg_error_fix(a->err, EXG_FAIL(a->err, MALFORMED, "ANN-001", "%s", why), "%s", way);
}

/* The member, which must be there. */
static exg_status member(annotating *a, exg_json object, const char *key, exg_json *value)
{
    char why[96];

    if (exg_json_find(object, key, value)) {
        return EXG_OK;
    }
    snprintf(why, sizeof(why), "a row has no '%s'", key);
    return foreign(a, why);
}

static exg_status text_of(annotating *a, exg_json object, const char *key, const char **text)
{
    exg_json value;

    EXG_TRY(member(a, object, key, &value));
    return exg_json_string(value, text, NULL, a->err);
}

/* A count; never below 0. */
static exg_status count_of(annotating *a, exg_json object, const char *key, int64_t *count)
{
    exg_json value;

    EXG_TRY(member(a, object, key, &value));
    EXG_TRY(exg_json_int(value, count, a->err));
    return *count >= 0 ? EXG_OK : foreign(a, "a time or a count is below 0");
}

/* The texts of a list, with commas between. */
static exg_status list_of(annotating *a, exg_json object, const char *key, exg_text *to)
{
    const char *before = "";
    exg_json value;
    exg_json_walk walk;

    EXG_TRY(member(a, object, key, &value));
    EXG_TRY(exg_json_array(value, &walk, a->err));
    while (exg_json_next(&walk, &value)) {
        const char *text;

        EXG_TRY(exg_json_string(value, &text, NULL, a->err));
        exg_text_printf(to, "%s%s", before, text);
        before = ", ";
    }
    return EXG_OK;
}

static exg_status add(annotating *a, const char *name, int64_t ns, exg_text *how)
{
    exg_annotations *made = a->made;
    exg_annotation *row;

    if (made->count == a->capacity) {
        const uint32_t room = a->capacity == 0 ? 64 : 2 * a->capacity;
        exg_annotation *items = EXG_NEW_ARRAY(a->arena, exg_annotation, room);

        if (items == NULL) {
            return EXG_OUT_OF_MEMORY(a->err);
        }
        for (uint32_t i = 0; i < made->count; i++) {
            items[i] = made->items[i];
        }
        made->items = items;
        a->capacity = room;
    }
    row = &made->items[made->count++];
    row->node = exg_map_find(&a->nodes, name);
    row->ns = (uint64_t)ns;
    row->how = how->failed ? NULL : exg_arena_strdup(a->arena, exg_text_string(how));
    a->found += row->node != EXG_MAP_NONE;
    a->copies += name[0] == '\0';
    return row->how == NULL ? EXG_OUT_OF_MEMORY(a->err) : EXG_OK;
}

static exg_status read_step(annotating *a, exg_json step)
{
    exg_text how = EXG_TEXT_EMPTY;
    const char *name;
    const char *kernel;
    int64_t nodes;
    int64_t ns;
    exg_status status;

    EXG_TRY(text_of(a, step, "origin", &name));
    EXG_TRY(text_of(a, step, "kernel", &kernel));
    EXG_TRY(count_of(a, step, "nodes", &nodes));
    EXG_TRY(count_of(a, step, "ns", &ns));
    exg_text_printf(&how, "kernel %s", kernel);
    if (nodes > 1) {
        exg_text_printf(&how, ", %" PRId64 " nodes in one step", nodes);
    }
    status = add(a, name, ns, &how);
    exg_text_free(&how);
    return status;
}

static exg_status read_moves(annotating *a, exg_json node, exg_text *how)
{
    exg_json value;
    exg_json_walk walk;

    EXG_TRY(member(a, node, "moves", &value));
    EXG_TRY(exg_json_array(value, &walk, a->err));
    while (exg_json_next(&walk, &value)) {
        const char *moved;
        const char *from;
        const char *to;
        int64_t bytes;

        EXG_TRY(text_of(a, value, "value", &moved));
        EXG_TRY(text_of(a, value, "from", &from));
        EXG_TRY(text_of(a, value, "to", &to));
        EXG_TRY(count_of(a, value, "bytes", &bytes));
        exg_text_printf(how, "; moves %s from %s to %s, ", moved, from, to);
        exg_text_count(how, (uint64_t)bytes, "byte");
    }
    return EXG_OK;
}

static exg_status read_placed(annotating *a, exg_json node, int64_t dim)
{
    exg_text how = EXG_TEXT_EMPTY;
    const char *name;
    int64_t ns;
    exg_status status;

    EXG_TRY(text_of(a, node, "origin", &name));
    EXG_TRY(count_of(a, node, "ns", &ns));
    exg_text_printf(&how, "dim %" PRId64 ": ", dim);
    status = list_of(a, node, "results", &how);
    status = status == EXG_OK ? read_moves(a, node, &how) : status;
    if (status == EXG_OK) { /* a node has one time on all dims */
        status = add(a, name, dim == 0 ? ns : 0, &how);
    }
    exg_text_free(&how);
    return status;
}

static exg_status read_steps(annotating *a, exg_json list)
{
    exg_json_walk walk;
    exg_json row;

    EXG_TRY(exg_json_array(list, &walk, a->err));
    while (exg_json_next(&walk, &row)) {
        EXG_TRY(read_step(a, row));
    }
    return EXG_OK;
}

static exg_status read_mesh(annotating *a, exg_json dims)
{
    exg_json_walk walk;
    exg_json dim;

    EXG_TRY(exg_json_array(dims, &walk, a->err));
    while (exg_json_next(&walk, &dim)) {
        exg_json_walk nodes;
        exg_json list;
        exg_json row;
        int64_t number;

        EXG_TRY(count_of(a, dim, "dim", &number));
        EXG_TRY(member(a, dim, "nodes", &list));
        EXG_TRY(exg_json_array(list, &nodes, a->err));
        while (exg_json_next(&nodes, &row)) {
            EXG_TRY(read_placed(a, row, number));
        }
    }
    return EXG_OK;
}

static exg_status name_nodes(annotating *a)
{
    const exg_graph *graph = a->program->graph;

    exg_map_init(&a->nodes, a->arena);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            const exg_argument *out = &graph->nodes[n].outputs[o];

            if (out->kind == EXG_ARGUMENT_TENSOR && out->as_tensor != EXG_NO_VALUE &&
                graph->values[out->as_tensor].name != NULL &&
                !exg_map_put(&a->nodes, graph->values[out->as_tensor].name, n)) {
                return EXG_OUT_OF_MEMORY(a->err);
            }
        }
        if (graph->nodes[n].name != NULL && !exg_map_put(&a->nodes, graph->nodes[n].name, n)) {
            return EXG_OUT_OF_MEMORY(a->err);
        }
    }
    return EXG_OK;
}

static exg_status read_rows(annotating *a, exg_json root)
{
    exg_json list;
    exg_json format;
    int64_t number = 0;

    if (!exg_json_find(root, "format", &format) || exg_json_int(format, &number, NULL) != EXG_OK ||
        number != JSON_FORMAT) {
        return foreign(a, "it is not what a command of this version prints");
    }
    if (exg_json_find(root, "profile", &list)) {
        a->made->from = "profile";
        EXG_TRY(read_steps(a, list));
    } else if (exg_json_find(root, "mesh", &list)) {
        a->made->from = "plan";
        EXG_TRY(read_mesh(a, list));
    } else {
        return foreign(a, "it has neither 'profile' nor 'mesh'");
    }
    if (a->made->count == 0) {
        return foreign(a, "it says nothing of nodes");
    }
    if (2 * a->found < a->made->count - a->copies) {
        return exg_error_fix(a->err,
                             EXG_FAIL(a->err, MISMATCH, "ANN-002",
                                      "of %u rows of %s %u are of nodes of this program",
                                      a->made->count, a->path, a->found),
                             "take the file of a run or a plan of this program");
    }
    return EXG_OK;
}

static exg_status read_all(annotating *a)
{
    exg_json_doc *doc = NULL;
    exg_status status;

    EXG_TRY(name_nodes(a));
    status = exg_json_open(a->path, &doc, a->err);
    if (status == EXG_OK) {
        status = read_rows(a, exg_json_root(doc));
        status = status == EXG_OK ? EXG_OK : exg_error_within(a->err, status, "%s:", a->path);
    }
    exg_json_free(doc);
    if (status == EXG_MALFORMED) { /* whatever of it is not as it should be */
        (void)exg_error_fix(a->err, status, "%s", way);
    }
    return status;
}

exg_status exg_annotations_open(const char *path, const exg_program *program,
                                exg_annotations **annotations, exg_error *err)
{
    EXG_REQUIRE(err, path, program, annotations);
    annotating a = {.path = path, .program = program, .err = err};
    exg_status status;

    *annotations = NULL;
    a.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    a.made = a.arena == NULL ? NULL : EXG_NEW(a.arena, exg_annotations);
    if (a.made == NULL) {
        exg_arena_destroy(a.arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    a.made->size = sizeof(*a.made);
    a.made->arena = a.arena;
    status = read_all(&a);
    if (status == EXG_OK) {
        *annotations = a.made;
    } else {
        exg_arena_destroy(a.arena);
    }
    return status;
}

void exg_annotations_free(exg_annotations *annotations)
{
    if (annotations != NULL) {
        exg_arena_destroy(annotations->arena);
    }
}
