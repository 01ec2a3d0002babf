/* shard.c - the weights of a program's ranks, in a file each (convert --shard). */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* A part, of the rank that writes it. */
typedef struct piece {
    exg_weight_slice slice;
    uint32_t rank;
} piece;

typedef struct sharder {
    exg_weights *weights;
    const exg_program *program;
    exg_arena *arena;
    piece *pieces;
    uint32_t count, capacity;
} sharder;

static exg_status add_piece(sharder *s, const char *name, uint32_t rank, uint32_t dims,
                            const int64_t *offsets, const int64_t *sizes, exg_error *err)
{
    size_t bytes = dims * sizeof(int64_t);
    piece made = {.slice = {exg_arena_strdup(s->arena, name), dims, NULL, NULL}, .rank = rank};
    int64_t *copy = EXG_NEW_ARRAY(s->arena, int64_t, 2 * (size_t)dims);

    if (made.slice.name == NULL || copy == NULL ||
        !exg_arena_reserve(s->arena, &s->pieces, s->count, &s->capacity, sizeof(made))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(copy, offsets, bytes);
    memcpy(copy + dims, sizes, bytes);
    made.slice.offsets = copy;
    made.slice.sizes = copy + dims;
    s->pieces[s->count++] = made;
    return EXG_OK;
}

static bool is_tied(const exg_weight *a, const exg_weight *b)
{
    bool same = a->meta != NULL && b->meta != NULL && a->storage == b->storage &&
                a->meta->rank == b->meta->rank &&
                a->meta->storage_offset.value == b->meta->storage_offset.value;

    for (uint32_t d = 0; same && d < a->meta->rank; d++) {
        same = a->meta->sizes[d].value == b->meta->sizes[d].value;
    }
    return same;
}

/* Has the file it, in the program's shape? */
static exg_status check_shape(const sharder *s, const exg_weight *own, exg_error *err)
{
    const exg_weight *given = exg_weights_find(s->weights, EXG_TABLE_STATE, own->fqn);
    bool same = given != NULL && given->meta != NULL && given->meta->rank == own->meta->rank;

    for (uint32_t d = 0; same && d < own->meta->rank; d++) {
        same = given->meta->sizes[d].value == own->meta->sizes[d].value;
    }
    return same ? EXG_OK
                : exg_error_fix(err,
                                EXG_FAIL(err, MISMATCH, "WGT-SLICE", "%s %s", own->fqn,
                                         given == NULL ? "is not in the file"
                                                       : "has another shape in the program"),
                                "exg verify FILE --for PROGRAM lists all that does not fit; "
                                "--prefix-strip, --rename and --preset change names");
}

/* Of that weight, and of those that are tied to it and have names of their own: the program reads
 * one of them. */
static exg_status take_part(void *user, const exg_weight_part *part, exg_error *err)
{
    sharder *s = user;
    const exg_weights *all = s->program->weights;
    const exg_weight *own = exg_weights_find(all, EXG_TABLE_STATE, part->fqn);

    for (uint32_t i = 0; own != NULL && i < all->count; i++) {
        const exg_weight *other = &all->items[i];

        if (other == own || (is_tied(own, other) &&
                             exg_weights_find(s->weights, EXG_TABLE_STATE, other->fqn) != NULL)) {
            EXG_TRY(check_shape(s, other, err));
            EXG_TRY(
                add_piece(s, other->fqn, part->rank, part->dims, part->offsets, part->sizes, err));
        }
    }
    return EXG_OK;
}

static exg_status place(sharder *s, const cli_program *p, const exg_session_options *options,
                        exg_error *err)
{
    exg_symbols symbols;
    exg_program *stages[3] = {NULL};
    exg_status status = exg_bind_hints(p->program, s->arena, &symbols, err);

    status = status == EXG_OK ? exg_first_segment(&p->verified, &symbols, &stages[0], NULL, err)
                              : status;
    status =
        status == EXG_OK ? exg_functionalize(stages[0], p->operators, &stages[1], err) : status;
    status = status == EXG_OK ? exg_simplify(stages[1], p->operators, &stages[2], err) : status;
    status = status == EXG_OK
                 ? exg_partition_weights(stages[2], p->operators, options->partition, options->goal,
                                         &options->mesh, take_part, s, err)
                 : status;
    for (uint32_t i = 0; i < 3; i++) {
        exg_program_destroy(stages[i]);
    }
    return status;
}

/* What is in no parts goes whole to the first. */
static exg_status add_whole(sharder *s, exg_error *err)
{
    uint32_t parts = s->count;

    for (uint32_t i = 0; i < s->weights->count; i++) {
        const exg_weight *weight = &s->weights->items[i];
        int64_t numbers[2 * EXG_SHAPE_RANK_MAX] = {0};
        bool is_there = weight->meta == NULL || weight->use_pickle;

        for (uint32_t k = 0; !is_there && k < parts; k++) {
            is_there = strcmp(s->pieces[k].slice.name, weight->fqn) == 0;
        }
        if (is_there) {
            continue;
        }
        if (weight->meta->rank > EXG_SHAPE_RANK_MAX) {
            return EXG_FAIL(err, LIMIT, "WGT-SLICE", "%s has more than %d dimensions", weight->fqn,
                            EXG_SHAPE_RANK_MAX);
        }
        for (uint32_t d = 0; d < weight->meta->rank; d++) {
            numbers[EXG_SHAPE_RANK_MAX + d] = weight->meta->sizes[d].value;
        }
        EXG_TRY(add_piece(s, weight->fqn, 0, weight->meta->rank, numbers,
                          numbers + EXG_SHAPE_RANK_MAX, err));
    }
    return EXG_OK;
}

static exg_status save(sharder *s, uint32_t ranks, const char *folder,
                       const exg_weights_save_options *options, exg_error *err)
{
    exg_weights **made = EXG_NEW_ARRAY(s->arena, exg_weights *, ranks);
    exg_weight_slice *slices = EXG_NEW_ARRAY(s->arena, exg_weight_slice, s->count);
    exg_status status = made == NULL || slices == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t r = 0; status == EXG_OK && r < ranks; r++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < s->count; i++) {
            if (s->pieces[i].rank == r) {
                slices[count++] = s->pieces[i].slice;
            }
        }
        status = exg_weights_slice(s->weights, slices, count, &made[r], err);
    }
    status = status == EXG_OK ? exg_weights_save_ranks(made, ranks, folder, options, err) : status;
    for (uint32_t r = 0; made != NULL && r < ranks; r++) {
        exg_weights_release(made[r]);
    }
    return status;
}

