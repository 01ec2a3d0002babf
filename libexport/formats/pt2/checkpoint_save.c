/* checkpoint_save.c - a file of torch.save: a dict of tensors. Form: docs/pt2.md section 2.6.
 *
 * The pickle is an OrderedDict of names and torch._utils._rebuild_tensor_v2() calls, as a
 * state_dict() has them, with nothing that weights_only=True would not take. Tied weights share
 * their bytes.
 */
#include "libexport/formats/pt2/checkpoint_save.h"
#include "libexport/base/checked.h"
#include "libexport/base/map.h"
#include "libexport/formats/pt2/pickle.h"
#include "libexport/formats/pt2/pickle_writer.h"
#include "libexport/formats/pt2/zip_writer.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    exg_pickle_add_text(out, "storage");
    exg_pickle_add_global(out, class->module, class->name);
    exg_pickle_add_text(out, key);
    exg_pickle_add_text(out, "cpu");
    exg_pickle_add_int(out, (int64_t)(class->dtype == item->dtype
                                          ? item->bytes / exg_dtype_bytes(item->dtype)
                                          : item->bytes));
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    exg_pickle_add_op(out, EXG_PICKLE_PERSISTENT);
}

/* Of dtypes without a class of storages the dtype is said beside. */
static void put_tensor(exg_text *out, const exg_named_tensor *item, uint32_t record)
{
    bool is_typed = exg_pickle_storage_class(item->dtype)->dtype == item->dtype;

    exg_pickle_add_global(out, "torch._utils",
                          is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    put_storage(out, item, record);
    exg_pickle_add_int(out, 0);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    for (uint32_t d = 0; d < item->rank; d++) {
        exg_pickle_add_int(out, item->shape[d]);
    }
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    for (uint32_t d = 0; d < item->rank; d++) {
        int64_t step = 1;

        for (uint32_t k = d + 1; k < item->rank; k++) {
            if (item->shape[k] != 0 && !exg_mul_i64(step, item->shape[k], &step)) {
                step = 1; /* another size is 0: there are no elements to step over */
            }
        }
        exg_pickle_add_int(out, step);
    }
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    exg_pickle_add_op(out, EXG_PICKLE_FALSE);
    exg_pickle_add_ordered_dict(out);
    if (!is_typed) {
        exg_pickle_add_global(out, "torch", exg_dtype_name(item->dtype));
    }
    exg_pickle_add_op(out, EXG_PICKLE_TUPLE_END);
    exg_pickle_add_op(out, EXG_PICKLE_REDUCE);
}

static void put_pickle(exg_text *out, const exg_weights_saver *s, const record_plan *plan)
{
    exg_pickle_begin(out);
    exg_pickle_add_ordered_dict(out);
    exg_pickle_add_op(out, EXG_PICKLE_MARK);
    for (uint32_t i = 0; i < s->count; i++) {
        exg_pickle_add_text(out, s->tensors[i].item.name);
        put_tensor(out, &s->tensors[i].item, plan->records[i]);
    }
    exg_pickle_add_op(out, EXG_PICKLE_SETITEMS);
    exg_pickle_end(out);
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

exg_status exg_checkpoint_prepare(exg_weights_saver *s)
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

/* Where the members of an archive go: into a file, or they are counted. */
typedef struct target {
    exg_weights_saver *s;
    const exg_saved_file *file; /* NULL: counted */
    exg_zip_writer zip;
} target;

static exg_status to_member(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    return exg_zip_write(user, bytes, length, err);
}

static exg_status put_record(target *t, uint32_t record, const exg_saved_tensor *tensor)
{
    exg_error *err = t->s->err;
    char name[24];

    snprintf(name, sizeof(name), "data/%" PRIu32, record);
    EXG_TRY(exg_zip_begin(&t->zip, name, tensor->item.bytes, err));
    if (t->file == NULL) {
        exg_zip_count(&t->zip, tensor->item.bytes);
    } else {
        EXG_TRY(exg_saver_put_tensor(t->s, t->file, tensor, to_member, &t->zip));
    }
    return exg_zip_end(&t->zip, name, err);
}

/* What stands before the records, and behind them. */
static exg_status put_head(target *t, const exg_text *pickle)
{
    bool little = exg_host_byte_order() == EXG_LITTLE_ENDIAN;
    exg_error *err = t->s->err;

    if (pickle->failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_zip_put(&t->zip, "data.pkl", pickle->data, pickle->length, err));
    return exg_zip_put(&t->zip, "byteorder", little ? "little" : "big", little ? 6 : 3, err);
}

static exg_status put_end(target *t)
{
    EXG_TRY(exg_zip_put(&t->zip, "version", "3\n", 2, t->s->err));
    return exg_zip_finish(&t->zip, t->s->err);
}

static exg_status put_records(target *t, exg_text *pickle)
{
    record_plan plan;

    EXG_TRY(make_plan(t->s, &plan));
    put_pickle(pickle, t->s, &plan);
    EXG_TRY(put_head(t, pickle));
    for (uint32_t i = 0; i < plan.count; i++) {
        EXG_TRY(put_record(t, i, &t->s->tensors[plan.firsts[i]]));
    }
    return put_end(t);
}

static target target_of(exg_weights_saver *s, const exg_saved_file *file)
{
    return (target){
        s,
        file,
        {.file = file == NULL ? NULL : file->writer, .root = "archive/", .arena = s->arena}};
}

static exg_status write_file(exg_weights_saver *s, const exg_saved_file *file)
{
    target t = target_of(s, file);
    exg_text pickle = EXG_TEXT_EMPTY;
    exg_status status = put_records(&t, &pickle);

    exg_text_free(&pickle);
    exg_zip_writer_free(&t.zip);
    return status;
}

exg_status exg_checkpoint_put_alone(exg_weights_saver *s, const exg_saved_file *file,
                                    const exg_saved_tensor *tensor, uint64_t *bytes)
{
    target t = target_of(s, file);
    exg_text pickle = EXG_TEXT_EMPTY;
    exg_status status;

    exg_pickle_begin(&pickle);
    put_tensor(&pickle, &tensor->item, 0);
    exg_pickle_end(&pickle);
    status = put_head(&t, &pickle);
    status = status == EXG_OK ? put_record(&t, 0, tensor) : status;
    status = status == EXG_OK ? put_end(&t) : status;
    *bytes = t.zip.at;
    exg_text_free(&pickle);
    exg_zip_writer_free(&t.zip);
    return status;
}

const exg_weights_sink exg_checkpoint_sink = {
    .format = EXG_WEIGHTS_FORMAT_CHECKPOINT,
    .extension = ".pt",
    .prepare = exg_checkpoint_prepare,
    .write = write_file,
};
