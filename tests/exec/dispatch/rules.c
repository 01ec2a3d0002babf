/* rules.c - rules and handlers of the caller's own, fallbacks, packing, the log: rows of
 * tests/seeds-001.md.
 */
#include "libexec/sharding/rules.h"
#include "libexec/dispatch/dispatcher.h"
#include "tests/exec/dispatch/eager.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- rules that a caller registers --------------------------------- */

typedef struct scripted {
    int runs;
    int fails_from; /* this run and later fail with a status; 0: none */
    bool no_reason;
    bool refuses;    /* FAILED */
    bool empty;      /* suggestions, and none in it */
    bool no_results; /* OK, and no spec, from the second run on */
    exg_placement suggests[2];
    int suggestion_count;
} scripted;

/* Any operator of one tensor: runs where operand 0 lies as the first suggestion. */
static exg_status scripted_rule(void *user, exg_op_schema *schema, exg_arena *arena,
                                exg_output_sharding *out, exg_error *err)
{
    scripted *s = user;
    const exg_dtensor_spec *spec = exg_op_schema_args_spec(schema, 0);

    s->runs++;
    if (s->fails_from > 0 && s->runs >= s->fails_from) {
        return exg_error_set(err, __FILE__, __LINE__, EXG_LIMIT, "TST-001", "the cause itself");
    }
    if (s->refuses) {
        out->status = EXG_SHARDING_FAILED;
        out->failed_reason = s->no_reason ? NULL : "because of the moon";
        return EXG_OK;
    }
    for (int i = 0; i < s->suggestion_count; i++) {
        if (exg_placement_equal(spec->placements[0], s->suggests[i]) && !s->no_results) {
            out->result = exg_object_spec(spec);
            return EXG_OK;
        }
    }
    out->status = EXG_SHARDING_NEEDS_REDISTRIBUTE;
    out->suggestions = exg_arena_alloc(arena, 2, sizeof(*out->suggestions));
    for (int i = 0; i < s->suggestion_count && !s->empty; i++) {
        exg_dtensor_spec *moved = exg_arena_alloc(arena, 1, sizeof(*moved));
        exg_object *args = exg_arena_alloc(arena, schema->arg_count, sizeof(*args));

        *moved = *spec;
        moved->placements[0] = s->suggests[i];
        memcpy(args, schema->args, schema->arg_count * sizeof(*args));
        args[0] = exg_object_spec(moved);
        out->suggestions[i] = *schema;
        out->suggestions[i].args = args;
        out->suggestion_count++;
    }
    return EXG_OK;
}

static void register_rule(eager *e, const char *key, scripted *s)
{
    exg_op_registration row = {.rule = scripted_rule, .user = s};

    EXPECT(e->c, exg_dispatcher_register(e->d, key, &row, &e->err) == EXG_OK, "%s", e->err.message);
}

