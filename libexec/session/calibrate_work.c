/* calibrate_work.c - what work takes on this machine: small programs, one a kind of operator, each
 * the shortest of several runs, on several cores at once, as ranks run them.
 */
#include "libexec/session/calibrate_work.h"
#include "libexec/comm/team.h"

#include <exg/emit.h>
#include <exg/session.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TIMES       7
#define INPUTS_MAX  4
#define NODES       64
#define CORES_MAX   16 /* that work at once: more share memory no otherwise */
#define SUMMED      (1 << 23)
#define SUMMED_ROWS 512
#define LSTM        2 /* among the cells of exg::recurrent */

#define SMALL 0x3c /* each byte of 0.0115: pages that nobody wrote are one, in the cache */

typedef exg_ref build_work(exg_builder *b, const exg_ref *in);

static exg_ref product(exg_builder *b, const exg_ref *in)
{
    return EMIT(b, mm_default, in[0], in[1]);
}

static exg_ref batched(exg_builder *b, const exg_ref *in)
{
    return EMIT(b, bmm_default, in[0], in[1]);
}

static exg_ref attention(exg_builder *b, const exg_ref *in)
{
    return EMIT(b, attention, in[0], in[1], in[2]);
}

static exg_ref convolution(exg_builder *b, const exg_ref *in)
{
    return EMIT(b, convolution_default, in[0], in[1], exg_arg_none(), INTS(b, 1, 1), INTS(b, 1, 1),
                INTS(b, 1, 1), false, INTS(b, 0, 0), 1);
}

static exg_ref recurrent(exg_builder *b, const exg_ref *in)
{
    exg_argument results[3];

    (void)EMIT_ALL(b, recurrent, results, in[0], in[1], exg_arg_none(), in[2], in[3], LSTM, false);
    return exg_get_ref(&results[0]);
}

static exg_ref sum(exg_builder *b, const exg_ref *in)
{
    return EMIT(b, add_Tensor, in[0], in[0]);
}

static exg_ref nodes(exg_builder *b, const exg_ref *in)
{
    exg_ref x = in[0];

    for (int i = 0; i < NODES; i++) { /* no two become one step */
        x = EMIT(b, _softmax_default, x, i % 2, false);
    }
    return x;
}

/* A program of `build` over inputs of these sizes does `count` of what a member of exg_costs
 * counts. */
static const struct kind {
    build_work *build;
    size_t member;
    double count;
    uint32_t input_count;
    bool has_weight; /* the second of them */
    struct {
        uint32_t rank;
        int64_t sizes[4];
    } inputs[INPUTS_MAX];
} kinds[] = {
#define MEMBER(name) offsetof(exg_costs, name)
    {product,
     MEMBER(ns_per_flop),
     2. * 128 * 512 * 512,
     2,
     true,
     {{2, {128, 512}}, {2, {512, 512}}}},
    {batched,
     MEMBER(ns_per_batched_flop),
     2. * 16 * 128 * 128 * 256,
     2,
     true,
     {{3, {16, 128, 256}}, {3, {16, 256, 128}}}},
    {attention,
     MEMBER(ns_per_attention_flop),
     2. * 2 * 4 * 8 * 64 * 64 * 64,
     3,
     false,
     {{4, {4, 8, 64, 64}}, {4, {4, 8, 64, 64}}, {4, {4, 8, 64, 64}}}},
    {convolution,
     MEMBER(ns_per_convolution_flop),
     2. * 4 * 32 * 28 * 28 * 64 * 9,
     2,
     true,
     {{4, {4, 64, 28, 28}}, {4, {32, 64, 3, 3}}}},
    {recurrent,
     MEMBER(ns_per_recurrent_flop),
     2. * 64 * 8 * 768 * 192,
     4,
     true,
     {{3, {64, 8, 768}}, {2, {768, 192}}, {2, {8, 192}}, {2, {8, 192}}}},
    {sum, /* reads x, and writes y */
     MEMBER(ns_per_touched),
     2. * SUMMED * sizeof(float),
     1,
     false,
     {{2, {SUMMED / SUMMED_ROWS, SUMMED_ROWS}}}},
    {nodes, MEMBER(ns_per_node), NODES, 1, false, {{2, {8, 8}}}},
#undef MEMBER
};

static const char *const names[INPUTS_MAX] = {"a", "b", "c", "d"};

static bool is_weight(const struct kind *kind, uint32_t input)
{
    return kind->has_weight && input == 1;
}

/* Room with numbers in it, for the caller to free; NULL: there is none. */
static void *make_data(const struct kind *kind, uint32_t input)
{
    uint64_t bytes = sizeof(float);
    void *data;

    for (uint32_t d = 0; d < kind->inputs[input].rank; d++) {
        bytes *= (uint64_t)kind->inputs[input].sizes[d];
    }
    data = malloc(bytes);
    return data == NULL ? NULL : memset(data, SMALL, bytes);
}

