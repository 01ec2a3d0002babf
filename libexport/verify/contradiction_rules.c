/* contradiction_rules.c - what guards, assertions and ranges leave of a size (SYM-013): where it is
 * nothing, no call is possible. Comparisons of one symbol with one number are looked at. */
#include "libexport/base/map.h"
#include "libexport/program/expression.h"
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <string.h>

/* What a symbol may be. */
typedef struct left {
    const char *name;
    size_t length;
    int64_t least, most;
} left;

typedef struct lefts {
    exg_verifier *v;
    exg_map found; /* of a name, which of the items */
    left *items;
    uint32_t count, capacity;
} lefts;

/* symbol SIGN number */
typedef struct comparison {
    const exg_term *symbol;
    exg_function_kind sign;
    int64_t number;
} comparison;

static left *find(lefts *all, const char *name, size_t length)
{
    const char *key = exg_arena_strndup(all->v->arena, name, length);
    uint32_t index;

    if (key == NULL) {
        all->v->failed = true;
        return NULL;
    }
    index = exg_map_find(&all->found, key);
    if (index != EXG_MAP_NONE) {
        return &all->items[index];
    }
    if (!exg_map_put(&all->found, key, all->count) ||
        !exg_arena_reserve(all->v->arena, &all->items, all->count, &all->capacity,
                           sizeof(*all->items))) {
        all->v->failed = true;
        return NULL;
    }
    all->items[all->count] = (left){name, length, INT64_MIN, INT64_MAX};
    return &all->items[all->count++];
}

static exg_function_kind turned(exg_function_kind sign)
{
    return sign == EXG_FN_LE   ? EXG_FN_GE
           : sign == EXG_FN_GE ? EXG_FN_LE
           : sign == EXG_FN_LT ? EXG_FN_GT
           : sign == EXG_FN_GT ? EXG_FN_LT
                               : sign;
}

/* 3, -3, Integer(3), Integer(-3) */
static bool is_number(const exg_term *term, int64_t *number)
{
    bool negative;

    if (term->kind == EXG_TERM_CALL && term->function != NULL &&
        term->function->kind == EXG_FN_IDENTITY && term->count == 1) {
        term = term->first;
    }
    negative = term->kind == EXG_TERM_NEGATIVE;
    term = negative ? term->first : term;
    if (term->kind != EXG_TERM_NUMBER || term->overflows || term->number.is_float) {
        return false;
    }
    *number = negative ? -term->number.i : term->number.i;
    return true;
}

static bool read(const exg_expression *condition, comparison *c)
{
    const exg_term *root = condition->root;
    const exg_term *a = root == NULL ? NULL : root->first;
    const exg_term *b = a == NULL ? NULL : a->next;

    if (b == NULL || root->count != 2) {
        return false;
    }
    if (root->kind == EXG_TERM_CALL && root->function != NULL) {
        c->sign = root->function->kind;
    } else if (root->kind == EXG_TERM_CHAIN) {
        c->sign = (exg_function_kind)b->sign;
    } else {
        return false;
    }
    if (a->kind == EXG_TERM_SYMBOL && is_number(b, &c->number)) {
        c->symbol = a;
        return true;
    }
    c->symbol = b;
    c->sign = turned(c->sign);
    return b->kind == EXG_TERM_SYMBOL && is_number(a, &c->number);
}

/* Does that move an end? */
static bool take(left *l, exg_function_kind sign, int64_t number)
{
    int64_t least = l->least;
    int64_t most = l->most;

    switch (sign) {
    case EXG_FN_EQ:
        least = number;
        most = number;
        break;
    case EXG_FN_GE:
        least = number;
        break;
    case EXG_FN_LE:
        most = number;
        break;
    case EXG_FN_GT:
        least = number == INT64_MAX ? number : number + 1;
        break;
    case EXG_FN_LT:
        most = number == INT64_MIN ? number : number - 1;
        break;
    case EXG_FN_NE: /* at an end it takes that away */
        least = number == l->least ? number + (number < INT64_MAX) : least;
        most = number == l->most ? number - (number > INT64_MIN) : most;
        break;
    default:
        return false;
    }
    if (least <= l->least && most >= l->most) {
        return false;
    }
    l->least = least > l->least ? least : l->least;
    l->most = most < l->most ? most : l->most;
    return true;
}

static void take_ranges(lefts *all)
{
    const exg_program *p = all->v->program;

    for (uint32_t i = 0; i < p->range_constraint_count; i++) {
        const exg_range_constraint *range = &p->range_constraints[i];
        left *l = find(all, range->symbol, strlen(range->symbol));

        if (l != NULL && range->has_min) {
            (void)take(l, EXG_FN_GE, range->min_val);
        }
        if (l != NULL && range->has_max) {
            (void)take(l, EXG_FN_LE, range->max_val);
        }
    }
}

/* The numbers that are excluded are taken away last, and again while that moves an end. Does it? */
static bool take_conditions(lefts *all, bool excluding)
{
    bool moved = false;

    for (uint32_t i = 0; i < all->v->condition_count; i++) {
        comparison c;
        left *l;

        if (!read(&all->v->conditions[i], &c) || (c.sign == EXG_FN_NE) != excluding) {
            continue;
        }
        l = find(all, c.symbol->text, c.symbol->length);
        moved = (l != NULL && take(l, c.sign, c.number)) || moved;
    }
    return moved;
}

void exg_verify_contradictions(exg_verifier *v)
{
    lefts all = {.v = v};

    exg_map_init(&all.found, v->arena);
    take_ranges(&all);
    for (uint32_t i = 0; i < all.count; i++) {
        if (all.items[i].least > all.items[i].most) { /* SYM-004 speaks of it */
            return;
        }
    }
    (void)take_conditions(&all, false);
    while (!v->failed && take_conditions(&all, true)) {
    }
    for (uint32_t i = 0; i < all.count; i++) {
        const left *l = &all.items[i];

        if (l->least > l->most) {
            exg_found(v, "SYM-013", EXG_AT(NULL, "guards_code"),
                      "no number is left for '%.*s': at least %" PRId64 ", at most %" PRId64,
                      (int)l->length, l->name, l->least, l->most);
        }
    }
}