static void run_own_rule(rank_context *c)
{
    scripted s = {.suggests = {exg_replicate()}, .suggestion_count = 1};
    scripted two = {.suggests = {exg_replicate(), exg_shard(1)}, .suggestion_count = 2};
    exg_dispatch_options first = {.size = sizeof(first), .first_suggestion = true};
    exg_dispatch_options implicit = {.size = sizeof(implicit), .implicit_replication = true};
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    y = CALL(&e, "aten.neg.default", T(x));
    EXPECT(c, lies(y, "S(0)"), "the table's rule");
    exg_dtensor_destroy(y);
    register_rule(&e, "aten.neg.default", &s); /* what was cached is forgotten */
    y = CALL(&e, "aten.neg.default", T(x));
    expect_values(&e, y, "R", (const double[]){0, -1, -2, -3, -4, -5, -6, -7}, 8, "own rule");
    EXPECT(c, s.runs == 2, "the rule ran %d times", s.runs);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
    EXPECT(c, s.runs == 2, "the rule ran again");

    register_rule(&e, "aten.neg.default", &two); /* all-to-all is cheaper than all-gather */
    y = CALL(&e, "aten.neg.default", T(x));
    EXPECT(c, lies(y, "S(1)"), "the cheapest suggestion");
    exg_dtensor_destroy(y);
    /* what is cached is of its options */
    EXPECT(c, exg_dispatcher_configure(e.d, &implicit, &e.err) == EXG_OK, "%s", e.err.message);
    exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
    EXPECT(c, exg_dispatcher_configure(e.d, &first, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.neg.default", T(x));
    EXPECT(c, lies(y, "R"), "the first suggestion");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* What is registered from the start is registered for an operator, by its name. */
static void what_is_built_in_is_of_an_operator(void **state)
{
    static const char *const others[] = {"aten.equal.default", "aten.is_pinned.default"};
    exg_dispatcher *d;
    uint32_t other = 0;

    (void)state;
    assert_int_equal(exg_dispatcher_create(all_operators(), NULL, &d, NULL), EXG_OK);
    for (uint32_t i = 0; i < d->op_entry_count; i++) {
        if (d->op_entries[i]->op == NULL) { /* of the dispatcher's alone, in their order */
            assert_in_range(other, 0, 1);
            assert_string_equal(d->op_entries[i]->key, others[other++]);
        }
    }
    assert_int_equal(other, 2);
    exg_dispatcher_destroy(d);
}

/* A number takes the dtype of the tensor that it stands beside, wherever that is. */
static void run_numbers_beside(rank_context *c)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_I64, EXG_DTYPE_F64};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        exg_dtensor *x = counted(&e, dtypes[i], "4", "S(0)");
        exg_dtensor *y = CALL(&e, "aten.add.Tensor", T(x), of_int(2));
        exg_dtensor_spec spec;

        exg_dtensor_get_spec(y, &spec);
        EXPECT(c, spec.dtype == dtypes[i], "%s", exg_dtype_name(spec.dtype));
        expect_values(&e, y, "S(0)", (const double[]){2, 3, 4, 5}, 4, "with a number");
        exg_dtensor_destroy(y);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

static void a_number_has_the_dtype_beside(void **state)
{
    (void)state;
    on_mesh("2", run_numbers_beside, NULL);
}

/* Moves that cost the same: the first of them. */
static void run_tied_rule(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x4x4", "S(0)");
    for (int i = 0; i < 2; i++) {
        scripted s = {.suggests = {exg_shard(1 + i), exg_shard(2 - i)}, .suggestion_count = 2};

        register_rule(&e, "aten.neg.default", &s);
        y = CALL(&e, "aten.neg.default", T(x));
        EXPECT(c, lies(y, i == 0 ? "S(1)" : "S(2)"), "another than the first of two");
        exg_dtensor_destroy(y);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S000-11, S000-26, S001-22, S001-26, S001-27, S003-49 */
static void a_rule_of_ones_own_replaces_the_tables(void **state)
{
    (void)state;
    on_mesh("4", run_own_rule, NULL);
    on_mesh("4", run_tied_rule, NULL);
}

static void run_bad_rules(rank_context *c)
{
    exg_placement whole = exg_replicate();
    scripted raises = {.fails_from = 1, .suggests = {whole}, .suggestion_count = 1};
    scripted again = {.fails_from = 2, .suggests = {whole}, .suggestion_count = 1};
    scripted refuses = {.refuses = true};
    scripted silent = {.refuses = true, .no_reason = true};
    scripted empty = {.empty = true, .suggests = {whole}, .suggestion_count = 1};
    scripted stuck = {.no_results = true, .suggests = {whole}, .suggestion_count = 1};
    const struct {
        scripted *rule;
        exg_status status;
        const char *says;
    } cases[] = {
        {&raises, EXG_LIMIT, "the cause itself"},       /* S001-25 */
        {&again, EXG_LIMIT, "the cause itself"},        /* S001-30 */
        {&refuses, EXG_UNSUPPORTED, "of the moon"},     /* S001-31 */
        {&silent, EXG_UNSUPPORTED, "gives no reason"},  /* S001-31, S000-27 */
        {&empty, EXG_UNSUPPORTED, "suggests none"},     /* S001-28 */
        {&stuck, EXG_UNSUPPORTED, "its own suggestion"} /* S001-29 */
    };
    eager e;
    exg_dtensor *x;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        register_rule(&e, "aten.neg.default", cases[i].rule);
        EXPECT(c,
               refusal(&e, "aten.neg.default", (exg_object[]){T(x)}, 1) == cases[i].status &&
                   strstr(e.err.message, cases[i].says) != NULL &&
                   strstr(e.err.message, "aten.neg.default") != NULL &&
                   strstr(e.err.message, "Spec(f32[4, 2](") != NULL,
               "rule %d: %s", (int)i, e.err.message);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* The call as one of an operator that is written out, which a rule may not ask for. */
static exg_status rule_that_rewrites(void *user, exg_op_schema *schema, exg_arena *arena,
                                     exg_output_sharding *out, exg_error *err)
{
    const exg_operator *other = exg_operators_find(all_operators(), user);

    (void)err;
    if (schema->func_schema == other->schema) {
        out->result = exg_object_spec(exg_op_schema_args_spec(schema, 0));
        return EXG_OK;
    }
    out->status = EXG_SHARDING_NEEDS_REDISTRIBUTE;
    out->suggestions = exg_arena_alloc(arena, 1, sizeof(*out->suggestions));
    out->suggestions[0] = *schema;
    out->suggestions[0].func_schema = other->schema;
    out->suggestion_count = 1;
    return EXG_OK;
}

static void run_rewriting(rank_context *c)
{
    static const struct {
        const char *target;
        exg_status status;
    } rows[] = {{"torch.ops.aten.abs.default", EXG_OK},
                {"torch.ops.aten.absolute.default", EXG_UNSUPPORTED}};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const exg_op_registration row = {.rule = rule_that_rewrites,
                                         .user = (void *)(uintptr_t)rows[i].target};
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "4", "R");
        exg_object args[] = {T(x)}, result = exg_object_none();

        EXPECT(c,
               exg_dispatcher_register(e.d, "aten.neg.default", &row, &e.err) == EXG_OK &&
                   exg_dispatch(e.d, "aten.neg.default", args, 1, NULL, 0, &result, &e.err) ==
                       rows[i].status,
               "%s: %s", rows[i].target, e.err.message);
        if (rows[i].status == EXG_OK && result.kind == EXG_OBJECT_DTENSOR) {
            expect_values(&e, result.dtensor, "R", (const double[]){0, 1, 2, 3}, 4, "abs instead");
        } else {
            EXPECT(c,
                   strcmp(e.err.code, "DSP-005") == 0 &&
                       strstr(e.err.message, rows[i].target) != NULL,
                   "%s: %s", e.err.code, e.err.message);
        }
        exg_object_clear(&result, true);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

/* S000-28: a rule may say another operator, which is run as it is. */
static void rules_rewrite_calls(void **state)
{
    (void)state;
    on_mesh("2", run_rewriting, NULL);
}

static exg_status rule_without_memory(void *user, exg_op_schema *schema, exg_arena *arena,
                                      exg_output_sharding *out, exg_error *err)
{
    (void)user, (void)schema, (void)arena, (void)out;
    return EXG_OUT_OF_MEMORY(err);
}

/* Where memory ran out, no text is made of it; where nobody asks why, none either. */
static void run_unexplained(rank_context *c)
{
    const exg_op_registration row = {.rule = rule_without_memory};
    scripted raises = {.fails_from = 1, .suggests = {exg_replicate()}, .suggestion_count = 1};
    exg_object result = exg_object_none();
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    EXPECT(c, exg_dispatcher_register(e.d, "aten.neg.default", &row, &e.err) == EXG_OK, "%s",
           e.err.message);
    EXPECT(c,
           refusal(&e, "aten.neg.default", (exg_object[]){T(x)}, 1) == EXG_NO_MEMORY &&
               strstr(e.err.message, "neg") == NULL,
           "%s", e.err.message);
    register_rule(&e, "aten.neg.default", &raises);
    EXPECT(c,
           exg_dispatch(e.d, "aten.neg.default", (exg_object[]){T(x)}, 1, NULL, 0, &result, NULL) ==
               EXG_LIMIT,
           "without an error");
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void not_every_fault_is_explained(void **state)
{
    (void)state;
    on_mesh("2", run_unexplained, NULL);
}

/* Key, schema and cause are in every message. S000-27, S001-25, S001-28, S001-29, S001-30,
 * S001-31 */
static void bad_rules_are_named(void **state)
{
    (void)state;
    on_mesh("2", run_bad_rules, NULL);
}

/* S000-28: a suggestion is the call with other specs, for every way to lie. */
static void suggestions_change_specs_alone(rank_context *c)
{
    static const struct {
        const char *key, *target;
        int tensors;
    } calls[] = {{"aten.mm.default", "torch.ops.aten.mm.default", 2},
                 {"aten.add.Tensor", "torch.ops.aten.add.Tensor", 2},
                 {"aten.mul.Tensor", "torch.ops.aten.mul.Tensor", 2},
                 {"aten.relu.default", "torch.ops.aten.relu.default", 1},
                 {"aten.cumsum.default", "torch.ops.aten.cumsum.default", 1},
                 {"aten._softmax.default", "torch.ops.aten._softmax.default", 1}};
    static const char *const ways[] = {"S(0)", "S(1)", "R", "P(sum)", "P(max)"};
    eager e;
    uint32_t asked = 0;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < 6 * 25; k++) {
        exg_dtensor_spec x = {
            .mesh = c->mesh, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {8, 8}, .strides = {8, 1}};
        exg_dtensor_spec y = x;
        exg_object args[3] = {exg_object_spec(&x), exg_object_spec(&y), of_bool(false)};
        bool second = calls[k % 6].tensors == 2;
        exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
        exg_output_sharding *sharding;
        exg_op_schema s, *target;
        bool moves;

        placements_of(ways[k / 6 / 5], x.placements);
        placements_of(ways[k / 6 % 5], y.placements);
        args[1] = second ? args[1] : of_int(1);
        exg_op_schema_init(&s, exg_operators_find(all_operators(), calls[k % 6].target)->schema,
                           args,
                           strstr(calls[k % 6].key, "softmax") != NULL ? 3
                           : strstr(calls[k % 6].key, "relu") != NULL  ? 1
                                                                       : 2,
                           NULL, 0);
        EXPECT(c,
               exg_propagate_input_sharding(e.d, calls[k % 6].key, &s, arena, &target, &moves,
                                            &sharding, &e.err) == EXG_OK,
               "%s: %s", calls[k % 6].key, e.err.message);
        if (c->faults == 0 && moves) {
            asked++;
            EXPECT(c, target->func_schema == s.func_schema && target->arg_count == s.arg_count,
                   "another operator");
            for (uint32_t i = 0; i < s.arg_count; i++) {
                EXPECT(c, target->args[i].kind == s.args[i].kind, "another kind");
                if (s.args[i].kind == EXG_OBJECT_SPEC) {
                    exg_dtensor_spec back = *target->args[i].spec;

                    memcpy(back.placements, s.args[i].spec->placements, sizeof(back.placements));
                    EXPECT(c, exg_dtensor_spec_equal(&back, s.args[i].spec), "another tensor");
                } else {
                    EXPECT(c,
                           memcmp(&target->args[i].value, &s.args[i].value, sizeof(exg_argument)) ==
                               0,
                           "another value");
                }
            }
        }
        exg_arena_destroy(arena);
    }
    EXPECT(c, asked > 40, "%u suggestions", asked);
    eager_end(&e);
}

/* S000-28 */
static void suggestions_are_the_call_with_other_specs(void **state)
{
    (void)state;
    on_mesh("2", suggestions_change_specs_alone, NULL);
}

/* ---- order, handlers, lowerings --------------------------------- */

typedef struct trace {
    char text[2000];
} trace;

static void note(trace *t, const char *what)
{
    size_t used = strlen(t->text);

    snprintf(t->text + used, sizeof(t->text) - used, "%s\n", what);
}

static exg_status own_handler(void *user, exg_dispatcher *d, const char *key,
                              const exg_object *args, uint32_t arg_count,
                              const exg_named_object *kwargs, uint32_t kwarg_count,
                              exg_object *result, exg_error *err)
{
    (void)d;
    (void)kwargs;
    (void)err;
    note(user, key);
    if (args[0].kind == EXG_OBJECT_DTENSOR && arg_count == 1 && kwarg_count == 0) {
        *result = of_int(77); /* whatever: it goes through */
    }
    return EXG_OK;
}

static exg_status own_lowering(void *user, exg_dispatcher *d, const char *key,
                               const exg_object *args, uint32_t arg_count,
                               const exg_named_object *kwargs, uint32_t kwarg_count,
                               exg_object *result, exg_error *err)
{
    note(user, "lowering");
    (void)key;
    return exg_dispatch(d, "aten.neg.default", args, arg_count, kwargs, kwarg_count, result, err);
}

static void run_handlers(rank_context *c)
{
    trace t = {""};
    exg_op_registration handler = {.handler = own_handler, .user = &t};
    exg_op_registration both = {.handler = own_handler, .lowering = own_lowering, .user = &t};
    eager e;
    exg_dtensor *x, *y;
    exg_object result;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c, exg_dispatcher_register(e.d, "aten.relu.default", &handler, &e.err) == EXG_OK, "-");
    result = call(&e, "aten.relu.default", (exg_object[]){T(x)}, 1);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && result.value.as_int == 77, "the handler's result");
    EXPECT(c, exg_dispatcher_register(e.d, "mine.thing.default", &handler, &e.err) == EXG_OK, "-");
    result = call(&e, "mine.thing.default", (exg_object[]){T(x)}, 1);
    EXPECT(c, result.value.as_int == 77, "an operator of the caller's own");
    EXPECT(c, exg_dispatcher_register(e.d, "aten.relu.default", &both, &e.err) == EXG_OK, "-");
    y = CALL(&e, "aten.relu.default", T(x));
    expect_values(&e, y, "S(0)", (const double[]){0, -1, -2, -3}, 4, "the lowering");
    EXPECT(c, strcmp(t.text, "aten.relu.default\nmine.thing.default\nlowering\n") == 0, "%s",
           t.text);
    exg_dtensor_destroy(y);
    result = call(&e, "aten.is_same_size.default", (exg_object[]){T(x), T(x)}, 2);
    EXPECT(c, result.value.as_bool, "is_same_size");
    result = call(&e, "aten.is_pinned.default", (exg_object[]){T(x)}, 1);
    EXPECT(c, !result.value.as_bool, "is_pinned");
    y = CALL(&e, "aten.argmax.default", T(x));
    expect_values(&e, y, "", (const double[]){3}, 1, "argmax over a sharded tensor");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.as_strided.default", T(x), of_ints((int64_t[]){4}, 1),
             of_ints((int64_t[]){1}, 1));
    EXPECT(c, exg_dtensor_to_local(y)->data == exg_dtensor_to_local(x)->data, "the same memory");
    exg_dtensor_destroy(y);
    EXPECT(c,
           refusal(&e, "aten.as_strided.default",
                   (exg_object[]){T(x), of_ints((int64_t[]){2}, 1), of_ints((int64_t[]){1}, 1)},
                   3) == EXG_UNSUPPORTED,
           "%s", e.err.message);
    EXPECT(c,
           refusal(&e, "mine.other.default", (exg_object[]){T(x)}, 1) == EXG_UNSUPPORTED &&
               strstr(e.err.message, "mine.other.default") != NULL,
           "%s", e.err.message);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-16, S001-34, S001-35, S001-36, S001-23 */
static void lowerings_come_before_handlers_before_rules(void **state)
{
    (void)state;
    on_mesh("2", run_handlers, NULL);
}

/* ---- fallbacks --------------------------------- */

static void run_fallbacks(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options)};
    const char *key = "aten.view.dtype"; /* no rule */
    exg_object args[2];
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_output_sharding *sharding;
    exg_op_schema s, *target;
    bool moves;
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, NULL);
    EXPECT(c, !exg_rule_exists(exg_operators_find(all_operators(), "torch.ops.aten.view.dtype")),
           "it has a rule now: take another operator for this test");
    x = counted(&e, EXG_DTYPE_I64, "4", "S(0)");
    args[0] = T(x);
    args[1] = exg_object_value(exg_arg_dtype(EXG_DTYPE_F64));
    EXPECT(c,
           refusal(&e, key, args, 2) == EXG_UNSUPPORTED && strcmp(e.err.code, "DSP-004") == 0 &&
               strstr(e.err.message, key) != NULL,
           "%s", e.err.message);
    options.fallback = EXG_FALLBACK_REPLICATE;
    EXPECT(c, exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK, "%s", e.err.message);
    y = call1(&e, key, args, 2);
    EXPECT(c, lies(y, "R") && exg_dtensor_sizes(y)[0] == 4 && exg_dtensor_dtype(y) == EXG_DTYPE_F64,
           "replicated");
    EXPECT(c, ((const int64_t *)on_host(y)->data)[3] == 3, "the whole");
    exg_dtensor_destroy(y);
    options.fallback = EXG_FALLBACK_LOCAL;
    EXPECT(c, exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK, "%s", e.err.message);
    y = call1(&e, key, args, 2);
    EXPECT(c, lies(y, "S(0)") && exg_dtensor_sizes(y)[0] == 4, "as the first argument");
    exg_dtensor_destroy(y);
    EXPECT(c,
           exg_op_schema_from_call(
               &s, exg_operators_find(all_operators(), "torch.ops.aten.view.dtype")->schema, args,
               2, NULL, 0, arena, &e.err) == EXG_OK &&
               exg_propagate_input_sharding(e.d, key, &s, arena, &target, &moves, &sharding,
                                            &e.err) == EXG_OK &&
               target == &s && !moves && sharding == NULL,
           "no sharding, no moves");
    exg_arena_destroy(arena);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void make_on_current_mesh(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options)};
    exg_mesh_shape pair = {.ndim = 1, .sizes = {2}};
    int64_t sizes[1] = {6};
    exg_object args[1] = {of_ints(sizes, 1)};
    exg_device_mesh *two = NULL;
    exg_dtensor *t;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c, exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, NULL) == EXG_OK,
           "a part of the mesh");
    t = call1(&e, "aten.ones.default", args, 1);
    EXPECT(c,
           t != NULL && exg_dtensor_device_mesh(t) == c->mesh &&
               exg_dtensor_dtype(t) == EXG_DTYPE_F32 && exg_dtensor_sizes(t)[0] == 6,
           "on the mesh, of the dtype that is there without one");
    exg_dtensor_destroy(t);
    options.mesh = two;
    EXPECT(c, exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK, "%s", e.err.message);
    t = call1(&e, "aten.ones.default", args, 1);
    EXPECT(c,
           t != NULL && exg_dtensor_device_mesh(t) == two &&
               exg_tensor_numel(exg_dtensor_to_local(t)) ==
                   (exg_device_mesh_is_member(two) ? 6 : 0),
           "on the part of it");
    exg_dtensor_destroy(t);
    options.mesh = NULL;
    options.size = 0;
    EXPECT(c,
           exg_dispatcher_configure(e.d, &options, &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "OPT-001") == 0,
           "options without a size");
    options.size = sizeof(options);
    EXPECT(c, exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK, "%s", e.err.message);
    EXPECT(c,
           refusal(&e, "aten.ones.default", args, 1) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-008") == 0,
           "on none");
    eager_end(&e);
    exg_device_mesh_destroy(two);
}

