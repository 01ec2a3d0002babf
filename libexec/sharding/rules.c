/* rules.c - from the sharding column to strategies: letters, pointwise families, and the
 * table of named rules. */
#include "libexec/sharding/rules.h"
#include "libexport/operators/registered.h"

#include <exg/operator_id_new.h>
#include <string.h>

/* ---- letters ---------------------------------------------------------------------- */

/* Letters of one tensor after the other, a letter a dim, commas between them: "mk,kn". */
typedef struct letters_of {
    const char *text; /* of the tensor that is next */
    uint32_t rank;
} letters_of;

static letters_of first_letters(const char *text)
{
    return (letters_of){text, (uint32_t)strcspn(text, ",-")};
}

static letters_of next_letters(letters_of l)
{
    return first_letters(l.text + l.rank + (l.text[l.rank] == ','));
}

/* The dim that `letter` stands for, or -1. */
static int32_t dim_of(letters_of l, char letter)
{
    const char *found = memchr(l.text, letter, l.rank);

    return found == NULL ? -1 : (int32_t)(found - l.text);
}

/* Has each tensor a dim a letter? One of a library says so of tensors of any rank. */
static bool letters_fit(const exg_rule_call *call, const char *letters)
{
    letters_of l = first_letters(letters);

    for (uint32_t i = 0; i < call->operand_count; i++, l = next_letters(l)) {
        if (call->operands[i] != NULL && call->operands[i]->rank != l.rank) {
            return false;
        }
    }
    l = first_letters(strstr(letters, "->") + 2);
    for (uint32_t r = 0; r < call->result_count; r++) {
        if (call->results[r]->rank != l.rank) {
            return false;
        }
        if (l.text[l.rank] == '\0') {
            break; /* what an effect gives more has no letters */
        }
        l = next_letters(l);
    }
    return true;
}

/* Is it one size, wherever it stands? One of 1 may be broadcast, and is not split then. Without an
 * operand that has it nothing is. */
static bool is_one_size(const exg_rule_call *call, const char *letters, char letter)
{
    letters_of l = first_letters(letters);
    int64_t size = -1;

    for (uint32_t i = 0; i < call->operand_count; i++, l = next_letters(l)) {
        int32_t dim = call->operands[i] == NULL ? -1 : dim_of(l, letter);
        int64_t own = dim < 0 ? size : call->operands[i]->sizes[dim].value;

        if (size >= 0 && own != size) {
            return false;
        }
        size = own;
    }
    return size >= 0;
}

