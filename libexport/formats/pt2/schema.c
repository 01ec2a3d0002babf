/* schema.c - ExportedProgram and what is not graph or signature: docs/pt2.md 1.7. */
#include "libexport/formats/pt2/decode.h"

#include <exg/weights.h>

#define SCHEMA_MAJOR 8
#define SCHEMA_MINOR 20

/* ---- module call graph ------------------------------------------------------------------- */

static exg_status field_call_signature(exg_decoder *d, exg_json value, void *base,
                                       const exg_field *field)
{
    static const exg_field fields[] = {
        EXG_FIELD_LIST(exg_module_call, inputs, input_count, "inputs", EXG_FIELD_REQUIRED,
                       exg_decode_argument),
        EXG_FIELD_LIST(exg_module_call, outputs, output_count, "outputs", EXG_FIELD_REQUIRED,
                       exg_decode_argument),
        EXG_FIELD(exg_module_call, in_spec, "in_spec", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(exg_module_call, out_spec, "out_spec", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_LIST(exg_module_call, forward_arg_names, forward_arg_name_count,
                       "forward_arg_names", EXG_FIELD_NULLABLE, exg_item_text),
    };
    exg_module_call *call = base;

    (void)field;
    call->has_signature = true;
    return exg_decode_struct(d, value, call, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_module_call(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_module_call, fqn, "fqn", EXG_FIELD_REQUIRED, exg_field_text),
        {"signature", 9, EXG_FIELD_NULLABLE, field_call_signature, 0},
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

/* ---- graph module ------------------------------------------------------------------------- */

static exg_status field_graph(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_program *program = base;

    (void)field;
    return exg_decode_graph_body(d, value, program->graph);
}

static exg_status field_signature(exg_decoder *d, exg_json value, void *base,
                                  const exg_field *field)
{
    exg_program *program = base;

    (void)field;
    return exg_decode_signature(d, value, &program->signature);
}

static exg_status member_named_tuple(exg_decoder *d, const char *key, uint32_t key_length,
                                     exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD_LIST(exg_named_tuple, field_names, field_count, "field_names", EXG_FIELD_REQUIRED,
                       exg_item_text),
    };
    exg_named_tuple *tuple = item;

    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &tuple->type));
    return exg_decode_struct(d, value, tuple, fields, EXG_FIELD_COUNT(fields));
}

static exg_status field_graph_module(exg_decoder *d, exg_json value, void *base,
                                     const exg_field *field)
{
    static const exg_field fields[] = {
        {"graph", 5, EXG_FIELD_REQUIRED, field_graph, 0},
        {"signature", 9, EXG_FIELD_REQUIRED, field_signature, 0},
        EXG_FIELD_LIST(exg_program, module_calls, module_call_count, "module_call_graph",
                       EXG_FIELD_REQUIRED, item_module_call),
        EXG_FIELD(exg_program, metadata, "metadata", EXG_FIELD_OPTIONAL, exg_field_strings),
        EXG_FIELD_MAP(exg_program, named_tuples, named_tuple_count, "treespec_namedtuple_fields",
                      EXG_FIELD_OPTIONAL, member_named_tuple),
    };

    exg_program *program = base;

    (void)field;
    /* Signature and module calls name values of the graph, in whatever order the
     * keys come: one scope for all three. */
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(exg_decode_struct(d, value, program, fields, EXG_FIELD_COUNT(fields)));
    return exg_decoder_leave(d, program->graph);
}

/* ---- program ------------------------------------------------------------------------------- */

static exg_status member_opset(exg_decoder *d, const char *key, uint32_t key_length, exg_json value,
                               void *item)
{
    exg_opset *opset = item;

    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &opset->name_space));
    return exg_json_int(value, &opset->version, d->err);
}

static exg_status field_min(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_range_constraint *range = base;

    (void)field;
    range->has_min = true;
    return exg_json_int(value, &range->min_val, d->err);
}

static exg_status field_max(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_range_constraint *range = base;

    (void)field;
    range->has_max = true;
    return exg_json_int(value, &range->max_val, d->err);
}

