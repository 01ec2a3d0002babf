/* einsum.c - einsum, a lowering of contraction.def: of what an equation names, products of two, one
 * after the other. */
#include "libexport/operators/lower.h"

#include <ctype.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/contraction.def"
#include "libexport/operators/rows.h"

#define LABELS 64 /* letters, then the dims an ellipsis stands for */

typedef struct labelled {
    exg_ref x;
    uint8_t label[EXG_SHAPE_RANK_MAX];
    uint32_t rank;
} labelled;

static uint32_t letter(char c)
{
    return c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') : 26 + (uint32_t)(c - 'A');
}

#define ELLIPSIS 52 /* labels from here on */

/* Reads one operand's labels; "..." is the `wide` last of the broadcast dims. */
static bool read_labels(const char **text, uint32_t wide, uint32_t most, labelled *made)
{
    const char *c = *text;

    made->rank = 0;
    for (; *c != '\0' && *c != ',' && strncmp(c, "->", 2) != 0; c++) {
        if (*c == ' ') {
            continue;
        }
        if (strncmp(c, "...", 3) == 0) {
            for (uint32_t i = 0; i < wide && made->rank < EXG_SHAPE_RANK_MAX; i++) {
                made->label[made->rank++] = (uint8_t)(ELLIPSIS + most - wide + i);
            }
            c += 2;
        } else if (isalpha((unsigned char)*c) && made->rank < EXG_SHAPE_RANK_MAX) {
            made->label[made->rank++] = (uint8_t)letter(*c);
        } else {
            return false;
        }
    }
    *text = c;
    return true;
}

/* Letters an operand's text names. */
static uint32_t letters_in(const char *c)
{
    uint32_t count = 0;

    for (; *c != '\0' && *c != ',' && strncmp(c, "->", 2) != 0; c++) {
        count += isalpha((unsigned char)*c) != 0;
    }
    return count;
}

static int find_label(const labelled *l, uint8_t label)
{
    for (uint32_t d = 0; d < l->rank; d++) {
        if (l->label[d] == label) {
            return (int)d;
        }
    }
    return -1;
}

/* A label twice means the diagonal. */
static void take_diagonals(exg_builder *b, labelled *l)
{
    for (uint32_t d = 0; d < l->rank; d++) {
        for (uint32_t e = d + 1; e < l->rank; e++) {
            if (l->label[d] == l->label[e]) {
                uint8_t label = l->label[d];

                l->x = EMIT(b, diagonal_default, l->x, 0, (int)d, (int)e);
                memmove(&l->label[e], &l->label[e + 1], l->rank - e - 1);
                memmove(&l->label[d], &l->label[d + 1], l->rank - d - 2);
                l->rank--;
                l->label[l->rank - 1] = label; /* diagonals come last */
                d = UINT32_MAX;
                break;
            }
        }
    }
}

/* Dims in the order of `labels`; those it has not are made, of size 1. */
static exg_ref ordered(exg_builder *b, const labelled *l, const uint8_t *labels, uint32_t count)
{
    int64_t order[EXG_SHAPE_RANK_MAX];
    exg_dims in = exg_lower_dims(b, l->x);
    exg_dims out = {.rank = count};
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++) {
        int at = find_label(l, labels[i]);

        out.n[i] = at < 0 ? 1 : in.n[at];
        if (at >= 0) {
            order[next++] = at;
        }
    }
    return exg_lower_shaped(b, EMIT(b, permute_default, l->x, INTS_OF(b, order, next)), &out);
}

static void sum_out(exg_builder *b, labelled *l, const bool *needed)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;
    uint32_t kept = 0;

    for (uint32_t d = 0; d < l->rank; d++) {
        if (needed[l->label[d]]) {
            l->label[kept++] = l->label[d];
        } else {
            dims[count++] = d;
        }
    }
    l->x = count > 0 ? EMIT(b, sum_dim_IntList, l->x, INTS_OF(b, dims, count)) : l->x;
    l->rank = kept;
}

/* Before a product with `other`: dims of size 1 beside longer ones go, what `other` has not and
 * nobody needs is summed. */
