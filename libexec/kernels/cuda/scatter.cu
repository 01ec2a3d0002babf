/* scatter.cu - elements to places by index, equal places one after the other: the items, in the
 * order of their places, then say who writes and what. So the last wins and sums are
 * reproducible, as on the host.
 *
 * Where elements are combined a thread goes over a piece of the items. What a run of equal places
 * in it comes to it writes, unless the run goes over an end of the piece: then that is a part,
 * which is combined with those of the next pieces in the same way, until one piece is left.
 *
 * PUT: one place, so nothing is to be brought in order. WIDE: item.h.
 * INDEX: the dtype of an index. OUT: the dtype of what is combined, with one of ADD, PROD, AMAX,
 * AMIN; ELEMENT: of what is moved.
 */
#include "libexec/kernels/cuda/item.h"

#if defined(PUT)
KERNEL(put, cuda_put_params)
{
    FOR_EACH(w, p.slice) {
        int64_t to = view_offset(&p.out_inner, w);
        int is_inside = 1;

        for (int64_t n = 0; n < p.count; n++) {
            const int64_t given = p.is_narrow[n] ? (int64_t)*(const int32_t *)p.indices[n]
                                                 : *(const int64_t *)p.indices[n];
            const int64_t chosen = given < 0 && p.wraps ? given + p.sizes[n] : given;

            if (chosen < 0 || chosen >= p.sizes[n]) {
                raise_fault(p.fault, FAULT_INDEX, given, p.sizes[n]);
                is_inside = 0;
            }
            to += chosen * p.strides[n];
        }
        if (is_inside) {
            ((ELEMENT *)p.out)[to] =
                ((const ELEMENT *)p.source)[view_offset(&p.source_inner, w)];
        }
    }
}
#elif defined(INDEX)
KERNEL(place, cuda_place_params)
{
    FOR_EACH(i, p.lines * p.size) {
        const int64_t line = quotient(i, p.size);
        const int64_t at = view_offset(&p.of_line, line) + (i - line * p.size) * p.stride;
        const int64_t chosen = (int64_t)LOAD(INDEX)(p.index, at);
        const int is_inside = chosen >= 0 && chosen < p.dim_size;
        order_item *item = (order_item *)p.items + i;

        if (!is_inside) {
            raise_fault(p.fault, FAULT_INDEX, chosen, p.dim_size);
        }
        item->key = is_inside ? (order_key)chosen : NOWHERE;
        item->index = i - line * p.size;
    }
}
#elif defined(OUT)
typedef COMPUTE(OUT) real;

static inline real combined(real a, real b)
{
#if defined(ADD)
    return ROUND_TO(OUT)(a + b);
#elif defined(PROD)
    return ROUND_TO(OUT)(a * b);
#elif defined(AMAX)
    return a != a || a > b ? a : b;
#else
    return a != a || a < b ? a : b;
#endif
}

/* A piece of a line, of element w of the slices. */
typedef struct piece_of_line {
    int64_t line, w;
    int64_t piece; /* of all lines */
    int64_t first, end;
} piece_of_line;

static inline piece_of_line piece_at(const cuda_scatter_params *p, int64_t i)
{
    const int64_t piece = quotient(i, p->slice);
    const int64_t line = quotient(piece, p->pieces);
    const int64_t first = (piece - line * p->pieces) * PIECE;
    const piece_of_line found = {line, i - piece * p->slice, piece, first,
                                 first + PIECE < p->size ? first + PIECE : p->size};

    return found;
}

static inline int64_t place_of(const cuda_scatter_params *p, const piece_of_line *at, order_key key)
{
    return view_offset(&p->out_line, at->line) + (int64_t)key * p->key_stride +
           view_offset(&p->out_inner, at->w);
}

/* What a run in the piece comes to. */
static inline void leave(const cuda_scatter_params *p, const piece_of_line *at, order_key key,
                         real sum, int begins_here, int goes_on)
{
    const int64_t part = 2 * at->piece + begins_here;

    if (begins_here && !goes_on) {
        STORE(OUT)(p->out, place_of(p, at, key), sum);
        return;
    }
    ((order_key *)p->part_keys)[part] = key;
    ((real *)p->parts)[part * p->slice + at->w] = sum;
}