/* S003-123 */
static void factories_use_the_dispatchers_mesh(void **state)
{
    (void)state;
    on_mesh("3", make_on_current_mesh, NULL);
}

/* S001-02, S001-17, S001-23, S001-24, S001-37 */
static void operators_without_a_rule_fall_back_as_told(void **state)
{
    (void)state;
    on_mesh("2", run_fallbacks, NULL);
}

static void find_infinite(rank_context *c)
{
    eager e;
    exg_dtensor *good, *bad, *found, *scale;
    exg_object items[2], args[3];

    eager_begin(&e, c, NULL);
    good = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    bad = counted(&e, EXG_DTYPE_F32, "3", "S(0)");
    found = parts(&e, EXG_DTYPE_F32, "", "R", (const double[]){0});
    scale = parts(&e, EXG_DTYPE_F32, "", "R", (const double[]){0.5});
    items[0] = T(good);
    items[1] = T(bad);
    args[0] = exg_object_list(items, 1);
    args[1] = T(found);
    args[2] = T(scale);
    (void)call(&e, "aten._amp_foreach_non_finite_check_and_unscale_.default", args, 3);
    expect_values(&e, good, "S(0)", (const double[]){0, 0.5, 1, 1.5}, 4, "unscaled");
    expect_values(&e, found, "R", (const double[]){0}, 1, "nothing is found");
    if (exg_device_mesh_rank(c->mesh) == 1) {
        const exg_tensor *part = on_host(bad);

        ((float *)part->data)[0] = INFINITY;
        to_device(bad, part);
    }
    args[0] = exg_object_list(items, 2);
    (void)call(&e, "aten._amp_foreach_non_finite_check_and_unscale_.default", args, 3);
    EXPECT(c, *(const float *)on_host(found)->data == 1, "found on every rank");
    exg_dtensor_destroy(good);
    exg_dtensor_destroy(bad);
    exg_dtensor_destroy(found);
    exg_dtensor_destroy(scale);
    eager_end(&e);
}