static void leave_shared(exg_builder *b, labelled *l, const labelled *other, const bool *needed)
{
    exg_dims own = exg_lower_dims(b, l->x);
    exg_dims beside = exg_lower_dims(b, other->x);
    int64_t sums[EXG_SHAPE_RANK_MAX];
    int64_t gone[EXG_SHAPE_RANK_MAX];
    uint32_t sum_count = 0;
    uint32_t gone_count = 0;
    uint32_t kept = 0;

    for (uint32_t d = 0; d < l->rank; d++) {
        uint8_t label = l->label[d];
        int at = find_label(other, label);
        bool is_alone = at < 0 || (beside.n[at] == 1 && own.n[d] != 1);
        bool is_spread = at >= 0 && own.n[d] == 1 && beside.n[at] != 1;

        if (is_alone && !needed[label]) {
            sums[sum_count++] = d;
        }
        if (is_spread || (is_alone && !needed[label])) {
            gone[gone_count++] = d;
        } else {
            l->label[kept++] = label;
        }
    }
    if (sum_count > 0) {
        l->x = EMIT(b, sum_dim_IntList, l->x, INTS_OF(b, sums, sum_count), true);
    }
    if (gone_count > 0) {
        l->x = EMIT(b, squeeze_dims, l->x, INTS_OF(b, gone, gone_count));
    }
    l->rank = kept;
}

/* The labels of both in the order of the larger one's dims, so that it need not be moved: those of
 * a product's batch, rows and depth are views of it wherever they are side by side. */
static uint32_t sequence_of(const labelled *large, const labelled *small, uint8_t *sequence)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < large->rank; d++) {
        sequence[count++] = large->label[d];
    }
    for (uint32_t d = 0; d < small->rank; d++) {
        if (find_label(large, small->label[d]) < 0) {
            sequence[count++] = small->label[d];
        }
    }
    return count;
}

typedef struct label_group {
    uint8_t labels[LABELS];
    uint32_t count;
    int64_t size; /* of all together */
} label_group;

#define COLUMNS_MIN 8 /* of a product that is worth its own */

/* Labels that one operand alone has and that lie in it on both sides of its depth, as in "edf" of
 * "nd,edf->enf", are no view as one dim: it would be copied, and often is the weights of experts.
 * Those before the depth are made a batch instead, in which the other operand is the same each
 * time. */
static void leave_apart(exg_builder *b, const labelled *l, const label_group *depth,
                        label_group *own, label_group *batch)
{
    exg_dims dims = exg_lower_dims(b, l->x);
    label_group before = {.size = 1};
    label_group behind = {.size = 1};

    for (uint32_t i = 0; i < own->count; i++) {
        int at = find_label(l, own->labels[i]);
        bool is_before = true;

        for (uint32_t k = 0; k < depth->count; k++) {
            is_before = is_before && at < find_label(l, depth->labels[k]);
        }
        label_group *side = is_before ? &before : &behind;

        side->labels[side->count++] = own->labels[i];
        side->size *= dims.n[at];
    }
    if (batch->count == 0 && depth->count > 0 && before.size > 1 && behind.size >= COLUMNS_MIN) {
        *batch = before;
        *own = behind;
    }
}

/* Dims in the order of the groups, as a matrix of each of the batch. */
static exg_ref as_matrices(exg_builder *b, const labelled *l, const label_group *batch,
                           const label_group *rows, const label_group *columns)
{
    const label_group *const groups[] = {batch, rows, columns};
    uint8_t order[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;
    bool is_repeated = batch->count > 0 && find_label(l, batch->labels[0]) < 0;
    exg_ref x;

    for (uint32_t g = is_repeated; g < 3; g++) {
        memcpy(order + count, groups[g]->labels, groups[g]->count);
        count += groups[g]->count;
    }
    x = EMIT(b, reshape_default, ordered(b, l, order, count),
             INTS(b, is_repeated ? 1 : batch->size, rows->size, columns->size));
    return is_repeated ? EMIT(b, expand_default, x, INTS(b, batch->size, rows->size, columns->size))
                       : x;
}

/* The product of two, summed over what nobody needs any more, as one bmm: shared and
 * needed labels are its batch, shared ones not needed its depth. */
static labelled multiplied(exg_builder *b, labelled *l, labelled *r, const bool *needed)
{
    const labelled whole = *l;
    uint8_t sequence[2 * EXG_SHAPE_RANK_MAX];
    label_group group[4] = {{.size = 1}, {.size = 1}, {.size = 1}, {.size = 1}};
    label_group *batch = &group[0];
    label_group *rows = &group[1];
    label_group *columns = &group[2];
    label_group *depth = &group[3];
    exg_dims left;
    exg_dims right;
    exg_dims out = {.rank = 0};
    labelled made = {.rank = 0};
    exg_ref x;
    exg_ref y;
    uint32_t n;

    leave_shared(b, l, r, needed);
    leave_shared(b, r, &whole, needed);
    left = exg_lower_dims(b, l->x);
    right = exg_lower_dims(b, r->x);
    n = exg_lower_numel(b, l->x) >= exg_lower_numel(b, r->x) ? sequence_of(l, r, sequence)
                                                             : sequence_of(r, l, sequence);
    for (uint32_t at = 0; at < n; at++) {
        const uint8_t label = sequence[at];
        int i = find_label(l, label);
        int j = find_label(r, label);
        label_group *of = &group[j < 0 ? 1 : i < 0 ? 2 : needed[label] ? 0 : 3];

        of->labels[of->count++] = label;
        of->size *= i >= 0 ? left.n[i] : right.n[j];
    }
    leave_apart(b, r, depth, columns, batch);
    leave_apart(b, l, depth, rows, batch);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < group[k].count; i++) {
            int at = find_label(l, group[k].labels[i]);

            made.label[made.rank++ % EXG_SHAPE_RANK_MAX] = group[k].labels[i];
            out.n[out.rank++ % EXG_SHAPE_RANK_MAX] =
                at >= 0 ? left.n[at] : right.n[find_label(r, group[k].labels[i])];
        }
    }
    if (made.rank > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "einsum: too many dims");
        return *l;
    }
    x = as_matrices(b, l, batch, rows, depth);
    y = as_matrices(b, r, batch, depth, columns);
    made.x = exg_lower_shaped(b, EMIT(b, bmm_default, x, y), &out);
    return made;
}