static exg_ref add_input(exg_builder *b, const struct kind *kind, uint32_t input)
{
    exg_tensor_meta meta =
        exg_builder_meta(b, EXG_DTYPE_F32, kind->inputs[input].sizes, kind->inputs[input].rank);
    exg_ref made;
    void *data;

    if (!is_weight(kind, input)) {
        return exg_builder_input(b, names[input], &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    }
    data = make_data(kind, input);
    if (data == NULL) {
        exg_error err;

        (void)EXG_OUT_OF_MEMORY(&err);
        exg_builder_fail(b, &err);
        return EXG_NO_REF;
    }
    made = exg_builder_weight(b, names[input], &meta, EXG_INPUT_PARAMETER, data);
    free(data);
    return made;
}

static exg_status build(const exg_operators *operators, const struct kind *kind,
                        exg_program **program, exg_error *err)
{
    exg_ref in[INPUTS_MAX];
    exg_builder *b;
    exg_argument y;

    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, program, err));
    if (exg_builder_create(operators, *program, &b, err) != EXG_OK) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t k = 0; k < 2 * kind->input_count; k++) { /* weights come first */
        uint32_t i = k % kind->input_count;

        if (is_weight(kind, i) == (k < kind->input_count)) {
            in[i] = add_input(b, kind, i);
        }
    }
    y = exg_arg_ref(kind->build(b, in));
    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    return exg_builder_finish(b, err);
}

/* The same program on a core each. */
typedef struct measuring {
    const struct kind *kind;
    exg_session *sessions[CORES_MAX];
    exg_session_input inputs[CORES_MAX][INPUTS_MAX];
    uint64_t shortest[CORES_MAX];
    exg_status status[CORES_MAX];
    exg_error errors[CORES_MAX];
} measuring;

static void run_often(void *context, uint32_t core)
{
    measuring *m = context;

    m->shortest[core] = UINT64_MAX;
    for (int i = 0; i < TIMES && m->status[core] == EXG_OK; i++) {
        uint64_t ns;

        m->status[core] =
            exg_session_run(m->sessions[core], m->inputs[core],
                            m->kind->input_count - m->kind->has_weight, &m->errors[core]);
        ns = exg_session_statistics(m->sessions[core])->run_ns;
        m->shortest[core] = ns < m->shortest[core] ? ns : m->shortest[core];
    }
}

static exg_status open_core(measuring *m, uint32_t core, const exg_verified *verified,
                            exg_error *err)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->kind->input_count; i++) {
        exg_session_input *input = &m->inputs[core][count];

        if (is_weight(m->kind, i)) {
            continue;
        }
        *input = (exg_session_input){
            .name = names[i], .tensor = {.dtype = EXG_DTYPE_F32, .rank = m->kind->inputs[i].rank}};
        for (uint32_t d = 0; d < input->tensor.rank; d++) {
            input->tensor.sizes[d] = m->kind->inputs[i].sizes[d];
        }
        exg_tensor_set_contiguous(&input->tensor);
        input->tensor.data = make_data(m->kind, i);
        if (input->tensor.data == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        count++;
    }
    return exg_session_create(verified, &options, &m->sessions[core], err);
}

static exg_status run_cores(measuring *m, uint32_t cores, double *ns, exg_error *err)
{
    exg_team *team;

    EXG_TRY(exg_team_create(cores, &team, err));
    exg_team_run(team, run_often, m);
    exg_team_destroy(team);
    *ns = 0;
    for (uint32_t c = 0; c < cores; c++) {
        if (m->status[c] != EXG_OK) {
            *err = m->errors[c];
            return m->status[c];
        }
        *ns += (double)m->shortest[c] / cores;
    }
    return EXG_OK;
}

static exg_status time_verified(const struct kind *kind, const exg_verified *verified,
                                uint32_t cores, double *ns, exg_error *err)
{
    measuring *m = calloc(1, sizeof(*m));
    exg_status status = EXG_OK;

    if (m == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    m->kind = kind;
    for (uint32_t c = 0; c < cores && status == EXG_OK; c++) {
        status = open_core(m, c, verified, err);
    }
    status = status == EXG_OK ? run_cores(m, cores, ns, err) : status;
    for (uint32_t c = 0; c < cores; c++) {
        exg_session_destroy(m->sessions[c]);
        for (uint32_t i = 0; i < INPUTS_MAX; i++) {
            free(m->inputs[c][i].tensor.data);
        }
    }
    free(m);
    return status;
}

static exg_status time_kind(const exg_operators *operators, const struct kind *kind, uint32_t cores,
                            double *ns, exg_error *err)
{
    exg_program *program = NULL;
    exg_verified verified;
    exg_status status = build(operators, kind, &program, err);

    status = status == EXG_OK ? exg_verify(program, operators, &verified, NULL, err) : status;
    status = status == EXG_OK ? time_verified(kind, &verified, cores, ns, err) : status;
    exg_program_destroy(program);
    return status;
}

exg_status exg_calibrate_work(uint32_t cores, exg_costs *costs, exg_error *err)
{
    exg_operators *operators;
    exg_status status = EXG_OK;

    cores = cores < CORES_MAX ? cores : CORES_MAX;
    EXG_TRY(exg_operators_create(&operators, err));
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == EXG_OK; k++) {
        double ns = 0;

        status = time_kind(operators, &kinds[k], cores, &ns, err);
        *(double *)((char *)costs + kinds[k].member) = ns / kinds[k].count;
    }
    exg_operators_destroy(operators);
    return status;
}
