/* fuzz_exg.c - any bytes as an .exg file, as they are and with lengths, checksum and
 * digest made true, so that what lies behind them is reached. What opens is copied,
 * compared, printed, and its weights are read.
 */
#include "tests/fuzz/fuzz.h"

#include <exg/formats.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Weights without a program. */
static void open_weights(const void *data, size_t size, const exg_open_options *options)
{
    exg_weights *weights = NULL;

    if (exg_weights_open_memory(data, size, options, &weights, NULL, NULL) != EXG_OK) {
        return;
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        if (weights->storages[i].length < 1 << 22) {
            exg_ignore(exg_storage_check(weights, i, NULL));
        }
    }
    exg_weights_release(weights);
}

static void open_bytes(const void *data, size_t size)
{
    exg_open_options options = {.size = sizeof(options), .memory_budget = 16 << 20};
    exg_program *program = NULL;
    exg_program *copy = NULL;
    exg_error err;
    char *text = NULL;

    open_weights(data, size, &options);
    exg_error_clear(&err);
    if (exg_open_memory(data, size, &options, &program, NULL, &err) != EXG_OK) {
        if (program != NULL || err.code[0] == '\0') {
            abort();
        }
        return;
    }
    for (uint32_t i = 0; i < program->weights->storage_count; i++) {
        if (program->weights->storages[i].length < 1 << 22) {
            exg_ignore(exg_storage_check(program->weights, i, NULL));
        }
    }
    if (exg_program_copy(program, &copy, NULL) == EXG_OK) {
        (void)exg_program_equal(program, copy, false, NULL); /* names may repeat: either */
    }
    if (exg_program_print(program, &text, NULL) == EXG_OK) {
        free(text);
    }
    exg_program_destroy(copy);
    exg_program_destroy(program);
}

/* The place of Facts, or 0. */
static size_t facts_of(const uint8_t *data, size_t size)
{
    uint32_t root;
    int32_t back;
    uint16_t field;
    int64_t table;

    if (size < 64) {
        return 0;
    }
    memcpy(&root, data, sizeof(root));
    if (root > size - 4) {
        return 0;
    }
    memcpy(&back, data + root, sizeof(back));
    table = (int64_t)root - back;
    if (table < 0 || (uint64_t)table > size - 6) {
        return 0;
    }
    memcpy(&field, data + table + 4, sizeof(field));
    return root + (size_t)field <= size - 40 ? root + (size_t)field : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t facts = facts_of(data, size);
    uint8_t *mended;
    uint64_t numbers[5] = {size};

    open_bytes(data, size);
    mended = facts == 0 ? NULL : malloc(size);
    if (mended == NULL) {
        return 0;
    }
    memcpy(mended, data, size);
    memcpy(&numbers[1], data + facts + 8, sizeof(uint64_t));
    if (numbers[1] > size || numbers[1] < facts + sizeof(numbers)) {
        numbers[1] = size;
    }
    memset(mended + facts, 0, sizeof(numbers));
    memcpy(mended + facts, numbers, 2 * sizeof(uint64_t));
    {
        XXH128_hash_t wide = XXH3_128bits(mended, numbers[1]);

        numbers[2] = XXH3_64bits(mended, numbers[1]);
        numbers[3] = wide.low64;
        numbers[4] = wide.high64;
    }
    memcpy(mended + facts, numbers, sizeof(numbers));
    open_bytes(mended, size);
    free(mended);
    return 0;
}
