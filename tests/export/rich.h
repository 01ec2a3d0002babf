/* rich.h - a signature with every kind of spec, and the one of seed 004's docstring. */
#ifndef EXG_TESTS_EXPORT_RICH_H
#define EXG_TESTS_EXPORT_RICH_H

#include <exg/signature.h>

typedef struct rich {
    exg_input_spec inputs[10];
    exg_output_spec outputs[8];
    exg_signature signature;
} rich;

/* token; p_w -> w; b_m -> m; b_n -> n, not persistent; c_k -> k; obj_o -> o; x; True; None;
 * s0. Outputs token_1; add -> m; add_1 -> x; y; None; loss; gw -> w; gx -> x. */
void make_rich(rich *r);

/* arg0_1 -> my_parameter; arg1_1, arg2_1 -> my_buffer1, my_buffer2; arg3_1; arg4_1. Outputs
 * add_2 -> my_buffer2; add_1. */
void make_docstring(rich *r);

#endif