/* S001-36 */
static void what_one_rank_finds_infinite_all_know(void **state)
{
    (void)state;
    on_mesh("2", find_infinite, NULL);
}

/* Two specs as LIST or TUPLE (`user`), whatever lies how. */
static exg_status pair_rule(void *user, exg_op_schema *schema, exg_arena *arena,
                            exg_output_sharding *out, exg_error *err)
{
    exg_dtensor_spec *specs = exg_arena_alloc(arena, 2, sizeof(*specs));
    exg_object *items = exg_arena_alloc(arena, 2, sizeof(*items));

    (void)err;
    for (int i = 0; i < 2; i++) {
        specs[i] = *exg_op_schema_args_spec(schema, 0);
        specs[i].sizes[1] = 1;
        specs[i].strides[0] = 1;
        items[i] = exg_object_spec(&specs[i]);
    }
    specs[1].dtype = EXG_DTYPE_I64;
    out->result = (exg_object){.kind = *(const exg_object_kind *)user, .count = 2, .items = items};
    return EXG_OK;
}

static void run_containers(rank_context *c)
{
    exg_object_kind kinds[2] = {EXG_OBJECT_LIST, EXG_OBJECT_TUPLE};
    eager e;
    exg_dtensor *x, *y, *values, *indices, *z;
    exg_named_object outs[2], other;
    exg_object result;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "2x3", "S(0)");
    values = counted(&e, EXG_DTYPE_F32, "2x1", "S(0)");
    indices = counted(&e, EXG_DTYPE_I64, "2x1", "S(0)");
    outs[0] = (exg_named_object){"values", T(values)};
    outs[1] = (exg_named_object){"indices", T(indices)};
    for (int k = 0; k < 2; k++) {
        exg_op_registration row = {.rule = pair_rule, .user = &kinds[k]};

        EXPECT(c, exg_dispatcher_register(e.d, "aten.topk.default", &row, &e.err) == EXG_OK, "-");
        EXPECT(c,
               exg_dispatch(e.d, "aten.topk.values", (exg_object[]){T(x), of_int(1)}, 2, outs, 2,
                            &result, &e.err) == EXG_OK,
               "%s", e.err.message);
        exg_object_clear(&result, false);
        expect_values(&e, values, "S(0)", (const double[]){2, 5}, 2, "values");
        expect_values(&e, indices, "S(0)", (const double[]){2, 2}, 2, "indices");
    }
    y = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    other = (exg_named_object){"other", T(y)}; /* moved as a positional one would be */
    EXPECT(c,
           exg_dispatch(e.d, "aten.add.Tensor", (exg_object[]){T(x)}, 1, &other, 1, &result,
                        &e.err) == EXG_OK,
           "%s", e.err.message);
    z = result.dtensor;
    expect_values(&e, z, "", (const double[]){0, 2, 4, 6, 8, 10}, 6, "a keyword tensor");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(values);
    exg_dtensor_destroy(indices);
    eager_end(&e);
}