/* A letter in an output stays split; one only in inputs leaves partial sums. */
static exg_status add_letter(exg_rule_call *call, const char *letters, char letter)
{
    exg_strategy *strategy = exg_strategy_add(call);
    letters_of l = first_letters(letters);

    if (strategy == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    for (uint32_t i = 0; i < call->operand_count; i++, l = next_letters(l)) {
        int32_t dim = dim_of(l, letter);

        if (dim >= 0) {
            strategy->operands[i] = exg_shard(dim);
        }
    }
    l = first_letters(strstr(letters, "->") + 2);
    for (uint32_t r = 0; r < call->result_count; r++) {
        int32_t dim = dim_of(l, letter);

        strategy->results[r] = dim >= 0 ? exg_shard(dim) : exg_partial(EXG_REDUCE_SUM);
        if (l.text[l.rank] == '\0') {
            break;
        }
        l = next_letters(l);
    }
    return EXG_OK;
}

static exg_status letter_strategies(exg_rule_call *call, const char *letters)
{
    if (!letters_fit(call, letters)) {
        return EXG_OK;
    }
    for (char letter = 'a'; letter <= 'z'; letter++) {
        if (is_one_size(call, letters, letter)) {
            EXG_TRY(add_letter(call, letters, letter));
        }
    }
    return EXG_OK;
}

/* ---- pointwise -------------------------------------------------------------------- */

typedef enum family {
    FAMILY_NONE,
    FAMILY_LINEAR,
    FAMILY_ADD,
    FAMILY_MUL,
    FAMILY_DIV,
    FAMILY_INCREASING,
    FAMILY_DECREASING,
    FAMILY_MAXIMUM,
    FAMILY_MINIMUM,
    FAMILY_ANY
} family;

/* Partial strategies of a family: result <- operand 0, operand 1. R where `none`. */
typedef struct partial_strategy {
    family of;
    exg_reduce_op result;
    exg_reduce_op operands[2]; /* EXG_REDUCE_OP_COUNT: replicated */
} partial_strategy;

#define WHOLE EXG_REDUCE_OP_COUNT

static const partial_strategy partial_strategies[] = {
    {FAMILY_LINEAR, EXG_REDUCE_SUM, {EXG_REDUCE_SUM, WHOLE}},
    {FAMILY_LINEAR, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, WHOLE}},
    {FAMILY_ADD, EXG_REDUCE_SUM, {EXG_REDUCE_SUM, EXG_REDUCE_SUM}},
    {FAMILY_ADD, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, EXG_REDUCE_AVG}},
    {FAMILY_ADD, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, WHOLE}},
    {FAMILY_ADD, EXG_REDUCE_AVG, {WHOLE, EXG_REDUCE_AVG}},
    {FAMILY_MUL, EXG_REDUCE_SUM, {EXG_REDUCE_SUM, WHOLE}},
    {FAMILY_MUL, EXG_REDUCE_SUM, {WHOLE, EXG_REDUCE_SUM}},
    {FAMILY_MUL, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, WHOLE}},
    {FAMILY_MUL, EXG_REDUCE_AVG, {WHOLE, EXG_REDUCE_AVG}},
    {FAMILY_DIV, EXG_REDUCE_SUM, {EXG_REDUCE_SUM, WHOLE}},
    {FAMILY_DIV, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, WHOLE}},
    {FAMILY_INCREASING, EXG_REDUCE_MAX, {EXG_REDUCE_MAX, WHOLE}},
    {FAMILY_INCREASING, EXG_REDUCE_MIN, {EXG_REDUCE_MIN, WHOLE}},
    {FAMILY_DECREASING, EXG_REDUCE_MIN, {EXG_REDUCE_MAX, WHOLE}},
    {FAMILY_DECREASING, EXG_REDUCE_MAX, {EXG_REDUCE_MIN, WHOLE}},
    {FAMILY_MAXIMUM, EXG_REDUCE_MAX, {EXG_REDUCE_MAX, EXG_REDUCE_MAX}},
    {FAMILY_MAXIMUM, EXG_REDUCE_MAX, {EXG_REDUCE_MAX, WHOLE}},
    {FAMILY_MAXIMUM, EXG_REDUCE_MAX, {WHOLE, EXG_REDUCE_MAX}},
    {FAMILY_MINIMUM, EXG_REDUCE_MIN, {EXG_REDUCE_MIN, EXG_REDUCE_MIN}},
    {FAMILY_MINIMUM, EXG_REDUCE_MIN, {EXG_REDUCE_MIN, WHOLE}},
    {FAMILY_MINIMUM, EXG_REDUCE_MIN, {WHOLE, EXG_REDUCE_MIN}},
    {FAMILY_ANY, EXG_REDUCE_SUM, {EXG_REDUCE_SUM, WHOLE}},
    {FAMILY_ANY, EXG_REDUCE_AVG, {EXG_REDUCE_AVG, WHOLE}},
    {FAMILY_ANY, EXG_REDUCE_MAX, {EXG_REDUCE_MAX, WHOLE}},
    {FAMILY_ANY, EXG_REDUCE_MIN, {EXG_REDUCE_MIN, WHOLE}},
};

/* A sum may not pass an operation on integers that rounds or wraps otherwise, nor a
 * multiplication by a negative number for max and min: those have no strategy above. */
