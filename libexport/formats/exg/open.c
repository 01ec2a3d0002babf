/* open.c - .exg: metadata copied, checked and decoded; weights stay where they lie. */
#include "libexport/base/arena.h"
#include "libexport/formats/exg/flat.h"
#include "libexport/formats/format.h"
#include "libexport/formats/weights_file.h"

#include <stdlib.h>
#include <string.h>

bool exg_exg_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 8 && memcmp(data + 4, "EXGP", 4) == 0;
}

exg_status exg_exg_open(const exg_source *source, const exg_open_options *options,
                        exg_program **program, exg_file_info *info, exg_error *err)
{
    uint64_t length;
    exg_program *made = NULL;
    exg_status status;

    EXG_TRY(exg_flat_length(source->data, source->length, &length, err));
    status = exg_program_create(source->allocator, source->budget, &made, err);
    if (status == EXG_OK) {
        status = exg_flat_decode(source->data, source->length, (size_t)length, made, err);
    }
    if (status == EXG_OK && options->program != NULL && strcmp(options->program, made->name) != 0) {
        status = EXG_FAIL(err, USAGE, "EXG-006", "the file holds '%s', not '%s'", made->name,
                          options->program);
    }
    if (status == EXG_OK) {
        status = exg_file_info_add_program(info, made->name, err);
    }
    if (status == EXG_OK && options->check_crc) {
        for (uint32_t i = 0; status == EXG_OK && i < made->weights->storage_count; i++) {
            if (made->weights->storages[i].location == NULL) {
                status = exg_storage_check(made->weights, i, err);
            }
        }
    }
    if (status != EXG_OK) {
        status = exg_arena_settle(made == NULL ? NULL : made->arena, status, err);
        exg_program_destroy(made);
        return status;
    }
    *program = made;
    return EXG_OK;
}

bool exg_container_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 8 && memcmp(data + 4, EXG_WEIGHTS_IDENTIFIER, 4) == 0;
}

exg_status exg_container_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    uint64_t length;
    exg_program *program = NULL;
    exg_status status;

    EXG_TRY(exg_flat_length(source->data, source->length, &length, err));
    EXG_TRY(exg_program_create(source->allocator, source->budget, &program, err));
    exg_weights_release(program->weights);
    program->weights = exg_weights_retain(weights);
    status = exg_flat_decode(source->data, source->length, (size_t)length, program, err);
    status = exg_arena_settle(program->arena, status, err);
    exg_program_destroy(program);
    return status;
}
