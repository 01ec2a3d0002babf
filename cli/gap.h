/* gap.h - how far two tensors are apart. */
#ifndef EXG_CLI_GAP_H
#define EXG_CLI_GAP_H

#include <exg/formats.h>
#include <exg/json_writer.h>
#include <exg/tensor.h>
#include <exg/text.h>

typedef struct cli_gap {
    bool other_shape;  /* nothing else is known then */
    int64_t count;     /* elements, of complex ones their parts */
    int64_t different; /* that are not equal */
    int64_t wrong;     /* beyond the tolerance; NaN is equal to NaN */
    int64_t worst;     /* the one that is furthest apart */
    double a, b;       /* there */
    double ulp;        /* there, in units of the last place of the coarser dtype; integers: 0 */
    double norm;       /* of the difference, of b's: root of sums of squares, of finite elements */
} cli_gap;

/* `rtol` CLI_RTOL_OF_DTYPE and `atol` CLI_ATOL_OF_VALUES: as of cli_compare(), of the coarser
 * dtype. Integers are compared exactly. Both are row-major. */
cli_gap cli_find_gap(const exg_tensor *a, const exg_named_tensor *b, double rtol, double atol);

/* "12 of 96 elements; worst [17] is 1.5, expected 1.25; 3 ULP, relative norm 0.002" */
void cli_put_gap(exg_text *text, const cli_gap *gap);
void cli_put_gap_json(exg_text *text, const cli_gap *gap); /* members */

#endif