static inline void begin_parts(const cuda_scatter_params *p, const piece_of_line *at)
{
    if (p->pieces > 1 && at->w == 0) {
        ((order_key *)p->part_keys)[2 * at->piece] = NOWHERE;
        ((order_key *)p->part_keys)[2 * at->piece + 1] = NOWHERE;
    }
}
#ifdef PARTS
/* The first part of a piece goes on with a run of the piece before it, the second begins one, which
 * has what was in its place. */
KERNEL(scatter_join, cuda_scatter_params)
{
    FOR_EACH(i, p.lines * p.pieces * p.slice) {
        const piece_of_line at = piece_at(&p, i);
        const order_key *keys = (const order_key *)p.from_keys + at.line * p.size;
        const real *parts = (const real *)p.from + at.line * p.size * p.slice + at.w;
        order_key key = NOWHERE;
        int begins_here = 0;
        real sum = 0;

        begin_parts(&p, &at);
        for (int64_t k = at.first; k < at.end; k++) {
            if (keys[k] == NOWHERE) {
                continue;
            }
            if (keys[k] == key) {
                sum = combined(sum, parts[k * p.slice]);
                continue;
            }
            if (key != NOWHERE) {
                leave(&p, &at, key, sum, begins_here, 0);
            }
            key = keys[k];
            begins_here = k % 2;
            sum = parts[k * p.slice];
        }
        if (key != NOWHERE) {
            leave(&p, &at, key, sum, begins_here, at.end < p.size && keys[at.end] == key);
        }
    }
}
#else
KERNEL(scatter_combine, cuda_scatter_params)
{
    FOR_EACH(i, p.lines * p.pieces * p.slice) {
        const piece_of_line at = piece_at(&p, i);
        const order_item *items = (const order_item *)p.items + at.line * p.size;
        const int64_t from =
            view_offset(&p.source_line, at.line) + view_offset(&p.source_inner, at.w);
        order_key key = NOWHERE;
        int begins_here = 0;
        real sum = 0;

        begin_parts(&p, &at);
        for (int64_t k = at.first; k < at.end && items[k].key != NOWHERE; k++) {
            const real x = LOAD(OUT)(p.source, from + view_offset(&p.source_item, items[k].index));

            if (items[k].key == key) {
                sum = combined(sum, x);
                continue;
            }
            if (key != NOWHERE) {
                leave(&p, &at, key, sum, begins_here, 0);
            }
            key = items[k].key;
            begins_here = k == 0 || items[k - 1].key != key;
            sum = begins_here ? combined(LOAD(OUT)(p.out, place_of(&p, &at, key)), x) : x;
        }
        if (key != NOWHERE) {
            leave(&p, &at, key, sum, begins_here, at.end < p.size && items[at.end].key == key);
        }
    }
}
#endif
#else
KERNEL(scatter, cuda_scatter_params)
{
    FOR_EACH(i, p.lines * p.size * p.slice) {
        const int64_t at = quotient(i, p.slice);
        const int64_t w = i - at * p.slice;
        const int64_t line = quotient(at, p.size);
        const order_item *item = (const order_item *)p.items + at;
        int64_t to;

        if (item->key == NOWHERE || (at + 1 < (line + 1) * p.size && item[1].key == item->key)) {
            continue;
        }
        to = view_offset(&p.out_line, line) + (int64_t)item->key * p.key_stride +
             view_offset(&p.out_inner, w);
        if (p.source == NULL) {
            memcpy((ELEMENT *)p.out + to, p.element, sizeof(ELEMENT));
        } else {
            const int64_t from = view_offset(&p.source_line, line) +
                                 view_offset(&p.source_inner, w) +
                                 view_offset(&p.source_item, item->index);

            ((ELEMENT *)p.out)[to] = ((const ELEMENT *)p.source)[from];
        }
    }
}
#endif
