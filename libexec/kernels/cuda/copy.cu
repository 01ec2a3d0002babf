/* copy.cu - between two views of the same sizes, of words of LENGTH elements of BYTES each; their
 * sizes and strides count words. Where memory is not aligned as words are, element by element.
 * TWO: two such copies, of one result.
 */
#include "libexec/kernels/cuda/common.h"
#include "libexec/kernels/cuda/params.h"

#define WORD (BYTES * LENGTH)

#ifdef TWO
/* Each by a row of blocks. */
#define PARAMS  cuda_copies_params
#define COPY(p) (p).copies[BLOCK_Y]
#else
#define PARAMS  cuda_copy_params
#define COPY(p) (p)
#endif

KERNEL(copy, PARAMS)
{
    const cuda_copy_params *c = &COPY(p);
    const int is_aligned = ((uint64_t)c->in | (uint64_t)c->out) % WORD == 0;

    FOR_EACH(i, c->numel) {
        move_vector((char *)c->out + view_offset(&c->to, i) * WORD,
                    (const char *)c->in + view_offset(&c->from, i) * WORD, BYTES, LENGTH, LENGTH,
                    is_aligned);
    }
}