static exg_status pointwise_strategies(exg_rule_call *call, family of)
{
    const exg_tensor_meta *out = call->results[0];

    for (uint32_t d = 0; d < out->rank; d++) {
        exg_strategy *strategy = exg_strategy_add(call);

        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->results[0] = exg_shard((int32_t)d);
        for (uint32_t i = 0; i < call->operand_count; i++) {
            const exg_tensor_meta *in = call->operands[i];
            uint32_t missing = in == NULL ? 0 : out->rank - in->rank;

            if (in != NULL && d >= missing && in->sizes[d - missing].value == out->sizes[d].value) {
                strategy->operands[i] = exg_shard((int32_t)(d - missing));
            }
        }
    }
    for (size_t r = 0; r < sizeof(partial_strategies) / sizeof(partial_strategies[0]); r++) {
        bool same_dtype = call->operand_count > 0 && call->operands[0] != NULL &&
                          call->operands[0]->dtype == out->dtype;
        exg_strategy *strategy;

        if (partial_strategies[r].of != of || !same_dtype || call->operand_count > 2) {
            continue;
        }
        strategy = exg_strategy_add(call);
        if (strategy == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        strategy->results[0] = exg_partial(partial_strategies[r].result);
        for (uint32_t i = 0; i < call->operand_count; i++) {
            if (partial_strategies[r].operands[i] != WHOLE) {
                strategy->operands[i] = exg_partial(partial_strategies[r].operands[i]);
            }
        }
    }
    return EXG_OK;
}

/* ---- the column --------------------------------------------------------------------- */

/* Named rules, declared by the rows of operators: exg_rule_<name>() in view_rules.c,
 * compute_rules.c. */
#define NONE          NULL, NULL, FAMILY_NONE
#define LETTERS(text) text, NULL, FAMILY_NONE
#define RULE(name)    NULL, exg_rule_##name, FAMILY_NONE
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)
#define EXG_SYMBOLIC(id, target, schema, evaluate)
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)
#define EXG_VIEW(id, schema, view, lowering, sharding)
#define EXG_NAMED_RULE(name) exg_operator_rule exg_rule_##name;
#include "libexec/sharding/named_rules.def"
#undef EXG_NAMED_RULE

typedef struct column {
    const char *letters;
    exg_operator_rule *rule;
    family of;
} column;

#undef EXG_OPERATOR
#undef EXG_VIEW
#undef EXG_POINTWISE
static const column columns[EXG_OPERATOR_COUNT] = {
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding) [EXG_OP_##id] = {sharding},
#define EXG_VIEW(id, schema, view, lowering, sharding)              [EXG_OP_##id] = {sharding},
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    [EXG_OP_##id] = {NULL, NULL, FAMILY_##sharding},
#include "libexport/operators/operators.def"
};
#undef NONE

/* Of a library's operator NULL: it says letters, or nothing. */
static const column *column_of(const exg_operator *op)
{
    return op->registered == NULL ? &columns[op->id] : NULL;
}

static exg_status strategies_of(exg_rule_call *call)
{
    const column *c = column_of(call->op);

    if (exg_strategy_add(call) == NULL) {
        return EXG_OUT_OF_MEMORY(call->err);
    }
    if (c == NULL) {
        const char *letters = call->op->registered->definition.sharding;

        return letters == NULL ? EXG_OK : letter_strategies(call, letters);
    }
    if (c->letters != NULL) {
        return letter_strategies(call, c->letters);
    }
    if (call->op->pointwise != EXG_POINTWISE_NOT) {
        return pointwise_strategies(call, c->of);
    }
    return c->rule == NULL ? EXG_OK : c->rule(call);
}

static bool has_dim(const exg_tensor_meta *meta, exg_placement placement)
{
    return meta == NULL || !exg_placement_is_shard(placement) ||
           (placement.dim >= 0 && (uint32_t)placement.dim < meta->rank);
}

/* Does it cut no dim that is not there? A 0-d tensor may stand where rules think of one dim. */
static bool cuts_what_is_there(const exg_rule_call *call, const exg_strategy *strategy)
{
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (!has_dim(call->operands[i], strategy->operands[i])) {
            return false;
        }
    }
    for (uint32_t r = 0; r < call->result_count; r++) {
        if (!has_dim(call->results[r], strategy->results[r])) {
            return false;
        }
    }
    return true;
}

exg_status exg_rule_strategies(exg_rule_call *call)
{
    uint32_t kept = 0;

    EXG_TRY(strategies_of(call));
    for (uint32_t r = 0; r < call->strategy_count; r++) {
        if (cuts_what_is_there(call, &call->strategies[r])) {
            call->strategies[kept++] = call->strategies[r];
        }
    }
    call->strategy_count = kept;
    return EXG_OK;
}

const char *exg_rule_text(const exg_operator *op)
{
    const column *c = column_of(op);

    return op->pointwise != EXG_POINTWISE_NOT ? "element by element"
           : c != NULL && c->letters != NULL  ? c->letters
           : c == NULL || c->rule != NULL     ? "by a rule"
                                              : "whole on each rank";
}

bool exg_rule_exists(const exg_operator *op)
{
    const column *c = column_of(op);

    return c == NULL || c->letters != NULL || c->rule != NULL || op->pointwise != EXG_POINTWISE_NOT;
}
