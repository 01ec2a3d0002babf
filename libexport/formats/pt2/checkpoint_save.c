/* checkpoint_save.c - a file of torch.save: a dict of tensors. Form: docs/pt2.md section 2.6.
 *
 * The pickle is an OrderedDict of names and torch._utils._rebuild_tensor_v2() calls, as a
 * state_dict() has them, with nothing that weights_only=True would not take. Tied weights share
 * their bytes.
 */
#include "libexport/base/checked.h"
#include "libexport/base/little.h"
#include "libexport/base/map.h"
#include "libexport/formats/pt2/pickle.h"
#include "libexport/formats/pt2/zip_writer.h"
#include "libexport/formats/weights_save.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Opcodes of protocol 2. */
enum {
    PROTO = 0x80,
    GLOBAL = 'c',
    MARK = '(',
    EMPTY_TUPLE = ')',
    TUPLE = 't',
    REDUCE = 'R',
    SETITEMS = 'u',
    STOP = '.',
    BINUNICODE = 'X',
    BININT = 'J',
    LONG1 = 0x8a,
    BINPERSID = 'Q',
    NEWFALSE = 0x89
};

static void put_opcode(exg_text *out, int opcode)
{
    exg_text_putc(out, (char)opcode);
}

static void put_string(exg_text *out, const char *text)
{
    put_opcode(out, BINUNICODE);
    exg_text_little(out, strlen(text), 4);
    exg_text_puts(out, text);
}

static void put_int(exg_text *out, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX) {
        put_opcode(out, BININT);
        exg_text_little(out, (uint64_t)value, 4);
    } else {
        put_opcode(out, LONG1);
        exg_text_little(out, 8, 1);
        exg_text_little(out, (uint64_t)value, 8);
    }
}

static void put_global(exg_text *out, const char *module, const char *name)
{
    put_opcode(out, GLOBAL);
    exg_text_printf(out, "%s\n%s\n", module, name);
}

