/* placements.c - random placements of weights and inputs over random meshes of up to 12 ranks: each
 * is taken, the collectives of all ranks fit together, and results are PyTorch's. Sizes are what
 * the fixtures have, so parts are of several lengths, and empty.
 *
 *   EXG_PLACEMENTS=5000      so many draws; EXG_PLACEMENTS=5000:7 another seed
 */
#include "tests/exec/session/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* of the same code */
#define DRAWS 100
#else
#define DRAWS 400
#endif
#define RUNS_EVERY   10 /* the others are planned and checked alone */
#define RANKS_MAX    12
#define PATTERNS_MAX 512
#define DESCRIPTION  4000

static const char *const programs[] = {
    "mlp.pt2",   "tied.pt2",           "convbn.eval.core.pt2", "windows.pt2",    "places.pt2",
    "many.pt2",  "lm.core.static.pt2", "grouped.pt2",          "norms.core.pt2", "bf16.pt2",
    "loops.pt2", "branch.core.pt2",    "elements.core.pt2",    "shared.pt2",     "integer.pt2"};
#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

typedef struct draw {
    uint64_t state;
    exg_mesh_shape mesh;
    exg_partition_options place[EXG_MESH_DIMS_MAX];
    exg_partition_pattern patterns[EXG_MESH_DIMS_MAX][PATTERNS_MAX];
    char text[DESCRIPTION];
} draw;

static uint32_t below(draw *d, uint32_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % n;
}

/* Up to three dims, none of one rank. */
static void draw_mesh(draw *d)
{
    uint32_t ranks = 1;

    d->mesh = (exg_mesh_shape){0};
    do {
        uint32_t size = 2 + below(d, RANKS_MAX / ranks - 1);

        d->mesh.sizes[d->mesh.ndim++] = size;
        ranks *= size;
    } while (d->mesh.ndim < 3 && RANKS_MAX / ranks >= 2 && below(d, 3) > 0);
}

static void describe(draw *d, const char *name, exg_placement placement)
{
    size_t used = strlen(d->text);
    char text[EXG_PLACEMENT_TEXT];

    snprintf(d->text + used, sizeof(d->text) - used, " %s:%s", name,
             exg_placement_print(placement, text));
}

/* Along one of its dims; of a weight in strided shards too. */
static exg_placement draw_shard(draw *d, const exg_tensor_meta *meta, bool is_user)
{
    int32_t dim = (int32_t)below(d, meta->rank);
    int32_t runs = is_user ? 1 : 1 + (int32_t)below(d, 4);

    return runs > 1 ? exg_strided_shard(dim, runs) : exg_shard(dim);
}

static void draw_patterns(draw *d, const exg_program *program, uint32_t dim)
{
    static const uint32_t shares[] = {2, 5, 9};
    uint32_t share = shares[below(d, 3)];
    exg_partition_pattern *patterns = d->patterns[dim];
    uint32_t count = 0;

    for (uint32_t i = 0; i < program->signature.input_count && count < PATTERNS_MAX; i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];
        const exg_argument *arg = &program->graph->inputs[i];
        bool is_user = spec->kind == EXG_INPUT_USER;
        const char *name = is_user ? spec->arg.name : spec->target;
        const exg_tensor_meta *meta =
            arg->kind == EXG_ARGUMENT_TENSOR ? program->graph->values[arg->as_tensor].tensor : NULL;

        if (meta == NULL || meta->rank == 0 || name == NULL || below(d, 10) >= share) {
            continue;
        }
        patterns[count] =
            (exg_partition_pattern){name, draw_shard(d, meta, is_user),
                                    is_user ? EXG_PARTITION_INPUTS : EXG_PARTITION_WEIGHTS, NULL};
        describe(d, name, patterns[count].placement);
        count++;
    }
    d->place[dim].patterns = patterns;
    d->place[dim].pattern_count = count;
}

static void draw_placement(draw *d, const exg_program *program)
{
    bool piped = false;

    draw_mesh(d);
    d->text[0] = '\0';
    for (uint32_t i = 0; i < d->mesh.ndim; i++) {
        size_t used = strlen(d->text);
        bool named = below(d, 5) == 0;

        d->place[i] = (exg_partition_options){
            .size = sizeof(d->place[i]),
            .mode =
                named ? (exg_partition_mode)below(d, EXG_PARTITION_AUTO) : EXG_PARTITION_PATTERNS,
        };
        if (piped && d->place[i].mode == EXG_PARTITION_PIPELINE) { /* there may be one */
            d->place[i].mode = EXG_PARTITION_TENSOR;
        }
        piped = piped || d->place[i].mode == EXG_PARTITION_PIPELINE;
        snprintf(d->text + used, sizeof(d->text) - used, "%s%u ranks %s", i == 0 ? "" : "; ",
                 d->mesh.sizes[i], exg_partition_mode_name(d->place[i].mode));
        if (!named) {
            draw_patterns(d, program, i);
        }
    }
}

