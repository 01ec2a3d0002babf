/* corpus.h - one case of the operator corpus, and two ways to run it. */
#ifndef EXG_TESTS_EXEC_CORPUS_CORPUS_H
#define EXG_TESTS_EXEC_CORPUS_CORPUS_H

#include <exg/exec.h>

typedef struct one_case {
    const char *file, *name;
    double rtol, atol;
    uint32_t mesh; /* 0: one device */
    bool in_parts; /* inputs are: infinite ones of both signs add up to NaN */
    exg_program *program;
    const exg_tensor_file *tensors;
} one_case;

/* `why` has room for 200 bytes. */
bool equal_tensors(const one_case *c, const exg_tensor *got, const exg_named_tensor *want,
                   char *why);
/* The tensor of the case's file that is an "in", "out", "after" or "constant". */
const exg_named_tensor *case_tensor(const one_case *c, const char *kind, const char *name);

/* Element `i` as a number; NaN for dtypes that are none. */
double number_at(exg_dtype dtype, const void *data, int64_t i);

/* Dispatches the program's nodes one by one on every rank of the mesh, inputs placed as
 * `placements` ("S(0) R") says as far as their dims allow; "pairs": again and again, in every way
 * in which two of them may lie along a mesh of one dim. */
bool run_eager(const one_case *c, const exg_operators *operators, const exg_mesh_shape *mesh,
               const char *placements, char *why);

/* Marks the operators of the program, and those that it is lowered to, by id. */
void mark_rows(const exg_program *program, const exg_operators *operators, bool *seen);
/* Marks, an operator's parameter a bit, those that the program sets to other than their default. */
void mark_arguments(const exg_program *program, const exg_operators *operators, uint32_t *set);
/* Prints the optional ones that are not marked and that unset.txt does not name, and those that it
 * names without need. */
uint32_t count_unset_arguments(const exg_operators *operators, const uint32_t *set);
/* Prints the operators with a sharding rule that are not marked. */
uint32_t count_unseen_rows(const exg_operators *operators, bool *seen);

#endif
