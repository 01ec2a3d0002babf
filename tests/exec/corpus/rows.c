/* rows.c - which rows of the operator tables the corpus has cases of: as programs are saved, and as
 * they are once lowered. A sharding rule that nothing runs may say anything. */
#include "libexec/sharding/rules.h"
#include "libexport/base/arena.h"
#include "tests/exec/corpus/corpus.h"

#include <exg/operator_id_new.h>
#include <stdio.h>
#include <string.h>

/* In no program of the corpus: moves that plans make, which the tests of collectives and windows
 * run, a formula that the pointwise kernel takes for a power, and draws, of which no numbers are
 * PyTorch's. */
static const exg_operator_id in_no_program[] = {
    EXG_OP_exg_all_reduce, EXG_OP_exg_all_gather, EXG_OP_exg_reduce_scatter, EXG_OP_exg_all_to_all,
    EXG_OP_exg_window,     EXG_OP_cube,           EXG_OP_draw_bernoulli,     EXG_OP_draw_gamma,
    EXG_OP_draw_poisson,   EXG_OP_draw_binomial,
};

static void mark_graph(const exg_graph *graph, const exg_operators *operators, bool *seen)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_operator *op = exg_operators_find(operators, graph->nodes[n].target);

        if (op != NULL) {
            seen[op->id] = true;
        }
    }
}

void mark_rows(const exg_program *program, const exg_operators *operators, bool *seen)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_program *steps[4] = {NULL};
    exg_verified verified;
    exg_symbols symbols;
    exg_error err;
    exg_status status;

    mark_graph(program->graph, operators, seen);
    status = exg_verify(program, operators, &verified, NULL, &err);
    status = status == EXG_OK ? exg_bind_hints(program, arena, &symbols, &err) : status;
    status = status == EXG_OK ? exg_specialize(&verified, &symbols, &steps[0], &err) : status;
    status = status == EXG_OK ? exg_decompose(steps[0], operators, &steps[1], &err) : status;
    status = status == EXG_OK ? exg_functionalize(steps[1], operators, &steps[2], &err) : status;
    status = status == EXG_OK ? exg_simplify(steps[2], operators, &steps[3], &err) : status;
    for (uint32_t s = 0; s < 4; s++) {
        if (steps[s] != NULL) {
            mark_graph(steps[s]->graph, operators, seen);
        }
        exg_program_destroy(steps[s]);
    }
    exg_arena_destroy(arena);
}

uint32_t count_unseen_rows(const exg_operators *operators, bool *seen)
{
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof(in_no_program) / sizeof(in_no_program[0]); i++) {
        seen[in_no_program[i]] = true;
    }
    for (uint32_t id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(operators, id);

        if (!seen[id] && exg_rule_exists(op)) {
            printf("%s has a sharding rule and no case\n", op->target);
            count++;
        }
    }
    return count;
}
