/* unset.c - optional arguments that no case of the corpus sets to anything but their default. What
 * never is may be dropped without a word; each is in unset.txt with the reason, and that only
 * shrinks. Rows that stand for another operator are export_same's. */
#include "tests/exec/corpus/corpus.h"

#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 32

#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)
#define EXG_VIEW(id, schema, view, lowering, sharding)
#define EXG_SAME(id, schema, as)    EXG_OP_##id,
#define EXG_COPY(id, as)            EXG_OP_##id,
#define EXG_INPLACE(id, functional) EXG_OP_##id,
#define EXG_OUT(id, as)             EXG_OP_##id,
#define EXG_EACH(id, schema, as)    EXG_OP_##id,
static const exg_operator_id stand_ins[] = {
#include "libexport/operators/foreach.def"
#include "libexport/operators/inplace.def"
#include "libexport/operators/out.def"
#include "libexport/operators/prims.def"
#include "libexport/operators/random.def"
#include "libexport/operators/same.def"
};

static bool is_of_corpus(const exg_operator *op)
{
    bool is = op->symbolic == NULL && strcmp(op->schema->name_space, "exg") != 0;

    for (size_t i = 0; i < sizeof(stand_ins) / sizeof(stand_ins[0]); i++) {
        is = is && stand_ins[i] != op->id;
    }
    return is;
}

static bool is_optional(const exg_schema_argument *parameter)
{
    return parameter->has_default || parameter->type.is_optional;
}

static bool is_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_FLOAT ||
           arg->kind == EXG_ARGUMENT_BOOL;
}

/* A list of one number may stand for as many as there are. */
static bool are_ints(const exg_argument *arg, const exg_argument *as)
{
    bool same = arg->kind == EXG_ARGUMENT_INTS;

    for (uint32_t i = 0; same && i < arg->count; i++) {
        same = as->kind == EXG_ARGUMENT_INT ? arg->as_ints[i] == as->as_int
                                            : i < as->count && arg->as_ints[i] == as->as_ints[i];
    }
    return same;
}

static bool is_default(const exg_schema_argument *parameter, const exg_argument *arg)
{
    const exg_argument *as = &parameter->default_value;

    if (!parameter->has_default || exg_is_none(as)) {
        return exg_is_none(arg);
    }
    switch (as->kind) {
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
        return is_number(arg) ? exg_get_float(arg) == exg_get_float(as) : are_ints(arg, as);
    case EXG_ARGUMENT_STRING:
        return arg->kind == EXG_ARGUMENT_STRING && strcmp(arg->as_string, as->as_string) == 0;
    case EXG_ARGUMENT_SCALAR_TYPE:
        return arg->kind == EXG_ARGUMENT_SCALAR_TYPE && arg->as_scalar_type == as->as_scalar_type;
    case EXG_ARGUMENT_INTS:
        return are_ints(arg, as) && arg->count == as->count;
    default:
        return false;
    }
}

void mark_arguments(const exg_program *program, const exg_operators *operators, uint32_t *set)
{
    exg_argument args[ARGUMENTS_MAX];
    exg_error err;

    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        const exg_node *node = &program->graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);

        if (op == NULL || op->schema->argument_count > ARGUMENTS_MAX ||
            exg_operator_normalize(op, node, args, &err) != EXG_OK) {
            continue;
        }
        for (uint32_t i = 0; i < op->schema->argument_count; i++) {
            bool is_set = !is_default(&op->schema->arguments[i], &args[i]);

            set[op->id] |= (uint32_t)is_set << i;
        }
    }
}

/* ---- those that need not be ----------------------------------------------------------------- */

typedef struct exemption {
    char target[120], argument[40];
    bool used;
} exemption;

static bool matches(const char *pattern, const char *target)
{
    size_t length = strlen(pattern);

    return length > 0 && pattern[length - 1] == '*' ? strncmp(pattern, target, length - 1) == 0
                                                    : strcmp(pattern, target) == 0;
}

static bool is_exempt(exemption *list, uint32_t count, const char *target, const char *argument)
{
    bool is = false;

    for (uint32_t i = 0; i < count; i++) {
        if (matches(list[i].target, target) && matches(list[i].argument, argument)) {
            list[i].used = is = true;
        }
    }
    return is;
}

/* "target argument reason" a line; both may end in *. */
static uint32_t read_exemptions(const char *path, exemption *list, uint32_t capacity)
{
    FILE *file = fopen(path, "rb");
    uint32_t count = 0;
    char line[300];
    int used = 0;

    while (file != NULL && count < capacity && fgets(line, sizeof(line), file) != NULL) {
        exemption *e = &list[count];

        *e = (exemption){.used = false};
        if (line[0] != '#' && sscanf(line, "%119s %39s %n", e->target, e->argument, &used) == 2 &&
            line[used] != '\0') {
            count++;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

uint32_t count_unset_arguments(const exg_operators *operators, const uint32_t *set)
{
    static exemption exempt[400];
    const uint32_t count = read_exemptions("tests/exec/corpus/unset.txt", exempt, 400);
    uint32_t wrong = 0;

    for (uint32_t id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(operators, id);
        const char *target = op->target + (strncmp(op->target, "torch.ops.", 10) == 0 ? 10 : 0);

        for (uint32_t i = 0; is_of_corpus(op) && i < op->schema->argument_count; i++) {
            const char *name = op->schema->arguments[i].name;

            if (is_optional(&op->schema->arguments[i]) && (set[id] >> i & 1) == 0 &&
                !is_exempt(exempt, count, target, name)) {
                printf("%s %s is set in no case\n", target, name);
                wrong++;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!exempt[i].used) {
            printf("%s %s is in unset.txt, and set\n", exempt[i].target, exempt[i].argument);
            wrong++;
        }
    }
    return wrong;
}
