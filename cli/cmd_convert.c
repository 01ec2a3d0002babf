/* cmd_convert.c - exg convert FILE OUT, exg repack FILE OUT. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static exg_status read_compression(const cli_call *call, exg_compression *compression,
                                   exg_error *err)
{
    if (call->compress != NULL) {
        if (strcmp(call->compress, "none") != 0 && strcmp(call->compress, "zstd") != 0) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--compress '%s': none or zstd", call->compress);
        }
        *compression =
            strcmp(call->compress, "zstd") == 0 ? EXG_COMPRESSION_ZSTD : EXG_COMPRESSION_NONE;
    }
    return EXG_OK;
}

static exg_status save_options(const cli_call *call, exg_save_options *options, exg_error *err)
{
    *options = (exg_save_options){.size = sizeof(*options),
                                  .deduplicate = call->deduplicate,
                                  .progress = cli_progress,
                                  .threads = (uint32_t)call->threads,
                                  .strict = call->strict,
                                  .release = call->needed_by,
                                  .resume = call->resume};
    if (call->split != NULL) {
        EXG_TRY(cli_size("--split", call->split, &options->split, err));
    }
    if (call->align != NULL) {
        EXG_TRY(cli_size("--align", call->align, &options->align, err));
    }
    if (call->strip && exg_format_from_path(call->paths[1]) == EXG_FORMAT_EXG) {
        options->compression = EXG_COMPRESSION_ZSTD; /* of zeros hardly anything is left */
    }
    EXG_TRY(read_compression(call, &options->compression, err));
    if (call->weights != NULL) {
        if (strcmp(call->weights, "internal") != 0 && strcmp(call->weights, "external") != 0) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--weights '%s': internal or external",
                            call->weights);
        }
        options->weights =
            strcmp(call->weights, "external") == 0 ? EXG_WEIGHTS_EXTERNAL : EXG_WEIGHTS_INTERNAL;
    }
    return EXG_OK;
}

/* What the format cannot hold is told, not dropped in silence. */
static void print_left_out(const exg_weights *weights, exg_weights_format format)
{
    exg_text text = EXG_TEXT_EMPTY;

    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->items[i].use_pickle || weights->items[i].meta == NULL) {
            cli_put_left_out(&text, weights->items[i].fqn, "an object, no plain tensor");
        }
    }
    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        cli_put_left_out(&text, weights->skipped[i].name, weights->skipped[i].kind);
    }
    if (weights->metadata.count > 0 && !exg_weights_format_has_metadata(format)) {
        exg_text_puts(&text, "note: the metadata are left out: such a file has none\n");
    }
    cli_note(&text);
    exg_text_free(&text);
}

/* What is written, for people and for programs. */
typedef struct written {
    const cli_call *call;
    exg_text text;
} written;

static void put_file(written *w, const char *path, uint64_t bytes, const uint32_t *tensors)
{
    exg_text *text = &w->text;

    if (w->call->json) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "file", path);
        if (tensors != NULL) {
            exg_json_member_uint(text, "tensors", *tensors);
        }
        exg_json_member_uint(text, "bytes", bytes);
        exg_json_put_close(text, '}');
    } else if (w->call->dry_run) {
        exg_text_plain(text, path, false);
        exg_text_puts(text, "  ");
        if (tensors != NULL) {
            exg_text_count(text, *tensors, "tensor");
            exg_text_puts(text, "  ");
        }
        exg_text_bytes(text, bytes);
        exg_text_putc(text, '\n');
    }
}

