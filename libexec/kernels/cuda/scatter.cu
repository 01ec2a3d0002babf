/* scatter.cu - elements to places by index, equal places one after the other: the items, in the
 * order of their places, then say who writes and what. So the last wins and sums are
 * reproducible, as on the host.
 *
 * PUT: one place, so nothing is to be brought in order.
 * INDEX: the dtype of an index. OUT: the dtype of what is combined, with one of ADD, PROD, AMAX,
 * AMIN; ELEMENT: of what is moved.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#define NOWHERE UINT64_MAX

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
        const int64_t at = view_offset(&p.of_line, i / p.size) + i % p.size * p.stride;
        const int64_t chosen = (int64_t)LOAD(INDEX)(p.index, at);
        const int is_inside = chosen >= 0 && chosen < p.dim_size;
        cuda_item *item = (cuda_item *)p.items + i;

        if (!is_inside) {
            raise_fault(p.fault, FAULT_INDEX, chosen, p.dim_size);
        }
        item->key = is_inside ? (uint64_t)chosen : NOWHERE;
        item->index = i % p.size;
    }
}
#else

#ifdef OUT
static inline COMPUTE(OUT) combine(COMPUTE(OUT) a, COMPUTE(OUT) b)
{
#if defined(ADD)
    return a + b;
#elif defined(PROD)
    return a * b;
#elif defined(AMAX)
    return a != a || a > b ? a : b;
#else
    return a != a || a < b ? a : b;
#endif
}
#endif

KERNEL(scatter, cuda_scatter_params)
{
    FOR_EACH(i, p.lines * p.size * p.slice) {
        const int64_t w = i % p.slice;
        const int64_t at = i / p.slice;
        const int64_t line = at / p.size;
        const cuda_item *item = (const cuda_item *)p.items + at;
        const cuda_item *end = (const cuda_item *)p.items + (line + 1) * p.size;
        const uint64_t key = item->key;
        int64_t to;
        int64_t from;

        if (key == NOWHERE || (at % p.size > 0 && item[-1].key == key)) {
            continue;
        }
        to = view_offset(&p.out_line, line) + (int64_t)key * p.key_stride +
             view_offset(&p.out_inner, w);
        from = view_offset(&p.source_line, line) + view_offset(&p.source_inner, w);
#ifdef OUT
        {
            COMPUTE(OUT) sum = LOAD(OUT)(p.out, to);

            for (; item < end && item->key == key; item++) {
                const int64_t of = view_offset(&p.source_item, item->index);

                sum = ROUND_TO(OUT)(combine(sum, LOAD(OUT)(p.source, from + of)));
            }
            STORE(OUT)(p.out, to, sum);
        }
#else
        while (item + 1 < end && item[1].key == key) {
            item++;
        }
        if (p.source == NULL) {
            memcpy((ELEMENT *)p.out + to, p.element, sizeof(ELEMENT));
        } else {
            ((ELEMENT *)p.out)[to] =
                ((const ELEMENT *)p.source)[from + view_offset(&p.source_item, item->index)];
        }
#endif
    }
}
#endif