exg_status cli_save_shards(const cli_call *call, exg_weights *weights,
                           const exg_weights_save_options *options, exg_error *err)
{
    exg_session_options session;
    cli_placement placement;
    cli_call of_program = *call;
    cli_program p;
    sharder s = {.weights = weights};
    uint32_t ranks = 1;
    exg_status status;

    if (cli_names_ranks(call->paths[1])) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, USAGE, "CLI-006",
                     "'%s': what a program's ranks read is in files of other names",
                     call->paths[1]),
            "name a FOLDER, or FOLDER/.metadata");
    }
    of_program.paths[0] = call->needed_by;
    EXG_TRY_IN(err, cli_open_verified(&of_program, &p, err), "%s:", call->needed_by);
    s.program = p.program;
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = s.arena == NULL ? EXG_OUT_OF_MEMORY(err)
                             : cli_session_options(call, &session, &placement, err);
    if (status == EXG_OK) {
        for (uint32_t d = 0; d < session.mesh.ndim; d++) {
            ranks *= session.mesh.sizes[d];
        }
        status = place(&s, &p, &session, err);
        status = status == EXG_OK ? add_whole(&s, err) : status;
        status = status == EXG_OK ? save(&s, ranks, call->paths[1], options, err) : status;
    }
    if (s.arena != NULL) {
        cli_placement_free(&placement);
    }
    exg_arena_destroy(s.arena);
    cli_close(&p);
    return status;
}