/* Is it taken? What is not is told. */
static bool check_draw(const loaded *l, const draw *d, bool runs)
{
    exg_session_options options = {
        .size = sizeof(options),
        .thread_count = 1,
        .mesh = d->mesh,
        .partition = d->place,
        .plan_only = !runs,
        .check_ranks = !runs,
    };
    exg_session *session;
    exg_error err;
    exg_status status = exg_session_create(&l->verified, &options, &session, &err);

    if (status == EXG_OK) {
        status = runs ? try_fixture(l, session, &err) : prepare_fixture(l, session, &err);
    }
    if (status != EXG_OK) {
        print_error("%s over %s: %s %s\n", l->fixture->program, d->text, err.code, err.message);
    } else if (runs) {
        compare_with_expected(l, session, d->text);
    }
    exg_session_destroy(session);
    return status == EXG_OK;
}

/* On two of three places along the first dim 2 columns are left, on the third one: what is
 * decided by that count must not decide the moves along the first dim. */
static void decisions_are_alike_where_sizes_are_not(void **state)
{
    exg_partition_pattern first[] = {{"conv.weight", exg_shard(3), EXG_PARTITION_WEIGHTS, NULL},
                                     {"head.weight", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL},
                                     {"head.bias", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL},
                                     {"x", exg_shard(3), EXG_PARTITION_INPUTS, NULL}};
    exg_partition_pattern second[] = {
        {"conv.bias", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL},
        {"norm.weight", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL},
        {"norm.bias", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL},
        {"head.weight", exg_shard(1), EXG_PARTITION_WEIGHTS, NULL},
        {"norm.running_var", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL}};
    draw *d = calloc(1, sizeof(*d));
    loaded l;

    (void)state;
    assert_non_null(d);
    d->mesh = (exg_mesh_shape){2, {3, 2}, {NULL}};
    d->place[0] = (exg_partition_options){sizeof(d->place[0]), EXG_PARTITION_PATTERNS, first, 4};
    d->place[1] = (exg_partition_options){sizeof(d->place[1]), EXG_PARTITION_PATTERNS, second, 5};
    load_fixture(fixture_named("convbn.eval.core.pt2"), &l);
    assert_true(check_draw(&l, d, false));
    assert_true(check_draw(&l, d, true));
    unload_fixture(&l);
    free(d);
}

/* Two mesh dims split the same dim of both weights: a rank reads a quarter of each, and moves
 * nothing of them; of the input it has the part of a part that it computes by. */
static void a_part_of_a_part_is_cut_from_what_is_whole(void **state)
{
    const uint64_t matrices = (16 * 8 + 4 * 16) * sizeof(float);
    const uint64_t biases = (16 + 4) * sizeof(float);
    exg_partition_pattern rows[] = {{"*.weight", exg_shard(0), EXG_PARTITION_WEIGHTS, NULL}};
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .mesh = {2, {2, 2}, {NULL}}};
    exg_partition_options place[2];
    exg_session *session;
    loaded l;

    (void)state;
    place[0] = place[1] = (exg_partition_options){sizeof(*place), EXG_PARTITION_PATTERNS, rows, 1};
    options.partition = place;
    load_fixture(fixture_named("mlp.pt2"), &l);
    session = open_session(&l, &options);
    run_fixture(&l, session);
    compare_with_expected(&l, session, "S(0), S(0)");
    assert_in_range(exg_session_statistics(session)->partition->weight_bytes, matrices / 4,
                    matrices / 4 + biases);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void random_placements_are_taken_and_right(void **state)
{
    const char *asked = getenv("EXG_PLACEMENTS");
    char *seed = NULL;
    uint32_t refused = 0;
    uint32_t count = asked == NULL ? DRAWS : (uint32_t)strtoul(asked, &seed, 10);
    loaded l[PROGRAMS];
    draw *d = calloc(1, sizeof(*d));

    (void)state;
    assert_non_null(d);
    d->state = seed != NULL && *seed == ':' ? strtoul(seed + 1, NULL, 10) : 1;
    for (size_t p = 0; p < PROGRAMS; p++) {
        load_fixture(fixture_named(programs[p]), &l[p]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const loaded *of = &l[below(d, PROGRAMS)];

        draw_placement(d, of->program);
        refused += !check_draw(of, d, i % RUNS_EVERY == 0);
    }
    for (size_t p = 0; p < PROGRAMS; p++) {
        unload_fixture(&l[p]);
    }
    free(d);
    assert_int_equal(refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_alike_where_sizes_are_not),
        cmocka_unit_test(a_part_of_a_part_is_cut_from_what_is_whole),
        cmocka_unit_test(random_placements_are_taken_and_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