static void put_empty_dict(exg_text *out)
{
    put_global(out, "collections", "OrderedDict");
    put_opcode(out, EMPTY_TUPLE);
    put_opcode(out, REDUCE);
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Which record of the archive each tensor is in. */
typedef struct record_plan {
    uint32_t *records;
    uint32_t *firsts; /* of a record: the tensor that is written */
    uint32_t count;
} record_plan;

static void put_storage(exg_text *out, const exg_named_tensor *item, uint32_t record)
{
    const exg_pickle_global *class = exg_pickle_storage_class(item->dtype);
    char key[16];

    snprintf(key, sizeof(key), "%" PRIu32, record);
    put_opcode(out, MARK);
    put_string(out, "storage");
    put_global(out, class->module, class->name);
    put_string(out, key);
    put_string(out, "cpu");
    put_int(out, (int64_t)(class->dtype == item->dtype ? item->bytes / exg_dtype_bytes(item->dtype)
                                                       : item->bytes));
    put_opcode(out, TUPLE);
    put_opcode(out, BINPERSID);
}

/* Of dtypes without a class of storages the dtype is said beside. */
static void put_tensor(exg_text *out, const exg_named_tensor *item, uint32_t record)
{
    bool is_typed = exg_pickle_storage_class(item->dtype)->dtype == item->dtype;

    put_global(out, "torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put_opcode(out, MARK);
    put_storage(out, item, record);
    put_int(out, 0);
    put_opcode(out, MARK);
    for (uint32_t d = 0; d < item->rank; d++) {
        put_int(out, item->shape[d]);
    }
    put_opcode(out, TUPLE);
    put_opcode(out, MARK);
    for (uint32_t d = 0; d < item->rank; d++) {
        int64_t step = 1;

        for (uint32_t k = d + 1; k < item->rank; k++) {
            if (item->shape[k] != 0 && !exg_mul_i64(step, item->shape[k], &step)) {
                step = 1; /* another size is 0: there are no elements to step over */
            }
        }
        put_int(out, step);
    }
    put_opcode(out, TUPLE);
    put_opcode(out, NEWFALSE);
    put_empty_dict(out);
    if (!is_typed) {
        put_global(out, "torch", exg_dtype_name(item->dtype));
    }
    put_opcode(out, TUPLE);
    put_opcode(out, REDUCE);
}

static void put_pickle(exg_text *out, const exg_weights_saver *s, const record_plan *plan)
{
    put_opcode(out, PROTO);
    exg_text_little(out, 2, 1);
    put_empty_dict(out);
    put_opcode(out, MARK);
    for (uint32_t i = 0; i < s->count; i++) {
        put_string(out, s->tensors[i].item.name);
        put_tensor(out, &s->tensors[i].item, plan->records[i]);
    }
    put_opcode(out, SETITEMS);
    put_opcode(out, STOP);
}

/* ---- sharing -------------------------------------------------------------------------------- */

static exg_status make_plan(exg_weights_saver *s, record_plan *plan)
{
    exg_map views;

    *plan = (record_plan){EXG_NEW_ARRAY(s->arena, uint32_t, s->count),
                          EXG_NEW_ARRAY(s->arena, uint32_t, s->count), 0};
    if (plan->records == NULL || plan->firsts == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    exg_map_init(&views, s->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_weight *weight = s->tensors[i].weight;
        const char *key = weight == NULL ? NULL : exg_weight_view_key(weight, s->arena);
        uint32_t record = key == NULL ? EXG_MAP_NONE : exg_map_find(&views, key);

        if (record == EXG_MAP_NONE) {
            record = plan->count++;
            plan->firsts[record] = i;
            if (key != NULL && !exg_map_put(&views, key, record)) {
                return EXG_OUT_OF_MEMORY(s->err);
            }
        }
        plan->records[i] = record;
    }
    return EXG_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static exg_status prepare(exg_weights_saver *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_weight *weight = s->tensors[i].weight;

        if (weight != NULL && weight->encoding != NULL) {
            return exg_error_fix(s->err,
                                 EXG_FAIL(s->err, UNSUPPORTED, "STF-DTYPE",
                                          "['%s']: PyTorch has no %s", weight->fqn,
                                          weight->encoding),
                                 "cast it with --dtype, or name the file .safetensors or .gguf");
        }
    }
    return EXG_OK;
}

static exg_status to_member(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    return exg_zip_write(user, bytes, length, err);
}

static exg_status put_data(exg_weights_saver *s, const exg_saved_file *file, exg_zip_writer *zip,
                           const record_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const exg_saved_tensor *tensor = &s->tensors[plan->firsts[i]];
        char name[24];

        snprintf(name, sizeof(name), "data/%" PRIu32, i);
        EXG_TRY(exg_zip_begin(zip, name, tensor->item.bytes, s->err));
        EXG_TRY(exg_saver_put_tensor(s, file, tensor, to_member, zip));
        EXG_TRY(exg_zip_end(zip, name, s->err));
    }
    return EXG_OK;
}

static exg_status put_records(exg_weights_saver *s, const exg_saved_file *file, exg_zip_writer *zip,
                              exg_text *pickle)
{
    bool little = exg_host_byte_order() == EXG_LITTLE_ENDIAN;
    record_plan plan;

    EXG_TRY(make_plan(s, &plan));
    put_pickle(pickle, s, &plan);
    if (pickle->failed) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(exg_zip_put(zip, "data.pkl", pickle->data, pickle->length, s->err));
    EXG_TRY(exg_zip_put(zip, "byteorder", little ? "little" : "big", little ? 6 : 3, s->err));
    EXG_TRY(put_data(s, file, zip, &plan));
    EXG_TRY(exg_zip_put(zip, "version", "3\n", 2, s->err));
    return exg_zip_finish(zip, s->err);
}

static exg_status write_file(exg_weights_saver *s, const exg_saved_file *file)
{
    exg_zip_writer zip = {.file = file->writer, .root = "archive/", .arena = s->arena};
    exg_text pickle = EXG_TEXT_EMPTY;
    exg_status status = put_records(s, file, &zip, &pickle);

    exg_text_free(&pickle);
    exg_zip_writer_free(&zip);
    return status;
}

const exg_weights_sink exg_checkpoint_sink = {
    .format = EXG_WEIGHTS_FORMAT_CHECKPOINT,
    .extension = ".pt",
    .prepare = prepare,
    .write = write_file,
};
