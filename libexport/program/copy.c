/* copy.c - a program again, in an arena of its own; weights are shared. */
#include "libexport/base/require.h"
#include <exg/program.h>

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/program/model.h"

#include <exg/weights.h>
#include <string.h>

/* Strings repeat (targets, names, devices): each is copied once. Memory faults
 * stick; whoever copies a pointer gets NULL and goes on. */
typedef struct copier {
    exg_arena *arena;
    exg_arena *scratch;
    exg_map strings; /* text -> index into kept */
    const char **kept;
    uint32_t count, capacity;
    bool failed;
} copier;

/* The bytes of an array; pointers inside still lead to the original. */
static void *again(copier *c, exg_model_items items)
{
    void *block;

    if (items.at == NULL) {
        return NULL;
    }
    block = exg_arena_alloc(c->arena, items.count, exg_models[items.type].size);
    c->failed = c->failed || block == NULL;
    if (c->failed) {
        return NULL;
    }
    return items.count == 0
               ? block
               : memcpy(block, items.at, (size_t)items.count * exg_models[items.type].size);
}

static const char *text(copier *c, const char *string)
{
    uint32_t index = exg_map_find(&c->strings, string);

    if (string == NULL) {
        return NULL;
    }
    if (index != EXG_MAP_NONE) {
        return c->kept[index];
    }
    if (!exg_arena_reserve(c->scratch, &c->kept, c->count, &c->capacity, sizeof(*c->kept))) {
        c->failed = true;
        return NULL;
    }
    c->kept[c->count] = exg_arena_strdup(c->arena, string);
    if (c->kept[c->count] == NULL || !exg_map_put(&c->strings, string, c->count)) {
        c->failed = true;
        return NULL;
    }
    return c->kept[c->count++];
}

/* Items hold the original's bytes; what they point to is replaced by copies. */
static void copy_items(copier *c, exg_model_items items);

/* What a member, or an argument, has at `at`: itself, or a pointer to it. */
static void copy_held(copier *c, exg_model_items items, void *at)
{
    if (items.form != EXG_MODEL_ONE) {
        items.at = again(c, items);
        memcpy(at, &items.at, sizeof(items.at));
    }
    if (items.at != NULL) {
        copy_items(c, items);
    }
}

static void copy_text(copier *c, void *at)
{
    const char *string;

    memcpy(&string, at, sizeof(string));
    string = text(c, string);
    memcpy(at, &string, sizeof(string));
}

static void copy_item(copier *c, exg_model_type type, void *at)
{
    const exg_model *model = &exg_models[type];

    switch (type) {
    case EXG_MODEL_TEXT:
    case EXG_MODEL_TARGET:
        copy_text(c, at);
        return;
    case EXG_MODEL_ARGUMENT:
        copy_held(c, exg_argument_items(at), &((exg_argument *)at)->as_int);
        return;
    case EXG_MODEL_SIGNATURE_VALUE:
        copy_items(c, exg_signature_constant(at));
        return;
    case EXG_MODEL_SAMPLE_VALUE:
        copy_items(c, exg_sample_constant(at));
        return;
    default:
        for (uint32_t m = 0; m < model->member_count; m++) {
            copy_held(c, exg_model_items_of(&model->members[m], at),
                      (char *)at + model->members[m].offset);
        }
        return;
    }
}

static void copy_items(copier *c, exg_model_items items)
{
    for (uint32_t i = 0; i < items.count; i++) {
        copy_item(c, items.type, exg_model_item(items, i));
    }
}

static void copy_into(copier *c, exg_program *to, const exg_program *from)
{
    exg_program shell = *to; /* what creation made: arena, weights */

    *to = *from;
    to->arena = shell.arena;
    to->weights = shell.weights;
    copy_item(c, EXG_MODEL_PROGRAM, to);
}

exg_status exg_program_copy(const exg_program *program, exg_program **copy, exg_error *err)
{
    EXG_REQUIRE(err, program, copy);
    copier c = {.scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};
    exg_program *made = NULL;
    exg_status status;

    *copy = NULL;
    if (c.scratch == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status =
        exg_program_create(exg_arena_allocator(program->arena), EXG_ARENA_UNBOUNDED, &made, err);
    if (status == EXG_OK) {
        exg_weights_release(made->weights);
        made->weights = exg_weights_retain(program->weights);
        c.arena = made->arena;
        exg_map_init(&c.strings, c.scratch);
        copy_into(&c, made, program);
        if (c.failed) {
            status = EXG_OUT_OF_MEMORY(err);
        }
    }
    exg_arena_destroy(c.scratch);
    if (status != EXG_OK) {
        exg_program_destroy(made);
        return status;
    }
    *copy = made;
    return EXG_OK;
}

exg_status exg_argument_copy(exg_arena *arena, exg_argument *arg, exg_error *err)
{
    EXG_REQUIRE(err, arena, arg);
    copier c = {.arena = arena, .scratch = arena};

    exg_map_init(&c.strings, arena);
    copy_item(&c, EXG_MODEL_ARGUMENT, arg);
    return c.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
