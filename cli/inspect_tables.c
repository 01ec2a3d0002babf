/* inspect_tables.c - weights, one by one and by module. */
#include "cli/inspect.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMNS_MAX 60

static void put_size(exg_text *text, const exg_sym_int *size)
{
    const char *name;
    size_t length;

    if (size->expr == NULL) {
        exg_text_printf(text, "%" PRId64, size->value);
    } else if (exg_symint_lone_symbol(size->expr, &name, &length)) {
        exg_text_add(text, name, length);
    } else {
        exg_text_plain(text, size->expr, false);
    }
}

void cli_put_shape(exg_text *text, const exg_tensor_meta *meta)
{
    exg_text_printf(text, "%s[", exg_dtype_short_name(meta->dtype));
    for (uint32_t d = 0; d < meta->rank; d++) {
        exg_text_puts(text, d > 0 ? ", " : "");
        put_size(text, &meta->sizes[d]);
    }
    exg_text_puts(text, "]");
}

/* ---- weights ------------------------------------------------------------------------------ */

typedef struct row {
    const exg_weight *weight;
    uint64_t bytes;
} row;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->weight->fqn, ((const row *)b)->weight->fqn);
}

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const row *)a)->bytes;
    uint64_t y = ((const row *)b)->bytes;

    return x != y ? (x < y ? 1 : -1) : by_name(a, b);
}

/* A pattern with *, ? or [ is matched whole, another word anywhere in the name. */
static bool passes(const char *filter, const char *name)
{
    if (filter == NULL) {
        return true;
    }
    return strpbrk(filter, "*?[") != NULL ? fnmatch(filter, name, 0) == 0
                                          : strstr(name, filter) != NULL;
}

static exg_status put_row(exg_text *text, const cli_inspection *i, const row *r, int width,
                          exg_error *err)
{
    exg_weight_kind kind = i->found->kinds[r->weight - i->weights->items];
    exg_text name = EXG_TEXT_EMPTY;
    exg_text shape = EXG_TEXT_EMPTY;

    exg_text_plain(&name, r->weight->fqn, false);
    if (r->weight->meta != NULL) {
        cli_put_shape(&shape, r->weight->meta);
    }
    exg_text_printf(text, "  %-*s  %-20s ", width, exg_text_part(text, &name),
                    exg_text_part(text, &shape));
    exg_text_bytes(text, r->bytes);
    exg_text_printf(text, "  storage %u%s%s", r->weight->storage,
                    kind == EXG_WEIGHT_CONSTANT ? ", constant"
                    : kind == EXG_WEIGHT_BUFFER ? ", buffer"
                                                : "",
                    r->weight->use_pickle ? ", pickled, kept raw" : "");
    exg_text_free(&name);
    exg_text_free(&shape);
    EXG_TRY(cli_put_statistics(text, i, r->weight, err));
    exg_text_putc(text, '\n');
    return EXG_OK;
}

/* Those that pass, in order; *count is set. NULL: out of memory. */
static row *list_rows(const cli_inspection *i, uint32_t *count)
{
    const exg_weights *weights = i->weights;
    const char *sort = i->call->sort;
    row *rows = EXG_NEW_ARRAY(i->arena, row, weights->count);

    *count = 0;
    for (uint32_t w = 0; rows != NULL && w < weights->count; w++) {
        const exg_weight *weight = &weights->items[w];
        exg_error err;

        if (passes(i->call->filter, weight->fqn)) {
            row *r = &rows[(*count)++];

            r->weight = weight;
            if (weight->meta == NULL ||
                exg_tensor_meta_bytes(weight->meta, &r->bytes, &err) != EXG_OK) {
                r->bytes = weights->storages[weight->storage].length;
            }
        }
    }
    if (sort != NULL && strcmp(sort, "file") != 0 && *count > 0) {
        qsort(rows, *count, sizeof(*rows), strcmp(sort, "name") == 0 ? by_name : by_bytes);
    }
    return rows;
}