/* S001-44, S001-14 */
static void containers_of_specs_are_alike(void **state)
{
    (void)state;
    on_mesh("2", run_containers, NULL);
}

/* ---- the log --------------------------------- */

static void keep_line(void *user, exg_dispatch_event event, const char *text)
{
    char line[700];

    snprintf(line, sizeof(line), "%d %s", (int)event, text);
    note(user, line);
}

static void run_logged(rank_context *c)
{
    static const char *const want =
        "0 aten.add.Tensor(OpSchema(func_schema=aten::add.Tensor(Tensor self, Tensor other, *, "
        "Scalar alpha=1) -> Tensor, args_schema=(Spec(f32[4, 2](S(0))), Spec(f32[4, 2](S(1)))), "
        "kwargs_schema={'alpha': 2}))\n"
        "1     local shapes: ([2, 2], [4, 1], alpha=None)\n"
        "2     decided: S(0), S(0) -> S(0)\n"
        "3     move operand 1: S(1) -> S(0), 8 bytes\n"
        "0 aten.neg.default(OpSchema(func_schema=aten::neg(Tensor self) -> Tensor, "
        "args_schema=(Spec(f32[4, 2](S(0))),), kwargs_schema={}))\n"
        "1     local shapes: ([2, 2])\n"
        "2     decided: S(0) -> S(0)\n";
    trace t = {""};
    exg_dispatch_options options = {.size = sizeof(options), .log = keep_line, .log_user = &t};
    exg_named_object kwargs[1] = {{"alpha", of_int(2)}};
    exg_object result;
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(1)");
    EXPECT(c,
           exg_dispatch(e.d, "aten.add.Tensor", (exg_object[]){T(x), T(y)}, 2, kwargs, 1, &result,
                        &e.err) == EXG_OK,
           "%s", e.err.message);
    exg_object_clear(&result, true);
    exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
    EXPECT(c, strcmp(t.text, want) == 0, "%s", t.text);
    t.text[0] = '\0';
    exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
    EXPECT(c, strstr(t.text, "2     found: S(0) -> S(0)\n") != NULL, "%s", t.text);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

/* S001-03, S001-19, S001-20 */
static void the_log_tells_what_is_done(void **state)
{
    (void)state;
    on_mesh("2", run_logged, NULL);
}

/* ---- packing and wrapping --------------------------------- */

static void run_packed(rank_context *c)
{
    eager e;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_object moved = exg_object_list(NULL, 0);
    exg_object inner[2], outer[2], args[2], target[2], list[2], nested[2], local[2];
    exg_dtensor_spec whole, same;
    exg_dtensor *x;
    uint64_t before;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    exg_dtensor_get_spec(x, &same);
    whole = same;
    whole.placements[0] = exg_replicate();
    inner[0] = T(x); /* ([a, [b, 2]], None) */
    inner[1] = of_int(2);
    outer[0] = T(x);
    outer[1] = exg_object_list(inner, 2);
    args[0] = exg_object_list(outer, 2);
    args[1] = exg_object_none();
    nested[0] = exg_object_spec(&same);
    nested[1] = of_int(3); /* the schema's value wins */
    list[0] = exg_object_spec(&whole);
    list[1] = exg_object_list(nested, 2);
    target[0] = exg_object_list(list, 2);
    target[1] = exg_object_none();

    before = exg_device_mesh_exchanges(c->mesh);
    EXPECT(c, exg_pack_args(args, target, 2, false, arena, local, &moved, &e.err) == EXG_OK, "%s",
           e.err.message);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before && moved.count == 0, "nothing moves");
    EXPECT(c,
           local[0].items[0].tensor == exg_dtensor_to_local(x) &&
               local[0].items[1].items[1].value.as_int == 3 && local[1].kind == EXG_OBJECT_NONE,
           "the structure");
    EXPECT(c, exg_pack_args(args, target, 2, true, arena, local, &moved, &e.err) == EXG_OK, "%s",
           e.err.message);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before + 1, "one gather");
    EXPECT(c,
           local[0].items[0].tensor->sizes[0] == 4 &&
               local[0].items[1].items[0].tensor->data == exg_dtensor_to_local(x)->data,
           "what has to move did, and nothing else");
    exg_object_clear(&moved, true);
    exg_dtensor_destroy(x);
    exg_arena_destroy(arena);
    eager_end(&e);
}

