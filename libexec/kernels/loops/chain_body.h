/* chain_body.h - formulas (narrow.def) one after the other on vectors that stay in registers: the
 * body of chain.c and chain_bf16.c.
 *
 * Each step is a function that computes with four vectors and calls the next one's. Whoever
 * includes this has an `element`, vector_of(from, k), the operand of vector k of a part that
 * `from` begins, put_part(out, vectors, is_past_caches), and of every formula step_<id>(x, y, z,
 * scalars), what the next step takes.
 */
#include "libexec/kernels/loops/flow.h"

#include <string.h>

#define PART (4 * EXG_VF32) /* elements that go through all steps at once */

typedef struct part {
    size_t start; /* element */
    element *out;
    bool is_past_caches;
} part;

typedef struct link link;
typedef void apply(real x0, real x1, real x2, real x3, const link *l, const part *p);

struct link {
    apply *apply;
    const exg_chain_step *step;
};

#define OPERAND(from, k) vector_of((const element *)(from) + p->start, k)

#define OF(id, x, k) step_##id(x, OPERAND(l->step->b, k), OPERAND(l->step->c, k), l->step->scalars)

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
#undef EXG_NARROW

/* After the last step. */
static void put(real x0, real x1, real x2, real x3, const link *l, const part *p)
{
    const real vectors[4] = {x0, x1, x2, x3};

    (void)l;
    put_part(p->out + p->start, vectors, p->is_past_caches);
}

/* What compilers leave out around calls by pointer: other code is slow with upper halves in use. */
static inline void leave_vectors(void)
{
#ifdef __AVX__
    _mm256_zeroupper();
#endif
}

static void run(uint32_t count, void *out, const void *a, const exg_chain_step *steps,
                uint32_t step_count, const exg_flow *flow);

static inline const element *copy_of(element *copy, const element *from, size_t count)
{
    memcpy(copy, from, count * sizeof(element));
    memset(copy + count, 0, (PART - count) * sizeof(element));
    return copy;
}

/* Fewer elements than a part, on copies that have room for one. */
static void run_rest(size_t count, size_t start, element *out, const element *a,
                     const exg_chain_step *steps, uint32_t step_count)
{
    element copies[2 * EXG_CHAIN_MAX + 1][PART];
    element *copy = copies[0];
    exg_chain_step copied[EXG_CHAIN_MAX];

    copy_of(copies[0], a + start, count);
    for (uint32_t k = 0; k < step_count; k++) {
        const element *const b = steps[k].b;
        const element *const c = steps[k].c;

        copied[k] = steps[k];
        copied[k].b = b == a ? copies[0] : copy_of(copy += PART, b + start, count);
        copied[k].c = c == a ? copies[0] : copy_of(copy += PART, c + start, count);
    }
    run(PART, copies[0], copies[0], copied, step_count, NULL);
    memcpy(out + start, copies[0], count * sizeof(element));
}

static void run(uint32_t count, void *out, const void *a, const exg_chain_step *steps,
                uint32_t step_count, const exg_flow *flow)
{
    link links[EXG_CHAIN_MAX + 1];
    part p = {0, out, flow != NULL && flow->is_past_caches};

    for (uint32_t k = 0; k < step_count; k++) {
        links[k] = (link){applies[steps[k].formula], &steps[k]};
    }
    links[step_count] = (link){put, NULL};
    for (; p.start + PART <= count; p.start += PART) {
        const element *const x = (const element *)a + p.start;

        if (flow != NULL) {
            exg_flow_ask(flow, (uint32_t)p.start, PART);
        }
        links[0].apply(vector_of(x, 0), vector_of(x, 1), vector_of(x, 2), vector_of(x, 3), links,
                       &p);
    }
    leave_vectors();
    if (p.start < count) {
        run_rest(count - p.start, p.start, out, a, steps, step_count);
    }
}
