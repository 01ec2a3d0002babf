/* harness.h - runs one kernel on tensors made here, on every instruction set and with
 * one, two and three threads, and compares with what a test worked out in double.
 *
 * Tensors own exact heap blocks, so that the sanitizer sees a read past either end.
 */
#ifndef EXG_TESTS_EXEC_KERNELS_HARNESS_H
#define EXG_TESTS_EXEC_KERNELS_HARNESS_H

#include "libexec/kernels/isa.h"
#include "libexec/kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SIZES(...)   ((const int64_t[]){__VA_ARGS__})
#define OPERANDS_MAX 8

/* ---- tensors --------------------------------------------------------------------- */

/* Contiguous, zero; owned by the harness until free_tensors(). */
exg_tensor make_tensor(exg_dtype dtype, uint32_t rank, const int64_t *sizes);
/* The same with values in [low, high), rounded to the dtype; bools are fair coins. */
exg_tensor make_random(exg_dtype dtype, uint32_t rank, const int64_t *sizes, double low,
                       double high);
exg_tensor make_indices(uint32_t rank, const int64_t *sizes, int64_t low, int64_t high);
exg_tensor absent_tensor(void);
void free_tensors(void);
/* The memory of a tensor made here that an address lies in. */
bool find_block(const void *at, char **first, size_t *bytes);

/* A window on the same memory. */
exg_tensor transposed(exg_tensor t, uint32_t a, uint32_t b);
exg_tensor expanded(exg_tensor t, uint32_t rank, const int64_t *sizes);
/* Elements first, first + step, ... along one dimension. */
exg_tensor sliced(exg_tensor t, uint32_t dim, int64_t first, int64_t count, int64_t step);

/* Elements in row-major order whatever the strides. */
double get(const exg_tensor *t, int64_t position);
void set(const exg_tensor *t, int64_t position, double value);
/* All of them; the caller frees. */
double *values_of(const exg_tensor *t);
/* At one index a dimension. */
double get_at(const exg_tensor *t, const int64_t *index);

/* ---- arguments ---------------------------------------------------------------------- */

exg_argument arg_none(void);
exg_argument arg_tensor(void); /* operands are numbered by the harness */
exg_argument arg_int(int64_t value);
exg_argument arg_float(double value);
exg_argument arg_bool(bool value);
exg_argument arg_dtype(exg_dtype dtype);
exg_argument arg_ints(uint32_t count, const int64_t *items); /* borrowed */

/* ---- running --------------------------------------------------------------------------- */

typedef struct kernel_case {
    const exg_kernel *kernel;
    const exg_argument *args;
    uint32_t arg_count;
    exg_tensor inputs[OPERANDS_MAX];
    uint32_t input_count;
    exg_tensor outputs[OPERANDS_MAX];
    uint32_t output_count;
    exg_fault fault;    /* the fault a run must raise */
    bool packs;         /* the operand that the kernel packs */
    bool channels_last; /* output 0 lies so */
} kernel_case;

/* Runs the kernel with each number of threads on each instruction set, the outputs
 * filled with rubbish before; they must come out bit for bit equal for any number of
 * threads, the fault flag as the case says. The outputs of the last run remain. */
void run_everywhere(kernel_case *c);

/* What prepare answers. */
exg_status prepare_only(kernel_case *c, exg_error *err);

/* Output `output` equals `expected` in row-major order: |a - b| <= absolute + relative |b|,
 * scaled for the dtype: exactly for integers, in units of its rounding for floats. */
void expect_values(const kernel_case *c, uint32_t output, const double *expected, double tolerance);
/* run_everywhere, then expect_values on every instruction set. */
void expect_kernel(kernel_case *c, uint32_t output, const double *expected, double tolerance);

/* A tolerance that fits sums of `terms` products in the dtype's precision. */
double tolerance_of(exg_dtype dtype, int64_t terms);

extern const exg_dtype float_dtypes[4]; /* f32, f64, bf16, f16 */
extern const exg_dtype real_dtypes[11]; /* and bool, u8, i8, i16, i32, i64, u64 */
extern const exg_dtype all_dtypes[13];  /* and c64, c128 */

#endif
