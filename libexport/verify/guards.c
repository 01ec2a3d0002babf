/* guards.c - Python on the sizes of inputs, as expressions of the closed grammar. */
#include "libexport/verify/guards.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_PATH_MAX 200

static void put_size(exg_text *out, const exg_sym_int *size)
{
    if (size->expr != NULL) {
        exg_text_printf(out, "(%s)", size->expr);
    } else {
        exg_text_printf(out, "(%" PRId64 ")", size->value);
    }
}

/* Reads "L['d']['x']" or "L['args'][0]": the parts joined by '_' are the name of the
 * input. Gives what follows, or NULL. */
static const char *read_path(const char *at, char *name)
{
    size_t used = 0;

    at++; /* L */
    while (*at == '[') {
        char quote = at[1] == '\'' || at[1] == '"' ? at[1] : '\0';
        const char *from = at + 1 + (quote != '\0');
        const char *end = strchr(from, quote == '\0' ? ']' : quote);

        if (end == NULL || used + (size_t)(end - from) + 2 > GUARD_PATH_MAX) {
            return NULL;
        }
        if (used > 0) {
            name[used++] = '_';
        }
        memcpy(name + used, from, (size_t)(end - from));
        used += (size_t)(end - from);
        at = end + (quote != '\0');
        if (*at++ != ']') {
            return NULL;
        }
    }
    name[used] = '\0';
    return used > 0 ? at : NULL;
}

/* ".size()[0]", ".stride()[0]", ".storage_offset()" or nothing. */
static const char *put_property(exg_text *out, const exg_value *value, const char *at)
{
    const exg_tensor_meta *meta = value->tensor;
    const exg_sym_int *sizes = NULL;
    char *end;
    unsigned long dim;

    if (strncmp(at, ".size()[", 8) == 0) {
        sizes = meta == NULL ? NULL : meta->sizes;
        at += 8;
    } else if (strncmp(at, ".stride()[", 10) == 0) {
        sizes = meta == NULL ? NULL : meta->strides;
        at += 10;
    } else if (meta != NULL && strncmp(at, ".storage_offset()", 17) == 0) {
        put_size(out, &meta->storage_offset);
        return at + 17;
    } else if (value->sym_int != NULL) {
        put_size(out, value->sym_int);
        return at;
    }
    if (sizes == NULL || *at < '0' || *at > '9') {
        return NULL;
    }
    dim = strtoul(at, &end, 10);
    if (dim >= meta->rank || *end != ']') {
        return NULL;
    }
    put_size(out, &sizes[dim]);
    return end + 1;
}

bool exg_guard_inputs(const exg_program *program, exg_arena *arena, exg_map *inputs)
{
    const exg_graph *graph = program->graph;

    exg_map_init(inputs, arena);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];
        exg_value_id id = input->kind == EXG_ARGUMENT_TENSOR    ? input->as_tensor
                          : input->kind == EXG_ARGUMENT_SYM_INT ? input->as_sym.value
                                                                : EXG_NO_VALUE;

        if (id != EXG_NO_VALUE && graph->values[id].name != NULL &&
            !exg_map_put(inputs, graph->values[id].name, id)) {
            return false;
        }
    }
    return true;
}

/* Python's functions on sizes, by the names of the grammar. */
static const char *put_function(exg_text *out, const char *at)
{
    static const char *const names[][2] = {
        {"math.trunc(",      "TruncToInt("        },
        {"math.floor(",      "FloorToInt("        },
        {"math.ceil(",       "CeilToInt("         },
        {"math.sqrt(",       "OpaqueUnaryFn_sqrt("},
        {"torch.sym_float(", "ToFloat("           },
        {"torch.sym_int(",   "TruncToInt("        },
        {"torch.sym_max(",   "Max("               },
        {"torch.sym_min(",   "Min("               },
        {"torch.sym_not(",   "Not("               },
        {"torch._sym_sqrt(", "OpaqueUnaryFn_sqrt("},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i][0]);

        if (strncmp(at, names[i][0], length) == 0) {
            exg_text_puts(out, names[i][1]);
            return at + length;
        }
    }
    exg_text_putc(out, *at);
    return at + 1;
}

exg_status exg_guard_read(const exg_program *program, const exg_map *inputs, const char *guard,
                          exg_arena *arena, const char **text, exg_error *err)
{
    exg_text out = EXG_TEXT_EMPTY;
    char name[GUARD_PATH_MAX];
    const char *at = guard;
    exg_status status = EXG_OK;

    *text = NULL;
    while (at != NULL && *at != '\0') {
        uint32_t id;

        if (*at != 'L' || at[1] != '[') {
            at = put_function(&out, at);
            continue;
        }
        at = read_path(at, name);
        id = at == NULL ? EXG_MAP_NONE : exg_map_find(inputs, name);
        at = id == EXG_MAP_NONE ? NULL : put_property(&out, &program->graph->values[id], at);
    }
    if (at != NULL) {
        *text = out.failed ? NULL : exg_arena_strdup(arena, exg_text_string(&out));
        status = *text == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    exg_text_free(&out);
    return status;
}