/* S001-08, S001-09, S001-10, S001-11, S001-12, S001-13, S001-14 */
static void arguments_are_packed_in_their_structure(void **state)
{
    (void)state;
    on_mesh("2", run_packed, NULL);
}

static void run_wrapped(rank_context *c)
{
    float data[4] = {1, 2, 3, 4};
    exg_tensor part = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {2}, .strides = {1}};
    exg_tensor number = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 0};
    exg_dtensor_spec spec = {.mesh = c->mesh,
                             .dtype = EXG_DTYPE_F32,
                             .rank = 1,
                             .sizes = {4},
                             .strides = {1},
                             .placements = {exg_shard(0)}};
    exg_object local[3], specs[3], one, tuple, result;
    const exg_object passed[] = {of_int(3), of_float(2.5), of_bool(true), exg_object_none()};
    exg_error err;

    one = exg_object_tensor(&part);
    specs[0] = exg_object_spec(&spec);
    EXPECT(c,
           exg_wrap(&one, &specs[0], &result, &err) == EXG_OK &&
               exg_dtensor_sizes(result.dtensor)[0] == 4,
           "the shape is the spec's");
    exg_object_clear(&result, true);
    specs[0] = exg_object_none();
    EXPECT(c, exg_wrap(&one, &specs[0], &result, &err) == EXG_MALFORMED, "a tensor without spec");
    one = exg_object_tensor(&number);
    EXPECT(c,
           exg_wrap(&one, &specs[0], &result, &err) == EXG_OK && result.kind == EXG_OBJECT_TENSOR,
           "a 0-d tensor without spec");
    for (int i = 0; i < 4; i++) {
        EXPECT(c,
               exg_wrap(&passed[i], &specs[0], &result, &err) == EXG_OK &&
                   result.kind == passed[i].kind,
               "a number");
    }
    local[0] = exg_object_tensor(&part);
    local[1] = exg_object_none();
    local[2] = exg_object_tensor(&part);
    specs[0] = exg_object_spec(&spec);
    specs[1] = exg_object_spec(&spec);
    specs[2] = exg_object_none();
    tuple = (exg_object){.kind = EXG_OBJECT_TUPLE, .count = 3, .items = local};
    one = exg_object_list(specs, 3);
    EXPECT(c,
           exg_wrap(&tuple, &one, &result, &err) == EXG_OK && result.kind == EXG_OBJECT_TUPLE &&
               result.count == 3 && result.items[0].kind == EXG_OBJECT_DTENSOR &&
               result.items[1].kind == EXG_OBJECT_NONE && result.items[2].kind == EXG_OBJECT_NONE,
           "a tuple");
    exg_object_clear(&result, true);
    one = exg_object_list(specs, 2);
    EXPECT(c,
           exg_wrap(&tuple, &one, &result, &err) == EXG_MALFORMED &&
               strcmp(err.code, "DSP-009") == 0 &&
               strstr(err.message, "3 results and 2 specs") != NULL,
           "%s", err.message);
}