static exg_status note_file(void *user, const char *path, uint32_t tensors, uint64_t bytes,
                            exg_error *err)
{
    written *w = user;

    put_file(w, path, bytes, &tensors);
    return w->text.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Of a dry run of a program: all of a file. */
static exg_status note_program(void *user, const char *path, uint64_t bytes, exg_error *err)
{
    written *w = user;

    put_file(w, path, bytes, NULL);
    return w->text.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* `count` is 1, but of ranks as a preset says it. */
static exg_status save_weights(const cli_call *call, exg_weights *const *weights, uint32_t count,
                               exg_error *err)
{
    written w = {call, EXG_TEXT_EMPTY};
    exg_weights_format format = exg_weights_format_from_path(call->paths[1]);
    exg_weights_save_options options = {.size = sizeof(options),
                                        .progress = cli_progress,
                                        .file = note_file,
                                        .user = &w,
                                        .threads = (uint32_t)call->threads,
                                        .force = call->force,
                                        .expands = call->expand,
                                        .resume = call->resume,
                                        .dry_run = call->dry_run};
    exg_status status = EXG_OK;

    if (call->shard != NULL && format == EXG_WEIGHTS_FORMAT_COUNT) { /* a folder */
        format = EXG_WEIGHTS_FORMAT_SAFETENSORS;
    }
    options.deduplicate = call->deduplicate && !cli_is_tensors(call->paths[1]);
    EXG_TRY(read_compression(call, &options.compression, err));
    if (call->split != NULL) {
        EXG_TRY(cli_size("--split", call->split, &options.split, err));
    }
    if (call->align != NULL) {
        EXG_TRY(cli_size("--align", call->align, &options.align, err));
    }
    if (call->json) {
        cli_json_begin(&w.text);
        exg_json_member_text(&w.text, "written", exg_weights_format_name(format));
        exg_json_member_open(&w.text, "files", '[');
    }
    status = cli_shards_by_preset(call)
                 ? exg_weights_save_ranks(weights, count, call->paths[1], &options, err)
             : call->shard != NULL ? cli_save_shards(call, weights[0], &options, err)
                                   : exg_weights_save(weights[0], call->paths[1], &options, err);
    cli_progress_end();
    if (status == EXG_OK) {
        print_left_out(weights[0], format);
    }
    if (status == EXG_OK && call->json) {
        exg_json_put_close(&w.text, ']');
        cli_json_end(&w.text);
    }
    status = status == EXG_OK ? cli_put(call->out, &w.text, err) : status;
    exg_text_free(&w.text);
    return status;
}

/* ---- other weights in the program --------------------------------------------------------- */

/* Takes over `status` and `made`. */
static exg_status take_weights(exg_program *program, exg_weights *made, exg_status status)
{
    if (status == EXG_OK) {
        exg_weights_release(program->weights);
        program->weights = made;
    }
    return status;
}

static exg_status change_weights(const cli_call *call, exg_program *program, exg_error *err)
{
    exg_weights *made = NULL;
    exg_status status;

    if (call->weights_from != NULL) {
        EXG_TRY(cli_fill_weights(call, program, false, err));
    }
    if (call->strip) {
        double splat;

        EXG_TRY(cli_splat(call, &splat, err));
        status = exg_weights_splat(program->weights, splat, &made, err);
        EXG_TRY(take_weights(program, made, status));
    }
    if (call->byte_order != NULL) {
        bool big = strcmp(call->byte_order, "big") == 0;

        if (!big && strcmp(call->byte_order, "little") != 0) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--byte-order '%s': little or big",
                            call->byte_order);
        }
        status = exg_weights_in_order(program->weights, big ? EXG_BIG_ENDIAN : EXG_LITTLE_ENDIAN,
                                      &made, err);
        EXG_TRY(take_weights(program, made, status));
    }
    return EXG_OK;
}

/* Those of FILE, and of every --merge. */
static exg_status open_all(const cli_call *call, exg_weights **weights, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    exg_weights **all = calloc((size_t)call->merge.count + 1, sizeof(exg_weights *));
    exg_status status = all == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    uint32_t count = 0;

    while (status == EXG_OK && count <= call->merge.count) {
        const char *path = count == 0 ? call->paths[0] : call->merge.items[count - 1];

        status = cli_check_whole(path, err);
        if (status == EXG_OK) {
            status = exg_weights_open(path, &options, &all[count], NULL, err);
            status = status == EXG_OK ? status : exg_error_within(err, status, "%s:", path);
        }
        count += status == EXG_OK;
    }
    if (status == EXG_OK && count == 1) {
        *weights = exg_weights_retain(all[0]);
    } else if (status == EXG_OK) {
        status = cli_merge_weights(call, all, count, weights, err);
    }
    while (count > 0) {
        exg_weights_release(all[--count]);
    }
    free(all);
    return status;
}

