/* signature.c - the graph signature for exg inspect --signature. */
#include "cli/signature.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>

typedef uint32_t targets_view(const exg_signature *s, const char **targets, uint32_t capacity);
typedef uint32_t pairs_view(const exg_signature *s, exg_string_pair *pairs, uint32_t capacity);

static const struct {
    const char *name;
    targets_view *view;
} targets_views[] = {
    {"parameters", exg_signature_parameters},
    {"buffers", exg_signature_buffers},
    {"non_persistent_buffers", exg_signature_non_persistent_buffers},
    {"lifted_tensor_constants", exg_signature_lifted_tensor_constants},
    {"lifted_custom_objs", exg_signature_lifted_custom_objs},
};

static const struct {
    const char *name;
    pairs_view *view;
} pairs_views[] = {
    {"inputs_to_parameters", exg_signature_inputs_to_parameters},
    {"inputs_to_buffers", exg_signature_inputs_to_buffers},
    {"buffers_to_mutate", exg_signature_buffers_to_mutate},
    {"parameters_to_mutate", exg_signature_parameters_to_mutate},
    {"user_inputs_to_mutate", exg_signature_user_inputs_to_mutate},
    {"inputs_to_lifted_tensor_constants", exg_signature_inputs_to_lifted_tensor_constants},
    {"inputs_to_lifted_custom_objs", exg_signature_inputs_to_lifted_custom_objs},
};

/* Room for what any view gives. */
typedef struct room {
    const char **names;
    exg_string_pair *pairs;
    const exg_signature_argument **leaves;
    uint32_t capacity;
} room;

static void put_names(exg_text *out, const char *key, const char *const *names, uint32_t count)
{
    exg_json_member_open(out, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_text(out, names[i]);
    }
    exg_json_put_close(out, ']');
}

static void put_pairs(exg_text *out, const char *key, pairs_view *view, const exg_signature *s,
                      const room *r)
{
    uint32_t count = view(s, r->pairs, r->capacity);

    exg_json_member_open(out, key, '{');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_member_text(out, r->pairs[i].key, r->pairs[i].value);
    }
    exg_json_put_close(out, '}');
}

/* A value as {"name": ...}, a constant as itself. */
static void put_leaf(exg_text *out, const exg_signature_argument *leaf)
{
    switch (leaf->kind) {
    case EXG_ARGUMENT_NONE:
        exg_json_put_null(out);
        break;
    case EXG_ARGUMENT_INT:
        exg_json_put_int(out, leaf->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_json_put_double(out, leaf->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_json_put_bool(out, leaf->as_bool);
        break;
    case EXG_ARGUMENT_STRING:
        exg_json_put_text(out, leaf->as_string);
        break;
    default: /* the kinds that have a name */
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", leaf->name);
        exg_json_put_close(out, '}');
        break;
    }
}

static void put_leaves(exg_text *out, const char *key, const room *r, uint32_t count)
{
    exg_json_member_open(out, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        put_leaf(out, r->leaves[i]);
    }
    exg_json_put_close(out, ']');
}

static exg_status put_backward(exg_text *out, const exg_signature *s, const room *r, exg_error *err)
{
    exg_backward_signature backward;
    bool exists = false;

    EXG_TRY(exg_signature_backward(s, &exists, &backward, err));
    exg_json_put_key(out, "backward_signature");
    if (!exists) {
        exg_json_put_null(out);
        return EXG_OK;
    }
    exg_json_put_open(out, '{');
    put_pairs(out, "gradients_to_parameters", exg_signature_gradients_to_parameters, s, r);
    put_pairs(out, "gradients_to_user_inputs", exg_signature_gradients_to_user_inputs, s, r);
    exg_json_member_text(out, "loss_output", backward.loss_output);
    exg_json_put_close(out, '}');
    return EXG_OK;
}

void cli_put_assertion_token(exg_text *text, const exg_signature *signature)
{
    const char *name;
    uint32_t index;
    char key[12];

    exg_json_put_key(text, "assertion_dep_token");
    if (!exg_signature_assertion_dep_token(signature, &index, &name)) {
        exg_json_put_null(text);
        return;
    }
    snprintf(key, sizeof(key), "%" PRIu32, index);
    exg_json_put_open(text, '{');
    exg_json_member_text(text, key, name);
    exg_json_put_close(text, '}');
}

static exg_status put_views(exg_text *out, const exg_signature *s, const room *r, exg_error *err)
{
    uint32_t count = 0;
    char *repr = NULL;

    EXG_TRY(exg_signature_repr(s, &repr, err));
    cli_json_begin(out);
    exg_json_member_text(out, "repr", repr);
    free(repr);
    for (size_t i = 0; i < sizeof(targets_views) / sizeof(targets_views[0]); i++) {
        count = targets_views[i].view(s, r->names, r->capacity);
        put_names(out, targets_views[i].name, r->names, count);
    }
    EXG_TRY(exg_signature_input_tokens(s, r->names, r->capacity, &count, err));
    put_names(out, "input_tokens", r->names, count);
    EXG_TRY(exg_signature_output_tokens(s, r->names, r->capacity, &count, err));
    put_names(out, "output_tokens", r->names, count);
    EXG_TRY(exg_signature_user_inputs(s, r->leaves, r->capacity, &count, err));
    put_leaves(out, "user_inputs", r, count);
    EXG_TRY(exg_signature_user_outputs(s, EXG_WITH_LOSS, r->leaves, r->capacity, &count, err));
    put_leaves(out, "user_outputs", r, count);
    for (size_t i = 0; i < sizeof(pairs_views) / sizeof(pairs_views[0]); i++) {
        put_pairs(out, pairs_views[i].name, pairs_views[i].view, s, r);
    }
    EXG_TRY(put_backward(out, s, r, err));
    cli_put_assertion_token(out, s);
    cli_json_end(out);
    return EXG_OK;
}

static exg_status print_json(FILE *out, const exg_signature *s, exg_error *err)
{
    uint32_t capacity = s->input_count + s->output_count;
    room r = {calloc(capacity + 1, sizeof(*r.names)), calloc(capacity + 1, sizeof(*r.pairs)),
              calloc(capacity + 1, sizeof(*r.leaves)), capacity};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = r.names == NULL || r.pairs == NULL || r.leaves == NULL
                            ? EXG_OUT_OF_MEMORY(err)
                            : put_views(&text, s, &r, err);

    status = status == EXG_OK ? cli_put(out, &text, err) : status;
    exg_text_free(&text);
    free(r.names);
    free(r.pairs);
    free(r.leaves);
    return status;
}

exg_status cli_print_signature(FILE *out, const exg_signature *signature, bool json, exg_error *err)
{
    exg_text plain = EXG_TEXT_EMPTY;
    char *text = NULL;
    const char *name;
    uint32_t index;
    exg_status status;

    if (json) {
        return print_json(out, signature, err);
    }
    EXG_TRY(exg_signature_print(signature, &text, err));
    exg_text_plain(&plain, text, true);
    if (exg_signature_assertion_dep_token(signature, &index, &name)) {
        exg_text_printf(&plain, "\n# assertion_dep_token\noutput %" PRIu32 ": ", index);
        exg_text_plain(&plain, name, false);
        exg_text_putc(&plain, '\n');
    }
    status = cli_put(out, &plain, err);
    exg_text_free(&plain);
    free(text);
    return status;
}
