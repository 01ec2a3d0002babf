/* chain.c - formulas of f32 (narrow.def) one after the other on vectors that stay in registers.
 *
 * Each step is a function that computes with four vectors and calls the next one's.
 */
#include "libexec/kernels/loops/flow.h"
#include "libexec/kernels/loops/real_formulas.h"

#include <string.h>

#define PART (4 * EXG_VF32) /* elements that go through all steps at once */

typedef struct part {
    size_t start; /* element */
    float *out;
    bool is_past_caches;
} part;

typedef struct link link;
typedef void apply(real x0, real x1, real x2, real x3, const link *l, const part *p);

struct link {
    apply *apply;
    const exg_chain_step *step;
};

#define VECTOR(from, k) (*((const real *)((from) + p->start) + (k)))
#define OF(id, x, k)                                                                               \
    (in_vectors[EXG_FORMULA_##id] != NULL                                                          \
         ? in_vectors[EXG_FORMULA_##id](x)                                                         \
         : formula_##id(x, VECTOR(l->step->b, k), VECTOR(l->step->c, k), l->step->scalars))

#define EXG_NARROW(id, function) EXG_NARROW_FORMULA(id)
#define EXG_NARROW_FORMULA(id)                                                                     \
    static void apply_##id(real x0, real x1, real x2, real x3, const link *l, const part *p)       \
    {                                                                                              \
        x0 = OF(id, x0, 0);                                                                        \
        x1 = OF(id, x1, 1);                                                                        \
        x2 = OF(id, x2, 2);                                                                        \
        x3 = OF(id, x3, 3);                                                                        \
        l[1].apply(x0, x1, x2, x3, l + 1, p);                                                      \
    }
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA

#define EXG_NARROW_FORMULA(id) [EXG_FORMULA_##id] = apply_##id,
static apply *const applies[EXG_FORMULA_COUNT] = {
#include "libexec/kernels/narrow.def"
};
#undef EXG_NARROW_FORMULA

/* After the last step. */
static void put(real x0, real x1, real x2, real x3, const link *l, const part *p)
{
    real *const out = (real *)(p->out + p->start);

    (void)l;
    exg_flow_put(out, (exg_vbytes)x0, p->is_past_caches);
    exg_flow_put(out + 1, (exg_vbytes)x1, p->is_past_caches);
    exg_flow_put(out + 2, (exg_vbytes)x2, p->is_past_caches);
    exg_flow_put(out + 3, (exg_vbytes)x3, p->is_past_caches);
}

/* What compilers leave out around calls by pointer: other code is slow with upper halves in use. */
static inline void leave_vectors(void)
{
#ifdef __AVX__
    _mm256_zeroupper();
#endif
}

static void run(uint32_t count, float *out, const float *a, const exg_chain_step *steps,
                uint32_t step_count, const exg_flow *flow);

/* Fewer elements than a part, on copies that have room for one. */
static void run_rest(size_t count, size_t start, float *out, const float *a,
                     const exg_chain_step *steps, uint32_t step_count)
{
    float copies[2 * EXG_CHAIN_MAX + 1][PART] = {{0}};
    float *copy = copies[0];
    exg_chain_step copied[EXG_CHAIN_MAX];

    memcpy(copies[0], a + start, count * sizeof(*a));
    for (uint32_t k = 0; k < step_count; k++) {
        const float *const b = steps[k].b;
        const float *const c = steps[k].c;

        copied[k] = steps[k];
        copied[k].b = b == a ? copies[0] : memcpy(copy += PART, b + start, count * sizeof(*b));
        copied[k].c = c == a ? copies[0] : memcpy(copy += PART, c + start, count * sizeof(*c));
    }
    run(PART, copies[0], copies[0], copied, step_count, NULL);
    memcpy(out + start, copies[0], count * sizeof(*out));
}

static void run(uint32_t count, float *out, const float *a, const exg_chain_step *steps,
                uint32_t step_count, const exg_flow *flow)
{
    link links[EXG_CHAIN_MAX + 1];
    part p = {0, out, flow != NULL && flow->is_past_caches};

    for (uint32_t k = 0; k < step_count; k++) {
        links[k] = (link){applies[steps[k].formula], &steps[k]};
    }
    links[step_count] = (link){put, NULL};
    for (; p.start + PART <= count; p.start += PART) {
        const real *const x = (const real *)(a + p.start);

        if (flow != NULL) {
            exg_flow_ask(flow, (uint32_t)p.start, PART);
        }
        links[0].apply(x[0], x[1], x[2], x[3], links, &p);
    }
    leave_vectors();
    if (p.start < count) {
        run_rest(count - p.start, p.start, out, a, steps, step_count);
    }
}

#define EXG_NARROW_FORMULA(id) [EXG_FORMULA_##id] = true,
const exg_chain_loops EXG_ISA_NAME(exg_loops_chain) = {
    run,
    {
#include "libexec/kernels/narrow.def"
    }};