/* Of a preset what each rank has. */
static exg_status save_shards(const cli_call *call, exg_weights *weights, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_weights **shards = NULL;
    uint32_t count = 0;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    status =
        status == EXG_OK ? cli_edit_shards(call, weights, arena, &shards, &count, err) : status;
    status = status == EXG_OK ? save_weights(call, shards, count, err) : status;
    while (count > 0) {
        exg_weights_release(shards[--count]);
    }
    exg_arena_destroy(arena);
    return status;
}

/* From files of weights into one, or a split model, or those of ranks. */
static exg_status rewrite_weights(const cli_call *call, exg_error *err)
{
    exg_weights *weights = NULL;
    exg_status status;

    EXG_TRY(open_all(call, &weights, err));
    if (cli_shards_by_preset(call)) {
        status = save_shards(call, weights, err);
    } else {
        status = cli_edit_weights(call, call->paths[0], &weights, err);
        status = status == EXG_OK ? save_weights(call, &weights, 1, err) : status;
    }
    exg_weights_release(weights);
    return status;
}

/* Those of a program, which keeps its own; of tensor subclasses the tensors inside. */
static exg_status save_edited(const cli_call *call, exg_weights *weights, exg_error *err)
{
    exg_weights *edited = NULL;
    exg_status status = EXG_OK;

    if (exg_weights_has_subclasses(weights)) {
        status = exg_weights_unwrap(weights, &edited, err);
    } else {
        edited = exg_weights_retain(weights);
    }
    status = status == EXG_OK ? cli_edit_weights(call, call->paths[0], &edited, err) : status;
    status = status == EXG_OK ? save_weights(call, &edited, 1, err) : status;
    exg_weights_release(edited);
    return status;
}

/* ---- a program after a stage --------------------------------------------------------------- */

static exg_status read_stage(const cli_call *call, exg_stage *stage, exg_error *err)
{
    *stage = call->stage == NULL ? EXG_STAGE_COUNT : exg_stage_from_name(call->stage);
    if (call->stage != NULL && *stage == EXG_STAGE_COUNT) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "no stage '%s'", call->stage),
                             "--stage takes decompose, functionalize or simplify");
    }
    return EXG_OK;
}

/* Sizes that were symbolic stay so. */
static exg_status make_staged(const cli_call *call, cli_program *p, exg_stage stage,
                              exg_program **staged, exg_error *err)
{
    exg_verified made;
    exg_status status;

    EXG_TRY(cli_unwrap(call, p, err));
    EXG_TRY(exg_program_at_stage(&p->verified, NULL, stage, staged, err));
    status = exg_verify(*staged, p->operators, &made, NULL, err);
    if (status != EXG_OK) {
        exg_program_destroy(*staged);
        *staged = NULL;
    }
    return status;
}

/* What a dry run says of the programs, behind the files. */
static void put_programs(written *w, const exg_program *const *programs, uint32_t count)
{
    uint64_t nodes = 0;
    uint64_t weights = 0;

    for (uint32_t i = 0; i < count; i++) {
        nodes += programs[i]->graph->node_count;
        weights += programs[i]->weights->count;
    }
    if (w->call->json) {
        exg_json_put_close(&w->text, ']');
        exg_json_member_uint(&w->text, "nodes", nodes);
        exg_json_member_uint(&w->text, "weights", weights);
    } else {
        exg_text_count(&w->text, nodes, "node");
        exg_text_puts(&w->text, ", ");
        exg_text_count(&w->text, weights, "weight");
        exg_text_puts(&w->text, "; nothing is written\n");
    }
}

static exg_status save_programs(const cli_call *call, const exg_program *const *programs,
                                uint32_t count, exg_format format, const exg_save_options *options,
                                exg_error *err)
{
    written w = {call, EXG_TEXT_EMPTY};
    exg_save_options own = *options;
    exg_status status;

    own.dry_run = call->dry_run;
    own.file = note_program;
    own.user = &w;
    if (call->json) {
        cli_json_begin(&w.text);
        exg_json_member_text(&w.text, "written", exg_format_name(format));
        if (call->dry_run) {
            exg_json_member_open(&w.text, "files", '[');
        }
    }
    status = exg_save_programs(programs, count, call->paths[1], format, &own, err);
    cli_progress_end();
    if (status == EXG_OK && call->dry_run) {
        put_programs(&w, programs, count);
    }
    if (call->json) {
        cli_json_end(&w.text);
    }
    status = status == EXG_OK ? cli_put(call->out, &w.text, err) : status;
    exg_text_free(&w.text);
    return status;
}