/* The output's labels when the equation names none: the ellipsis, then letters that are
 * there once, by the alphabet (capitals first). */
static void implied_output(const labelled *operands, uint32_t count, uint32_t wide, labelled *out)
{
    uint32_t seen[LABELS] = {0};

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < operands[i].rank; d++) {
            seen[operands[i].label[d]]++;
        }
    }
    out->rank = 0;
    for (uint32_t i = 0; i < wide; i++) {
        out->label[out->rank++] = (uint8_t)(ELLIPSIS + i);
    }
    for (uint32_t k = 0; k < 52; k++) {
        uint32_t label = k < 26 ? 26 + k : k - 26;

        if (seen[label] == 1 && out->rank < EXG_SHAPE_RANK_MAX) {
            out->label[out->rank++] = (uint8_t)label;
        }
    }
}

static bool read_equation(exg_builder *b, const exg_argument *args, labelled *operands,
                          labelled *out)
{
    const char *text = args[0].as_string;
    uint32_t count = args[1].count;
    uint32_t most = 0;
    uint32_t wide[32];
    const char *c = text;

    for (uint32_t i = 0; i < count; i++) { /* first how wide each ellipsis is */
        uint32_t rank = exg_lower_dims(b, exg_lower_item(&args[1], i)).rank;
        uint32_t named = letters_in(c);

        wide[i] = rank > named ? rank - named : 0;
        most = wide[i] > most ? wide[i] : most;
        c += strcspn(c, ",");
        c += *c == ',' && i + 1 < count;
    }
    if (most > LABELS - ELLIPSIS) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        operands[i].x = exg_lower_item(&args[1], i);
        if (!read_labels(&text, wide[i], most, &operands[i]) ||
            operands[i].rank != exg_lower_dims(b, operands[i].x).rank ||
            (*text == ',') != (i + 1 < count)) {
            return false;
        }
        text += *text == ',';
    }
    if (strncmp(text, "->", 2) != 0) {
        implied_output(operands, count, most, out);
        return *text == '\0';
    }
    text += 2;
    return read_labels(&text, most, most, out) && *text == '\0';
}

/* Operands from left to right. */
void exg_lower_einsum(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = args[1].count;
    labelled operands[32];
    labelled out;
    labelled x;

    if (count == 0 || count > 32 || !read_equation(b, args, operands, &out)) {
        exg_lower_refuse(b, "einsum: the equation does not fit its operands");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        take_diagonals(b, &operands[i]);
    }
    x = operands[0];
    for (uint32_t i = 0; i < count; i++) {
        bool needed[LABELS] = {false};

        for (uint32_t d = 0; d < out.rank; d++) {
            needed[out.label[d]] = true;
        }
        for (uint32_t k = i + 1; k < count; k++) {
            for (uint32_t d = 0; d < operands[k].rank; d++) {
                needed[operands[k].label[d]] = true;
            }
        }
        if (i == 0) {
            sum_out(b, &x, needed);
            continue;
        }
        x = multiplied(b, &x, &operands[i], needed);
    }
    results[0] = exg_arg_ref(ordered(b, &x, out.label, out.rank));
}
