/* plan.c - a plan that is made: its end, and what it comes to. */
#include "libexec/plan/plan_internal.h"
#include "libexport/base/arena.h"

void exg_plan_destroy(exg_plan *plan)
{
    if (plan != NULL) {
        exg_arena_destroy(plan->arena);
    }
}

const exg_plan_summary *exg_plan_summarize(const exg_plan *plan)
{
    return &plan->summary;
}
