/* agreement.c - digests of what ranks must have alike. */
#include "libexec/session/agreement.h"
#include "libexport/base/arena.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/storage.h"

#include <exg/module.h>
#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static exg_status digest_text(exg_text *text, uint64_t *digest, exg_error *err)
{
    exg_status status = text->failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    *digest = status == EXG_OK ? XXH3_64bits(exg_text_string(text), text->length) : 0;
    exg_text_free(text);
    return status;
}

static exg_status digest_program(const exg_program *program, uint64_t *digest, exg_error *err)
{
    char *text;

    EXG_TRY(exg_program_print(program, &text, err));
    *digest = XXH3_64bits(text, strlen(text));
    free(text);
    return EXG_OK;
}

static exg_status take(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    (void)err;
    XXH3_64bits_update(user, bytes, length);
    return EXG_OK;
}

/* Of weights by name and size the checksums that the file gives; where it gives none, one of the
 * bytes. */
static exg_status digest_weights(exg_weights *weights, bool with_bytes, uint64_t *digest,
                                 exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    XXH3_state_t *state = XXH3_createState();
    exg_status status = state == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t i = 0; i < weights->count; i++) {
        exg_text_printf(&text, "%s %u\n", weights->items[i].fqn, weights->items[i].storage);
    }
    for (uint32_t i = 0; status == EXG_OK && i < weights->storage_count; i++) {
        const exg_storage *storage = &weights->storages[i];

        exg_text_printf(&text, "%" PRIu64 " %s\n", storage->length,
                        storage->checksum.text == NULL ? "" : storage->checksum.text);
        if (storage->checksum.kind == EXG_CHECKSUM_NONE && with_bytes) {
            XXH3_64bits_reset(state);
            status = exg_storage_stream(weights, i, NULL, take, state, err);
            exg_text_printf(&text, "%" PRIu64 "\n", XXH3_64bits_digest(state));
        }
    }
    XXH3_freeState(state);
    if (status != EXG_OK) {
        exg_text_free(&text);
        return status;
    }
    return digest_text(&text, digest, err);
}

static exg_status digest_placement(const exg_partitioning *placing, uint32_t ndim, uint64_t *digest,
                                   exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;

    for (uint32_t d = 0; d < ndim; d++) {
        const exg_partition_options *place = &placing->options[d];

        exg_text_printf(&text, "%s %u %u\n", exg_partition_mode_name(place->mode),
                        place->microbatches, place->stages_per_rank);
        for (uint32_t i = 0; i < place->pattern_count; i++) {
            char placement[EXG_PLACEMENT_TEXT];

            exg_text_printf(&text, "%d %s %s\n", (int)place->patterns[i].of,
                            place->patterns[i].pattern,
                            exg_placement_print(place->patterns[i].placement, placement));
        }
    }
    return digest_text(&text, digest, err);
}

exg_status exg_agreement_take(const exg_verified *verified, const exg_session_context *context,
                              exg_agreement *agreement, exg_error *err)
{
    const exg_session_options *options = &context->options;
    const exg_plan_options *plan = &context->plan;
    exg_text text = EXG_TEXT_EMPTY;

    *agreement = (exg_agreement){.seed = options->seed, .with_bytes = !options->no_check};
    EXG_TRY(digest_program(verified->program, &agreement->program, err));
    EXG_TRY(digest_weights(verified->program->weights, agreement->with_bytes, &agreement->weights,
                           err));
    EXG_TRY(
        digest_placement(&context->partitioning, context->mesh.ndim, &agreement->placement, err));
    exg_text_printf(&text, "%" PRIu64 " %u %d %d %d %d %d %d\n", options->loop_limit,
                    options->plan_limit, plan->no_fusion, plan->no_reuse, plan->overlap,
                    options->no_check, options->ignore_guards, options->local_parts);
    return digest_text(&text, &agreement->options, err);
}

/* Of inputs by name, in whatever order they are given. */
static uint64_t digest_inputs(const exg_session_input *inputs, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        const exg_tensor *t = &inputs[i].tensor;
        uint64_t words[2] = {
            XXH3_64bits(inputs[i].name, strlen(inputs[i].name)),
            inputs[i].is_number ? XXH3_64bits(&inputs[i].number, sizeof(inputs[i].number))
            : t->data == NULL /* ranks have it in memory of their own */
                ? 0
                : XXH3_64bits(t->data, (size_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype))};

        sum += XXH3_64bits(words, sizeof(words));
    }
    return sum;
}

exg_status exg_agreement_reach(const exg_agreement *agreement, const exg_grid *grid,
                               const int64_t *key, uint32_t key_count,
                               const exg_session_input *inputs, uint32_t input_count,
                               exg_status status, exg_error *err)
{
    bool known = status == EXG_OK;
    const exg_common own[] = {
        {"program", agreement->program},
        {"weights", agreement->weights},
        {"placement", agreement->placement},
        {"seed", agreement->seed},
        {"options", agreement->options},
        {"sizes of inputs", known ? XXH3_64bits(key, key_count * sizeof(*key)) : 0},
        {"values of inputs",
         known && agreement->with_bytes ? digest_inputs(inputs, input_count) : 0},
    };

    return exg_grid_agree(grid, own, sizeof(own) / sizeof(own[0]), status, err);
}