/* All programs of FILE, changed and written. */
static exg_status rewrite_programs(const cli_call *call, const cli_programs *all, exg_format format,
                                   const exg_save_options *options, exg_error *err)
{
    cli_program *opened = calloc(all->count, sizeof(*opened));
    exg_program **staged = calloc(all->count, sizeof(*staged));
    const exg_program **programs = calloc(all->count, sizeof(*programs));
    exg_status status =
        opened == NULL || programs == NULL || staged == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    exg_stage stage = EXG_STAGE_COUNT;
    uint32_t count = 0;

    status = status == EXG_OK ? read_stage(call, &stage, err) : status;

    while (status == EXG_OK && count < all->count) {
        cli_call one = cli_programs_call(call, all, count);

        status = cli_open_verified(&one, &opened[count], err);
        if (status == EXG_OK) {
            programs[count] = opened[count].program;
            count++;
            status = change_weights(call, opened[count - 1].program, err);
        }
        if (status == EXG_OK && stage != EXG_STAGE_COUNT) {
            status = make_staged(call, &opened[count - 1], stage, &staged[count - 1], err);
            programs[count - 1] = staged[count - 1];
        }
    }
    if (status == EXG_OK) {
        status = format == EXG_FORMAT_COUNT
                     ? save_edited(call, opened[0].program->weights, err)
                     : save_programs(call, programs, count, format, options, err);
    }
    while (count > 0) {
        exg_program_destroy(staged[--count]);
        cli_close(&opened[count]);
    }
    free(staged);
    free(programs);
    free(opened);
    return status;
}

static exg_status rewrite(const cli_call *call, exg_error *err)
{
    exg_save_options options;
    exg_format format = exg_format_from_path(call->paths[1]); /* COUNT: weights */
    bool tensors = cli_writes_weights(call);
    cli_programs all;
    exg_status status;

    EXG_TRY(save_options(call, &options, err));
    if (call->shard != NULL) {
        return rewrite_weights(call, err);
    }
    if (format == EXG_FORMAT_COUNT && !tensors) {
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "CLI-006", "no format for '%s'", call->paths[1]),
            "name the output .exg, .pt2 or .json; or for the weights alone .safetensors, "
            ".gguf, .npz, .npy or .pt; standard output is -.exg and so on");
    }
    if (tensors && cli_is_weights_file(call, call->paths[0])) {
        return rewrite_weights(call, err);
    }
    if (cli_is_weights_file(call, call->paths[0])) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "FMT-WEIGHTS",
                                      "'%s' holds weights alone, and PyTorch reads nothing of a "
                                      "file like %s without a program",
                                      call->paths[0], call->paths[1]),
                             "exg repack PROGRAM %s --weights-from %s, or name the output .exg, "
                             ".safetensors or .pt",
                             call->paths[1], call->paths[0]);
    }
    EXG_TRY(cli_programs_list(call, &all, err));
    status = format == EXG_FORMAT_PT2
                 ? EXG_OK
                 : cli_programs_only(&all, tensors ? "a file of weights is" : "the output is", err);
    status = status == EXG_OK ? rewrite_programs(call, &all, format, &options, err) : status;
    cli_programs_free(&all);
    return status;
}

exg_status cmd_convert(const cli_call *call, exg_error *err)
{
    const char *out = call->paths[1];
    const bool has_format = exg_format_from_path(out) != EXG_FORMAT_COUNT || cli_is_tensors(out);

    return cli_is_stream(out) && has_format && !call->dry_run ? cli_write_stream(call, rewrite, err)
                                                              : rewrite(call, err);
}

exg_status cmd_repack(const cli_call *call, exg_error *err)
{
    return cmd_convert(call, err);
}