const exg_weight **cli_weights_shown(const cli_inspection *i, uint32_t *count)
{
    const row *rows = list_rows(i, count);
    const exg_weight **shown =
        rows == NULL ? NULL : EXG_NEW_ARRAY(i->arena, const exg_weight *, *count);

    for (uint32_t r = 0; shown != NULL && r < *count; r++) {
        shown[r] = rows[r].weight;
    }
    return shown;
}

void cli_note_filter(const cli_inspection *i)
{
    exg_text text = EXG_TEXT_EMPTY;

    for (uint32_t w = 0; w < i->weights->count; w++) {
        if (passes(i->call->filter, i->weights->items[w].fqn)) {
            return;
        }
    }
    if (i->call->filter != NULL && i->weights->count > 0) {
        exg_text_printf(&text, "warning: --filter '%s' fits no tensor\n", i->call->filter);
        cli_note(&text);
    }
    exg_text_free(&text);
}

exg_status cli_put_weights(exg_text *text, const cli_inspection *i, exg_error *err)
{
    uint32_t count = 0;
    row *rows = list_rows(i, &count);
    size_t width = 0;
    uint64_t sum = 0;

    text->failed = text->failed || rows == NULL;
    for (uint32_t r = 0; rows != NULL && r < count; r++) {
        size_t length = strlen(rows[r].weight->fqn);

        sum += rows[r].bytes;
        width = length > width ? length : width;
    }
    exg_text_printf(text, "weights: %u of %u, ", count, i->weights->count);
    exg_text_bytes(text, sum);
    exg_text_putc(text, '\n');
    for (uint32_t r = 0; rows != NULL && r < count; r++) {
        EXG_TRY(put_row(text, i, &rows[r],
                        (int)(width < NAME_COLUMNS_MAX ? width : NAME_COLUMNS_MAX), err));
    }
    return EXG_OK;
}

/* ---- modules ------------------------------------------------------------------------------- */

static void put_module(exg_text *text, const cli_inspection *i, uint32_t at)
{
    const exg_module_summary *m = &i->found->modules[at];
    const char *name = strrchr(m->path, '.');
    double share = i->found->modules[0].bytes == 0
                       ? 0
                       : 100.0 * (double)m->bytes / (double)i->found->modules[0].bytes;
    exg_text label = EXG_TEXT_EMPTY;
    exg_text bytes = EXG_TEXT_EMPTY;

    exg_text_plain(&label, at == 0 ? "(whole)" : name == NULL ? m->path : name + 1, false);
    exg_text_bytes(&bytes, m->bytes);
    exg_text_printf(text, "  %*s%-*s %12" PRIu64 " %10" PRIu64 "  %10s  %5.1f %%%s",
                    (int)m->depth * 2, "", (int)(m->depth < 14 ? 30 - m->depth * 2 : 2),
                    exg_text_part(text, &label), m->parameters, m->buffers,
                    exg_text_part(text, &bytes), share, m->type[0] == '\0' ? "" : "  ");
    exg_text_plain(text, m->type, false);
    exg_text_putc(text, '\n');
    exg_text_free(&label);
    exg_text_free(&bytes);
}

void cli_put_tree(exg_text *text, const cli_inspection *i)
{
    uint32_t most = i->call->has_depth ? (uint32_t)i->call->depth : EXG_MODULE_DEPTH_MAX;
    uint32_t at = 0;

    exg_text_printf(text, "  %-30s %12s %10s  %10s\n", "module", "parameters", "buffers", "bytes");
    do {
        put_module(text, i, at);
        if (i->found->modules[at].first != 0 && i->found->modules[at].depth < most) {
            at = i->found->modules[at].first;
            continue;
        }
        while (at != 0 && i->found->modules[at].next == 0) {
            at = i->found->modules[at].parent;
        }
        at = at == 0 ? 0 : i->found->modules[at].next;
    } while (at != 0);
}
