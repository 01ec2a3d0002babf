/* checked.h - size arithmetic that says when it does not fit.
 *
 * Sizes come from files, so every product is checked where it is born: a wrapped
 * size is a small size, and a small size passes every bounds check after it.
 * Each function returns false and leaves *out alone when the result does not fit.
 */
#ifndef EXG_LIBEXPORT_BASE_CHECKED_H
#define EXG_LIBEXPORT_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool exg_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool exg_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool exg_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool exg_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

static inline bool exg_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* `a` up to a multiple of `alignment`, a power of two. */
static inline bool exg_align_u64(uint64_t a, uint64_t alignment, uint64_t *out)
{
    uint64_t sum;

    if (!exg_add_u64(a, alignment - 1, &sum)) {
        return false;
    }
    *out = sum & ~(alignment - 1);
    return true;
}

/* Is [offset, offset + length) inside [0, size)? By subtraction, since
 * offset + length may wrap. */
static inline bool exg_range_inside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

#endif
