/* index.cu - elements chosen by index tensors. INDEX: their dtype (of pick and gather). An
 * index outside its dimension raises INDEX and gives zero. ELEMENT: of what is read.
 */
#include "libexec/kernels/cuda/item.h"

#ifdef ELEMENT
static inline ELEMENT element_or_zero(const void *memory, int64_t at, int is_inside)
{
    ELEMENT x;

    memset(&x, 0, sizeof(x));
    if (is_inside) {
        x = ((const ELEMENT *)memory)[at];
    }
    return x;
}
#endif

#ifdef BYTES
#define WORD (BYTES * LENGTH)

/* Of words of LENGTH elements of BYTES each, which sizes count. */
KERNEL(pick, cuda_pick_params)
{
    static const ALIGNED_16 char zeros[WORD] = {0};
    const int is_aligned = ((uint64_t)p.self | (uint64_t)p.out) % WORD == 0;

    FOR_EACH(i, p.numel) {
        const int64_t row = quotient(i, p.inner);
        const int64_t outer = quotient(row, p.count);
        const int64_t chosen = (int64_t)LOAD(INDEX)(p.index, row - outer * p.count);
        const int is_inside = chosen >= 0 && chosen < p.size;
        const int64_t at = (outer * p.size + chosen) * p.inner + i - row * p.inner;

        if (!is_inside) {
            raise_fault(p.fault, FAULT_INDEX, chosen, p.size);
        }
        move_vector((char *)p.out + i * WORD, is_inside ? (const char *)p.self + at * WORD : zeros,
                    BYTES, LENGTH, LENGTH, is_aligned);
    }
}

#elif defined(INDEX)
KERNEL(gather, cuda_gather_params)
{
    FOR_EACH(i, p.numel) {
        const int64_t chosen = (int64_t)LOAD(INDEX)(p.index, view_offset(&p.of_index, i));
        const int is_inside = chosen >= 0 && chosen < p.dim_size;

        if (!is_inside) {
            raise_fault(p.fault, FAULT_INDEX, chosen, p.dim_size);
        }
        ((ELEMENT *)p.out)[i] =
            element_or_zero(p.self, view_offset(&p.of_self, i) + chosen * p.dim_stride,
                            is_inside);
    }
}
#else
/* Where the indices of element i of the result point, elements of self; with what the other
 * dimensions add. *is_inside: none is outside its dimension. */
static inline int64_t offset_of(const cuda_index_params *p, int64_t i, int *is_inside)
{
    int64_t at[CUDA_RANK_MAX];
    int64_t rest = i;
    int64_t self = 0;

    *is_inside = 1;
    for (int64_t d = p->rank - 1; d >= 0; d--) {
        at[d] = rest % p->result[d];
        rest /= p->result[d];
        self += at[d] * p->self_strides[d];
    }
    for (int64_t n = 0; n < p->count; n++) {
        int64_t where = 0;
        int64_t given;
        int64_t chosen;

        for (int64_t d = 0; d < p->rank; d++) {
            where += at[d] * p->index_strides[n][d];
        }
        given = p->is_narrow[n] ? (int64_t)((const int32_t *)p->indices[n])[where]
                                : ((const int64_t *)p->indices[n])[where];
        chosen = given < 0 ? given + p->sizes[n] : given;
        if (chosen < 0 || chosen >= p->sizes[n]) {
            raise_fault(p->fault, FAULT_INDEX, given, p->sizes[n]);
            *is_inside = 0;
        }
        self += chosen * p->strides[n];
    }
    return self;
}

#ifdef ELEMENT
KERNEL(index_many, cuda_index_params)
{
    FOR_EACH(i, p.numel) {
        int is_inside;
        const int64_t self = offset_of(&p, i, &is_inside);

        ((ELEMENT *)p.out)[i] = element_or_zero(p.self, self, is_inside);
    }
}
#else
/* For scatter.cu: the result is the positions, out their items. */
KERNEL(index_places, cuda_index_params)
{
    FOR_EACH(i, p.numel) {
        int is_inside;
        const int64_t self = offset_of(&p, i, &is_inside);
        order_item *item = (order_item *)p.out + i;

        item->key = is_inside ? (order_key)self : NOWHERE;
        item->index = i;
    }
}
#endif
#endif
