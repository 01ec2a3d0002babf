/* weight_parts.c - which parts of the weights the ranks of a placed program read. */
#include "libexec/sharding/partitioner.h"
#include "libexport/base/require.h"

#include <string.h>

typedef struct parts {
    const exg_program *functional;
    uint32_t ranks, inputs;
    exg_partition_box *boxes; /* rank by rank, one an input each */
    exg_arena *arena;
    exg_weight_part_fn *part;
    void *user;
    exg_error *err;
} parts;

static const exg_partition_box *box_at(const parts *p, uint32_t rank, uint32_t input)
{
    return &p->boxes[(size_t)rank * p->inputs + input];
}

static bool is_same_box(const exg_partition_box *a, const exg_partition_box *b)
{
    return memcmp(a->offsets, b->offsets, sizeof(a->offsets)) == 0 &&
           memcmp(a->sizes, b->sizes, sizeof(a->sizes)) == 0 && a->count == b->count;
}

/* Does an earlier rank have it? */
static bool is_told(const parts *p, uint32_t rank, uint32_t input)
{
    for (uint32_t r = 0; r < rank; r++) {
        if (box_at(p, r, input)->read && is_same_box(box_at(p, r, input), box_at(p, rank, input))) {
            return true;
        }
    }
    return false;
}

static bool overlap(const exg_partition_box *a, const exg_partition_box *b, uint32_t dims)
{
    for (uint32_t d = 0; d < dims; d++) {
        if (a->offsets[d] + a->sizes[d] <= b->offsets[d] ||
            b->offsets[d] + b->sizes[d] <= a->offsets[d]) {
            return false;
        }
    }
    return true;
}

/* Are the boxes of the ranks several, and together all of the tensor, each element once? */
static bool is_split(const parts *p, uint32_t input, const exg_tensor_meta *meta)
{
    int64_t sum = 0;
    int64_t all = 1;
    uint32_t count = 0;

    for (uint32_t d = 0; d < meta->rank; d++) {
        all *= meta->sizes[d].value;
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        const exg_partition_box *box = box_at(p, r, input);
        int64_t volume = 1;

        if (box->whole) {
            return false;
        }
        if (!box->read || is_told(p, r, input)) {
            continue;
        }
        for (uint32_t before = 0; before < r; before++) {
            const exg_partition_box *other = box_at(p, before, input);

            if (other->read && !is_same_box(other, box) && overlap(other, box, meta->rank)) {
                return false;
            }
        }
        for (uint32_t d = 0; d < meta->rank; d++) {
            volume *= box->sizes[d];
        }
        sum += volume;
        count++;
    }
    return count > 1 && sum == all;
}

/* Where a rank reads several boxes, those of all ranks along one dim: they are made one each, as
 * long as all that the rank reads, in the order of ranks. Who has which rows is another matter
 * then, but each has as many as it reads. */
static void join_boxes(parts *p, uint32_t input)
{
    const exg_partition_box *first = box_at(p, 0, input);
    int64_t begins = 0;

    for (uint32_t r = 0; r < p->ranks; r++) {
        const exg_partition_box *box = box_at(p, r, input);

        if (box->whole || box->count < 2 || box->count != first->count || box->dim != first->dim) {
            return;
        }
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        exg_partition_box *box = &p->boxes[(size_t)r * p->inputs + input];
        int64_t length = 0;

        for (uint32_t before = 0; before < r; before++) { /* neighbours along another mesh dim */
            const exg_partition_box *other = box_at(p, before, input);

            if (memcmp(other->firsts, box->firsts, sizeof(box->firsts)) == 0) {
                memcpy(box->offsets, other->offsets, sizeof(box->offsets));
                memcpy(box->sizes, other->sizes, sizeof(box->sizes));
                length = -1;
            }
        }
        for (uint32_t k = 0; length >= 0 && k < box->count; k++) {
            length += box->lengths[k];
        }
        if (length >= 0) {
            box->offsets[box->dim] = begins;
            box->sizes[box->dim] = length;
            begins += length;
        }
    }
}

static exg_status tell(parts *p)
{
    for (uint32_t i = 0; i < p->inputs; i++) {
        const exg_argument *input = &p->functional->graph->inputs[i];
        const exg_input_spec *spec = &p->functional->signature.inputs[i];
        const exg_tensor_meta *meta = input->kind == EXG_ARGUMENT_TENSOR
                                          ? p->functional->graph->values[input->as_tensor].tensor
                                          : NULL;

        join_boxes(p, i);
        for (uint32_t r = 0;
             meta != NULL && spec->kind != EXG_INPUT_USER && is_split(p, i, meta) && r < p->ranks;
             r++) {
            const exg_partition_box *box = box_at(p, r, i);
            const exg_weight_part part = {exg_partition_input_name(spec), r, meta->rank,
                                          box->offsets, box->sizes};

            if (box->read && !is_told(p, r, i)) {
                EXG_TRY(p->part(p->user, &part, p->err));
            }
        }
    }
    return EXG_OK;
}

exg_status exg_partition_weights(const exg_program *functional, const exg_operators *operators,
                                 const exg_partition_options *options,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_weight_part_fn *part, void *user, exg_error *err)
{
    EXG_REQUIRE(err, functional, operators, mesh, part == NULL ? NULL : mesh);
    parts p = {.functional = functional,
               .ranks = 1,
               .inputs = functional->graph->input_count,
               .part = part,
               .user = user,
               .err = err};
    exg_status status = EXG_OK;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        p.ranks *= mesh->sizes[d];
    }
    p.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    p.boxes = p.arena == NULL
                  ? NULL
                  : EXG_NEW_ARRAY(p.arena, exg_partition_box, (size_t)p.ranks * p.inputs);
    status = p.boxes == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    for (uint32_t r = 0; status == EXG_OK && r < p.ranks; r++) {
        exg_program *local = NULL;

        status =
            exg_partition(functional, operators, options, goal, mesh, r, &local, NULL, NULL, err);
        status = status == EXG_OK
                     ? exg_partition_boxes(local, operators, &p.boxes[(size_t)r * p.inputs], err)
                     : status;
        exg_program_destroy(local);
    }
    status = status == EXG_OK ? tell(&p) : status;
    exg_arena_destroy(p.arena);
    return status;
}
