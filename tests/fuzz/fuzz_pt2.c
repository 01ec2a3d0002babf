/* fuzz_pt2.c - any bytes as an archive, or as one record of an honest archive. What
 * opens is printed, copied, compared, and its weights are read.
 *
 * First byte: J the model's JSON, W the weights config, S the pickle of the example
 * inputs (with one storage), V the bytes of the weight; else an archive.
 */
#include "tests/export/maker.h"
#include "tests/fuzz/fuzz.h"

#include <exg/formats.h>
#include <stdlib.h>

static void read_weights(exg_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *w = &weights->items[i];
        uint64_t bytes;
        void *out;

        if (w->meta == NULL || exg_tensor_meta_bytes(w->meta, &bytes, NULL) != EXG_OK ||
            bytes > 1 << 16) {
            continue;
        }
        out = malloc(bytes + 1);
        if (out != NULL) {
            exg_ignore(exg_weight_read(weights, w, out, bytes, NULL));
        }
        free(out);
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        exg_ignore(exg_storage_check(weights, i, NULL));
    }
}

static void open_bytes(const void *data, size_t size)
{
    exg_open_options options = {.size = sizeof(options), .memory_budget = 16 << 20};
    exg_program *program = NULL;
    exg_program *copy = NULL;
    exg_error err;
    char *text = NULL;

    exg_error_clear(&err);
    if (exg_open_memory(data, size, &options, &program, NULL, &err) != EXG_OK) {
        if (program != NULL || err.code[0] == '\0') {
            abort();
        }
        return;
    }
    read_weights(program->weights);
    if (exg_program_print(program, &text, NULL) == EXG_OK) {
        free(text);
    }
    if (exg_program_copy(program, &copy, NULL) == EXG_OK &&
        !exg_program_equal(program, copy, false, NULL)) {
        abort();
    }
    exg_program_destroy(copy);
    exg_program_destroy(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    zip_maker zip = {0};
    zip_maker inner = {0};
    record change = {NULL, text, size - 1};

    switch (size == 0 ? 0 : data[0]) {
    case 'J':
        change.name = "models/model.json";
        break;
    case 'W':
        change.name = "data/weights/model_weights_config.json";
        break;
    case 'V':
        change.name = "data/weights/weight_0";
        break;
    case 'S':
        zip_add(&inner, "archive/data.pkl", text, size - 1);
        zip_add(&inner, "archive/data/0", "0123456789abcdef", 16);
        zip_finish(&inner);
        change = (record){"data/sample_inputs/model.pt", inner.out.data, inner.out.length};
        break;
    default:
        open_bytes(data, size);
        return 0;
    }
    make_program(&zip, &change, 1);
    open_bytes(zip.out.data, zip.out.length);
    zip_free(&zip);
    zip_free(&inner);
    return 0;
}
