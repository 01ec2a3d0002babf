/* schema.c - ExportedProgram and what is not graph or signature: docs/pt2.md 1.7. */
#include "libexport/formats/pt2/decode.h"

#include <exg/weights.h>

#define SCHEMA_MAJOR 8
#define SCHEMA_MINOR 20

/* Before the verifiers list there was one dialect. */
static exg_status decode_dialect(exg_decoder *d, exg_json value, exg_program *program)
{
    program->verifiers = EXG_NEW_ARRAY(d->arena, const char *, 1);
    if (program->verifiers == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY(exg_decoder_text(d, value, &program->verifiers[0]));
    program->verifier_count = 1;
    return EXG_OK;
}

/* Asked first: of another major nothing else is believed. 0.0 skips the check, as
 * it does in PyTorch. */
static exg_status check_version(exg_decoder *d, exg_json root, exg_program *program)
{
    exg_json version;

    if (!exg_json_find(root, "schema_version", &version)) {
        return exg_json_fault(root, d->err, EXG_MALFORMED, "JSN-002",
                              "key 'schema_version' is missing");
    }
    if (exg_json_type_of(version) == EXG_JSON_INT) { /* schema 1 to 4: one number */
        program->schema_minor = 0;
        EXG_TRY(exg_json_int(version, &program->schema_major, d->err));
    } else {
        EXG_TRY_IN(d->err, exg_decode_members(d, version, EXG_MODEL_SCHEMA_VERSION, program),
                   "schema_version");
    }
    if (program->schema_major < 0 || program->schema_minor < 0) {
        return exg_json_fault(version, d->err, EXG_MALFORMED, "JSN-005",
                              "no schema has version %lld.%lld", (long long)program->schema_major,
                              (long long)program->schema_minor);
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
    exg_json dialect;
    exg_decoder d;
    exg_status status;

    exg_decoder_init(&d, program->arena, err);
    status = check_version(&d, root, program);
    if (status == EXG_OK) {
        status = exg_decode_members(&d, root, EXG_MODEL_PROGRAM, program);
    }
    if (status == EXG_OK && exg_json_find(root, "dialect", &dialect)) {
        status = decode_dialect(&d, dialect, program);
        status = status == EXG_OK ? EXG_OK : exg_error_within(err, status, "dialect");
    }
    exg_decoder_free(&d);
    return status;
}
