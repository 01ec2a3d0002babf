/* matrix.h - a warp's matrix unit: tiles of 16-bit elements in the registers of its 32 threads, as
 * PTX lays them out (mma.m16n8k16, ldmatrix), and copies to shared memory that go on beside what
 * the threads compute. For devices of compute capability 8.0 or later.
 *
 * X: the dtype, bfloat16 or, with HALF_IS_F16, float16. All threads of a warp take part in step.
 *
 *   a   16 x 16   thread 4g + t: rows g, g + 8 (words 0, 2 and 1, 3), columns 2t, 2t + 1, and 8 on
 *   b   16 x 8    column g, rows 2t, 2t + 1 (word 0), and 8 on (word 1)
 *   c   16 x 8    f32: rows g (0, 1), g + 8 (2, 3), columns 2t, 2t + 1
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_MATRIX_H
#define EXG_LIBEXEC_KERNELS_CUDA_MATRIX_H

#include "libexec/kernels/cuda/common.h"

typedef uint16_t half_bits;

#ifdef HALF_IS_F16
#define HALF_TEXT "f16"
#else
#define HALF_TEXT "bf16"
#endif

#ifdef __CUDACC__

static inline unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

/* c += a b */
static inline void matrix_multiply(float c[4], const uint32_t a[4], const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TEXT "." HALF_TEXT ".f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices in shared memory; thread 8m + r gives the address of row r of matrix m.
 * A thread gets elements 2t, 2t + 1 of row g of each. */
static inline void matrix_load(uint32_t to[4], const half_bits *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* The same of the matrices transposed: elements of column g, rows 2t, 2t + 1. */
static inline void matrix_load_transposed(uint32_t to[4], const half_bits *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* Two numbers rounded, the first in the lower half. */
static inline uint32_t half_pair(float first, float second)
{
    uint32_t pair;

    asm("cvt.rn." HALF_TEXT "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

/* 2 to the power of x, to 2 ulp; 0 where that is subnormal. */
static inline float power_of_two(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Begins a copy of 16 bytes to shared memory, of zeros unless `is_there`. */
static inline void copy_16(void *shared, const void *from, int is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

/* Ends a group of copies that were begun; waits until all groups but the last `ahead` are there
 * for this thread. */
#define COPIES_END()       asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(ahead) asm volatile("cp.async.wait_group %0;" ::"n"(ahead) : "memory")

#else

typedef struct matrix_words {
    uint32_t a[4], b[2];
} matrix_words;

static inline float half_of(uint32_t word, int which)
{
    return JOIN(widen_, X)((half_bits)(word >> (16 * which)));
}

static inline void matrix_multiply(float c[4], const uint32_t a[4], const uint32_t *b)
{
    const int lane = THREAD % WARP;
    matrix_words own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    matrix_words all[WARP];

    exg_emulated->gather(all, &own, (int)sizeof(own));
    for (int i = 0; i < 4; i++) {
        const int column = lane % 4 * 2 + i % 2;

        for (int k = 0; k < 16; k++) {
            const matrix_words *x = &all[lane / 4 * 4 + k % 8 / 2];
            const matrix_words *y = &all[column * 4 + k % 8 / 2];

            c[i] += half_of(x->a[i / 2 + k / 8 * 2], k % 2) * half_of(y->b[k / 8], k % 2);
        }
    }
}

static inline void matrix_load_as(uint32_t to[4], const half_bits *row, int is_transposed)
{
    const int g = THREAD % WARP / 4;
    const int t = THREAD % 4;
    const half_bits *rows[WARP];

    exg_emulated->gather(rows, &row, (int)sizeof(row));
    for (int m = 0; m < 4; m++) {
        const half_bits *const *of = rows + 8 * m;

        to[m] = is_transposed ? of[2 * t][g] | (uint32_t)of[2 * t + 1][g] << 16
                              : of[g][2 * t] | (uint32_t)of[g][2 * t + 1] << 16;
    }
}

static inline void matrix_load(uint32_t to[4], const half_bits *row)
{
    matrix_load_as(to, row, 0);
}

static inline void matrix_load_transposed(uint32_t to[4], const half_bits *row)
{
    matrix_load_as(to, row, 1);
}

static inline uint32_t half_pair(float first, float second)
{
    return JOIN(narrow_, X)(first) | (uint32_t)JOIN(narrow_, X)(second) << 16;
}

static inline float power_of_two(float x)
{
    return exp2f(x);
}

static inline void copy_16(void *shared, const void *from, int is_there)
{
    if (is_there) {
        memcpy(shared, from, 16);
    } else {
        memset(shared, 0, 16);
    }
}

#define COPIES_END()       (void)0
#define COPIES_WAIT(ahead) (void)0

#endif

#endif
