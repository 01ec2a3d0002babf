/* profile.c - how far a run is, as other threads see it, and what its steps took. */
#include "libexec/device/device.h"
#include "libexec/session/session.h"
#include "libexec/session/work.h"

#include <string.h>

void exg_session_progress(const exg_session *session, exg_run_progress *progress)
{
    exg_run_progress own = {.size = sizeof(own)};
    size_t size = progress == NULL ? 0 : progress->size;

    if (session != NULL) {
        const exg_progress *p = &session->context.progress;

        own.step = atomic_load_explicit(&p->step, memory_order_relaxed);
        own.step_count = atomic_load_explicit(&p->step_count, memory_order_relaxed);
        own.segments = atomic_load_explicit(&p->segments, memory_order_relaxed);
        own.iterations = atomic_load_explicit(&p->iterations, memory_order_relaxed);
    }
    if (size > 0) {
        memcpy(progress, &own, size < sizeof(own) ? size : sizeof(own));
        progress->size = size;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Step `index` of those that a rank took in the last run, from segment to segment (not those of
 * loops). */
static const exg_plan_executor *find_step(const exg_session *session, uint32_t rank,
                                          uint32_t *index)
{
    const exg_graph_executor *r = &session->executor;

    for (uint32_t depth = 0; r->last != NULL && depth <= r->last->segment->depth; depth++) {
        const exg_plan_executor *executor = r->path[depth]->executors[rank];
        const exg_plan *plan = exg_plan_executor_plan(executor);

        if (*index < plan->step_count - plan->folded_count) {
            *index += plan->folded_count;
            return executor;
        }
        *index -= plan->step_count - plan->folded_count;
    }
    return NULL;
}

uint32_t exg_session_rank_count(const exg_session *session)
{
    return session->context.rank_count;
}

uint32_t exg_session_first_rank(const exg_session *session)
{
    return session->context.first_rank;
}

uint32_t exg_session_rank_profile_count(const exg_session *session, uint32_t rank)
{
    uint32_t past = UINT32_MAX;

    if (!session->context.options.profile || session->executor.last == NULL ||
        rank >= session->context.rank_count) {
        return 0;
    }
    (void)find_step(session, rank, &past);
    return UINT32_MAX - past;
}

uint32_t exg_session_profile_count(const exg_session *session)
{
    return exg_session_rank_profile_count(session, 0);
}

const exg_step_profile *exg_session_rank_profile_at(exg_session *session, uint32_t rank,
                                                    uint32_t index)
{
    exg_step_profile *profile = &session->profile;
    const exg_plan_executor *executor =
        rank < session->context.rank_count ? find_step(session, rank, &index) : NULL;
    const exg_step *step;

    if (executor == NULL) {
        return NULL;
    }
    step = &exg_plan_executor_plan(executor)->steps[index];
    *profile = (exg_step_profile){.size = sizeof(*profile),
                                  .name = step->name,
                                  .target = step->target,
                                  .kernel = step->kernel->name,
                                  .module = step->module,
                                  .fused = step->fused,
                                  .origin = step->origin};
    profile->device = "";
    if (session->context.devices != NULL && !step->on_host) {
        profile->device = session->context.devices[rank]->table->name;
        profile->device_index = session->context.devices[rank]->index;
    }
    exg_plan_executor_times(executor, index, &profile->start_ns, &profile->last_ns,
                            &profile->total_ns);
    profile->start_ns -= /* else it did not run */
        profile->start_ns < session->start_ns ? profile->start_ns : session->start_ns;
    exg_step_work(step, session->context.operators, &profile->flops, &profile->bytes);
    return profile;
}

const exg_step_profile *exg_session_profile_at(exg_session *session, uint32_t index)
{
    return exg_session_rank_profile_at(session, 0, index);
}
