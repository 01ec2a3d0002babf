/* saved_tensor.c - one tensor on its way into a file. */
#include "libexport/formats/weights_save.h"

#include "libexport/base/checked.h"
#include "libexport/base/pipeline.h"

/* On its way into the file: gathered by all cores into slots, then written. */
typedef struct passage {
    exg_weights_saver *s;
    const exg_saved_tensor *tensor;
    exg_writer *writer;
    uint64_t begin; /* in the file */
    exg_take_fn *take;
    void *user;
    uint32_t width;
} passage;

static void report(exg_weights_saver *s, uint64_t bytes)
{
    s->done += bytes;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->user, s->done, s->total);
    }
}

/* Elements of block `index`; *first is the first. */
static uint64_t block_elements(const passage *p, uint64_t index, uint64_t *first)
{
    uint64_t step = EXG_SAVE_BLOCK_BYTES / p->width;
    uint64_t count = p->tensor->item.bytes / p->width;

    *first = index * step;
    return count - *first < step ? count - *first : step;
}

static bool is_kept(const passage *p, uint64_t at, uint64_t bytes)
{
    return exg_range_inside(p->begin + at, bytes, exg_writer_kept(p->writer));
}

static exg_status gather_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    passage *p = context;
    uint8_t *slot = p->s->slots[block->slot];
    uint64_t first;
    uint64_t count = block_elements(p, block->index, &first);

    return is_kept(p, first * p->width, count * p->width)
               ? exg_writer_read(p->writer, p->begin + first * p->width, slot, count * p->width,
                                 err)
               : exg_weight_read_range(p->s->weights, p->tensor->weight, first, count, slot, err);
}

static exg_status put_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    passage *p = context;
    const exg_weight *weight = p->tensor->weight;
    uint64_t first;
    uint64_t bytes = block_elements(p, block->index, &first) * p->width;
    exg_status status = p->take(p->user, p->s->slots[block->slot], bytes, err);

    report(p->s, bytes);
    if (exg_tensor_meta_is_packed(weight->meta)) { /* others come back to where they were */
        uint64_t end = ((uint64_t)weight->meta->storage_offset.value + first) * p->width;
        uint64_t behind = 2 * EXG_SAVE_BLOCK_BYTES;

        exg_storage_forget(p->s->weights, weight->storage,
                           end < behind ? 0 : (end - behind) & ~(EXG_SAVE_BLOCK_BYTES - 1), end);
    }
    return status;
}

/* A weight whose bytes lie in memory as they are wanted, written from there. */
static exg_status put_mapped(const passage *p, const uint8_t *data)
{
    exg_weights_saver *s = p->s;
    uint32_t storage = p->tensor->weight->storage;

    for (uint64_t at = 0; at < p->tensor->item.bytes; at += EXG_SAVE_BLOCK_BYTES) {
        uint64_t left = p->tensor->item.bytes - at;
        uint64_t bytes = left < EXG_SAVE_BLOCK_BYTES ? left : EXG_SAVE_BLOCK_BYTES;
        uint64_t first = (uint64_t)(data - s->weights->storages[storage].data) + at;

        if (is_kept(p, at, bytes)) {
            EXG_TRY(exg_writer_read(p->writer, p->begin + at, s->slots[0], bytes, s->err));
            EXG_TRY(p->take(p->user, s->slots[0], bytes, s->err));
        } else {
            exg_storage_expect(s->weights, storage, first, first + bytes);
            EXG_TRY(p->take(p->user, data + at, bytes, s->err));
        }
        report(s, bytes);
        exg_storage_forget(s->weights, storage, first, first + bytes);
    }
    return EXG_OK;
}

exg_status exg_saver_put_tensor(exg_weights_saver *s, const exg_saved_file *file,
                                const exg_saved_tensor *tensor, exg_take_fn *take, void *user)
{
    const exg_weight *weight = tensor->weight;
    passage p = {s,
                 tensor,
                 file->writer,
                 exg_writer_position(file->writer),
                 take,
                 user,
                 exg_dtype_bytes(tensor->item.dtype)};
    const uint8_t *data = NULL;
    uint64_t blocks = (tensor->item.bytes + EXG_SAVE_BLOCK_BYTES - 1) / EXG_SAVE_BLOCK_BYTES;

    if (weight == NULL) {
        return take(user, tensor->item.data, tensor->item.bytes, s->err);
    }
    EXG_TRY(exg_storage_map(s->weights, weight->storage, &data, s->err));
    if (data != NULL && tensor->item.bytes > 0 && exg_tensor_meta_is_packed(weight->meta)) {
        EXG_TRY(exg_tensor_meta_check_view(weight->meta,
                                           s->weights->storages[weight->storage].length, s->err));
        return put_mapped(&p, data + (uint64_t)weight->meta->storage_offset.value * p.width);
    }
    EXG_TRY(exg_pipeline_run(tensor->item.bytes > EXG_SAVE_BLOCK_BYTES ? s->pool : NULL, blocks,
                             gather_block, put_block, &p, s->err));
    exg_storage_forget(s->weights, weight->storage, 0,
                       s->weights->storages[weight->storage].length);
    return EXG_OK;
}

static exg_status to_file(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    return exg_writer_write(user, bytes, length, err);
}

exg_status exg_saver_write_tensor(exg_weights_saver *s, const exg_saved_file *file,
                                  const exg_saved_tensor *tensor)
{
    return exg_saver_put_tensor(s, file, tensor, to_file, file->writer);
}