static exg_status member_range(exg_decoder *d, const char *key, uint32_t key_length, exg_json value,
                               void *item)
{
    static const exg_field fields[] = {
        {"min_val", 7, EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE, field_min, 0},
        {"max_val", 7, EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE, field_max, 0},
    };
    exg_range_constraint *range = item;

    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &range->symbol));
    return exg_decode_struct(d, value, range, fields, EXG_FIELD_COUNT(fields));
}

/* Before the verifiers list there was one dialect. */
static exg_status field_dialect(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_program *program = base;

    (void)field;
    program->verifiers = EXG_NEW_ARRAY(d->arena, const char *, 1);
    if (program->verifiers == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY(exg_decoder_text(d, value, &program->verifiers[0]));
    program->verifier_count = 1;
    return EXG_OK;
}

/* It was asked first, in check_version(). */
static exg_status field_version(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    (void)d;
    (void)value;
    (void)base;
    (void)field;
    return EXG_OK;
}

/* Asked first: of another major nothing else is believed. 0.0 skips the check, as
 * it does in PyTorch. */
static exg_status check_version(exg_decoder *d, exg_json root, exg_program *program)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_program, schema_major, "major", EXG_FIELD_REQUIRED, exg_field_int),
        EXG_FIELD(exg_program, schema_minor, "minor", EXG_FIELD_REQUIRED, exg_field_int),
    };
    exg_json version;

    if (!exg_json_find(root, "schema_version", &version)) {
        return exg_json_fault(root, d->err, EXG_MALFORMED, "JSN-002",
                              "key 'schema_version' is missing");
    }
    if (exg_json_type_of(version) == EXG_JSON_INT) { /* schema 1 to 4: one number */
        program->schema_minor = 0;
        EXG_TRY(exg_json_int(version, &program->schema_major, d->err));
    } else {
        EXG_TRY_IN(d->err, exg_decode_struct(d, version, program, fields, EXG_FIELD_COUNT(fields)),
                   "schema_version");
    }
    if (program->schema_major != SCHEMA_MAJOR &&
        (program->schema_major != 0 || program->schema_minor != 0)) {
        return exg_error_fix(
            d->err,
            exg_json_fault(version, d->err, EXG_UNSUPPORTED, "JSN-005",
                           "the program has schema version %lld.%lld, this reader knows %d.%d",
                           (long long)program->schema_major, (long long)program->schema_minor,
                           SCHEMA_MAJOR, SCHEMA_MINOR),
            program->schema_major > SCHEMA_MAJOR
                ? "update exg, or export with a PyTorch that writes schema %d"
                : "load it with the PyTorch that saved it and export it again (schema %d)",
            SCHEMA_MAJOR);
    }
    return EXG_OK;
}

exg_status exg_decode_program(exg_json root, exg_program *program, exg_error *err)
{
    static const exg_field fields[] = {
        {"graph_module", 12, EXG_FIELD_REQUIRED, field_graph_module, 0},
        EXG_FIELD_MAP(exg_program, opsets, opset_count, "opset_version", EXG_FIELD_REQUIRED,
                      member_opset),
        EXG_FIELD_MAP(exg_program, range_constraints, range_constraint_count, "range_constraints",
                      EXG_FIELD_REQUIRED, member_range),
        {"schema_version", 14, EXG_FIELD_REQUIRED, field_version, 0},
        EXG_FIELD_LIST(exg_program, verifiers, verifier_count, "verifiers", EXG_FIELD_OPTIONAL,
                       exg_item_text),
        EXG_FIELD(exg_program, torch_version, "torch_version", EXG_FIELD_OPTIONAL, exg_field_text),
        EXG_FIELD_LIST(exg_program, guards_code, guard_count, "guards_code", EXG_FIELD_OPTIONAL,
                       exg_item_text),
        {"dialect", 7, EXG_FIELD_OPTIONAL, field_dialect, 0},
    };
    exg_decoder d;
    exg_status status;

    exg_decoder_init(&d, program->arena, err);
    status = check_version(&d, root, program);
    if (status == EXG_OK) {
        status = exg_decode_struct(&d, root, program, fields, EXG_FIELD_COUNT(fields));
    }
    exg_decoder_free(&d);
    return status;
}
