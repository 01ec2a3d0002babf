/* emit.h - one line a node: y = EMIT(b, mul_Tensor, centred, rstd).
 *
 * Arguments in schema order: values (exg_ref), numbers, exg_argument for the
 * rest (DTYPE(d), INTS(b, 1, 2), exg_arg_none(), ...). Trailing defaults may be left out.
 * Macros for C, with short names: include it where graphs are built, not in headers.
 */
#ifndef EXG_EMIT_H
#define EXG_EMIT_H

#include <exg/operators.h>

static inline exg_argument exg_arg_itself(exg_argument arg)
{
    return arg;
}

#define EXG_ARG(x)                                                                                 \
    _Generic((x), exg_ref                                                                          \
             : exg_arg_ref, bool                                                                   \
             : exg_arg_bool, int                                                                   \
             : exg_arg_int, long                                                                   \
             : exg_arg_int, unsigned                                                               \
             : exg_arg_int, double                                                                 \
             : exg_arg_float, exg_argument                                                         \
             : exg_arg_itself)(x)

#define EXG_ARGS_1(a)                                     EXG_ARG(a)
#define EXG_ARGS_2(a, ...)                                EXG_ARG(a), EXG_ARGS_1(__VA_ARGS__)
#define EXG_ARGS_3(a, ...)                                EXG_ARG(a), EXG_ARGS_2(__VA_ARGS__)
#define EXG_ARGS_4(a, ...)                                EXG_ARG(a), EXG_ARGS_3(__VA_ARGS__)
#define EXG_ARGS_5(a, ...)                                EXG_ARG(a), EXG_ARGS_4(__VA_ARGS__)
#define EXG_ARGS_6(a, ...)                                EXG_ARG(a), EXG_ARGS_5(__VA_ARGS__)
#define EXG_ARGS_7(a, ...)                                EXG_ARG(a), EXG_ARGS_6(__VA_ARGS__)
#define EXG_ARGS_8(a, ...)                                EXG_ARG(a), EXG_ARGS_7(__VA_ARGS__)
#define EXG_ARGS_9(a, ...)                                EXG_ARG(a), EXG_ARGS_8(__VA_ARGS__)
#define EXG_ARGS_10(a, ...)                               EXG_ARG(a), EXG_ARGS_9(__VA_ARGS__)
#define EXG_PICK(a, b, c, d, e, f, g, h, i, j, name, ...) name
#define EXG_ARGS(...)                                                                              \
    EXG_PICK(__VA_ARGS__, EXG_ARGS_10, EXG_ARGS_9, EXG_ARGS_8, EXG_ARGS_7, EXG_ARGS_6, EXG_ARGS_5, \
             EXG_ARGS_4, EXG_ARGS_3, EXG_ARGS_2, EXG_ARGS_1, 0)                                    \
    (__VA_ARGS__)

#define EXG_ARG_LIST(...)                                                                          \
    (const exg_argument[])                                                                         \
    {                                                                                              \
        EXG_ARGS(__VA_ARGS__)                                                                      \
    }
#define EXG_ARG_COUNT(...) ((uint32_t)(sizeof(EXG_ARG_LIST(__VA_ARGS__)) / sizeof(exg_argument)))

#define EMIT(b, op, ...)                                                                           \
    exg_emit((b), EXG_OP_##op, EXG_ARG_LIST(__VA_ARGS__), EXG_ARG_COUNT(__VA_ARGS__))
#define EMIT_ALL(b, op, results, ...)                                                              \
    exg_emit_all((b), EXG_OP_##op, EXG_ARG_LIST(__VA_ARGS__), EXG_ARG_COUNT(__VA_ARGS__), (results))

/* A list of ints written out, and one from an array. */
#define INTS(b, ...)                                                                               \
    exg_arg_ints((b), (const int64_t[]){__VA_ARGS__},                                              \
                 (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define INTS_OF(b, items, count) exg_arg_ints((b), (items), (count))
#define DTYPE(dtype)             exg_arg_dtype(dtype)

#endif