/* S001-48, S001-49, S001-50, S001-51 */
static void results_are_wrapped_by_their_specs(void **state)
{
    (void)state;
    on_mesh("2", run_wrapped, NULL);
}

static void take_apart(rank_context *c)
{
    double data[4] = {1, 2, 3, 4};
    exg_tensor part = {
        .data = data, .dtype = EXG_DTYPE_F64, .rank = 2, .sizes = {2, 2}, .strides = {1, 2}};
    exg_dtensor_spec spec = {.mesh = c->mesh,
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = {4, 2},
                             .strides = {1, 4},
                             .placements = {exg_shard(0)}};
    exg_object local = exg_object_tensor(&part), given = exg_object_spec(&spec), result;
    exg_dtensor_spec seen;
    uint64_t before = exg_device_mesh_exchanges(c->mesh);
    exg_error err;

    EXPECT(c, exg_wrap(&local, &given, &result, &err) == EXG_OK, "%s", err.message);
    exg_dtensor_get_spec(result.dtensor, &seen);
    EXPECT(c, seen.strides[0] == 1 && seen.strides[1] == 4, "the spec's strides are kept");
    EXPECT(c, seen.dtype == EXG_DTYPE_F64, "the dtype is the part's");
    EXPECT(c, borrows(result.dtensor, data) && exg_device_mesh_exchanges(c->mesh) == before,
           "copied, or sent something");
    seen.sizes[0] = 8; /* put together anew: (8) over the same memory as (4) */
    seen.sizes[1] = 1;
    seen.strides[1] = 8;
    part = *exg_dtensor_to_local(result.dtensor);
    part.sizes[0] = 4;
    part.sizes[1] = 1;
    spec = seen;
    exg_object_clear(&result, true);
    EXPECT(c, exg_wrap(&local, &given, &result, &err) == EXG_OK, "%s", err.message);
    exg_dtensor_get_spec(result.dtensor, &seen);
    EXPECT(c, exg_dtensor_spec_equal(&seen, &spec), "another spec");
    exg_object_clear(&result, true);
}

/* S003-40, S003-45, S003-46 */
static void a_part_and_a_spec_are_a_dtensor(void **state)
{
    (void)state;
    on_mesh("2", take_apart, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_in_is_of_an_operator),
        cmocka_unit_test(a_number_has_the_dtype_beside),
        cmocka_unit_test(a_rule_of_ones_own_replaces_the_tables),
        cmocka_unit_test(bad_rules_are_named),
        cmocka_unit_test(not_every_fault_is_explained),
        cmocka_unit_test(rules_rewrite_calls),
        cmocka_unit_test(suggestions_are_the_call_with_other_specs),
        cmocka_unit_test(lowerings_come_before_handlers_before_rules),
        cmocka_unit_test(operators_without_a_rule_fall_back_as_told),
        cmocka_unit_test(factories_use_the_dispatchers_mesh),
        cmocka_unit_test(what_one_rank_finds_infinite_all_know),
        cmocka_unit_test(containers_of_specs_are_alike),
        cmocka_unit_test(the_log_tells_what_is_done),
        cmocka_unit_test(arguments_are_packed_in_their_structure),
        cmocka_unit_test(results_are_wrapped_by_their_specs),
        cmocka_unit_test(a_part_and_a_spec_are_a_dtensor),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
