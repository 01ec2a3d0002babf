/* cmd_patch.c - exg patch: the difference of two model files, made or applied. */
#include "cli/cli.h"

#include <exg/patch.h>

static void put_share(exg_text *text, const char *what, uint64_t bytes, uint64_t of)
{
    exg_text_printf(text, "  %-8s", what);
    exg_text_bytes(text, bytes);
    exg_text_printf(text, ", %.1f %%\n", of == 0 ? 0 : 100.0 * (double)bytes / (double)of);
}

static void print_text(const cli_call *call, const exg_patch_info *info, exg_text *text)
{
    exg_text_plain(text, call->paths[2], false);
    exg_text_puts(text, ": ");
    exg_text_bytes(text, call->apply ? info->b_bytes : info->patch_bytes);
    exg_text_puts(text, call->apply ? ", made by a patch of " : ", for ");
    exg_text_bytes(text, call->apply ? info->patch_bytes : info->b_bytes);
    exg_text_putc(text, '\n');
    put_share(text, "equal", info->equal_bytes, info->b_bytes);
    put_share(text, "changed", info->changed_bytes, info->b_bytes);
    put_share(text, "new", info->new_bytes, info->b_bytes);
    exg_text_printf(text, "  sha256  %s\n", info->b_sha256);
}

static void print_json(const exg_patch_info *info, exg_text *text)
{
    cli_json_begin(text);
    exg_json_member_uint(text, "a_bytes", info->a_bytes);
    exg_json_member_text(text, "a_sha256", info->a_sha256);
    exg_json_member_uint(text, "b_bytes", info->b_bytes);
    exg_json_member_text(text, "b_sha256", info->b_sha256);
    exg_json_member_uint(text, "patch_bytes", info->patch_bytes);
    exg_json_member_uint(text, "equal_bytes", info->equal_bytes);
    exg_json_member_uint(text, "changed_bytes", info->changed_bytes);
    exg_json_member_uint(text, "new_bytes", info->new_bytes);
    cli_json_end(text);
}

exg_status cmd_patch(const cli_call *call, exg_error *err)
{
    const exg_patch_options options = {.size = sizeof(options),
                                       .threads = (uint32_t)call->threads,
                                       .progress = cli_progress,
                                       .resume = call->resume};
    exg_patch_info info = {.size = sizeof(info)};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = (call->apply ? exg_patch_apply : exg_patch_make)(
        call->paths[0], call->paths[1], call->paths[2], &options, &info, err);

    cli_progress_end();
    EXG_TRY(status);
    if (call->json) {
        print_json(&info, &text);
    } else {
        print_text(call, &info, &text);
    }
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}
